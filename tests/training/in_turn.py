"""Run several training commands one after another in this process, to import torch once.

torchrun ... in_turn.py '[["train_t2t.py", "--config", ...], ...]'
"""

import json
import runpy
import sys

from tests.training.conftest import ROOT
from tests.training.launches import without_compiling

without_compiling()
for script, *arguments in json.loads(sys.argv[1]):
    sys.argv = [script, *arguments]
    runpy.run_path(str(ROOT / "training" / script), run_name="__main__")
