"""Run several training commands one after another in this process, to import torch once.

torchrun ... in_turn.py '[["train_t2t.py", "--config", ...], ...]'
"""

import json
import os
import runpy
import sys

from tests.training.conftest import ROOT

if os.environ.get("ACCELERATE_USE_DEEPSPEED"):
    import deepspeed.ops

    # It compiles this helper for a minute, for processes that share a machine; gloo does without.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False

for script, *arguments in json.loads(sys.argv[1]):
    sys.argv = [script, *arguments]
    runpy.run_path(str(ROOT / "training" / script), run_name="__main__")
