"""Starting one training as two processes on CPUs, in each form that they can share the work."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.harness.forms import DDP, FORMS
from tests import processes
from tests.training.conftest import ROOT

needs_deepspeed = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None,
    reason="DeepSpeed is not installed: pip install -e '.[deepspeed]'",
)
# Every form as a parameter.
ALL_FORMS = [
    pytest.param(form, marks=[needs_deepspeed] if form.startswith("zero") else []) for form in FORMS
]


def without_compiling() -> None:
    """Keep DeepSpeed from compiling a helper for a minute, which gloo does without."""
    if os.environ.get("ACCELERATE_USE_DEEPSPEED"):
        import deepspeed.ops

        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def launch(script: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    """Start a script twice, as one training on CPUs; in the form of `environment`, else DDP."""
    command = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    return subprocess.Popen(
        [sys.executable, *command, str(ROOT / "training" / script), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or DDP)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def in_turn(commands: Sequence[Sequence[str]], form: str) -> str:
    """Run training commands one after another; returns what they wrote to standard error.

    Args:
        commands: a script of training/ and its arguments, each.
        form: of FORMS, as two processes; `one`: as one process.
    """
    script = str(ROOT / "tests/training/in_turn.py")
    given = json.dumps([list(command) for command in commands])
    if form == "one":
        done = processes.run(Path(script), given)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stderr
    process = launch(script, given, **FORMS[form])
    output = process.communicate()[1]
    assert process.returncode == 0, error_of(output)
    return output


def error_of(output: str) -> str:
    """What a process wrote about its error, without what the launcher says after it."""
    return output.partition("elastic/multiprocessing")[0][-3000:]


def own_folders(parent: Path, name: str, contents: Sequence[str]) -> Path:
    """A script that runs its arguments in a folder of each process's own, with a file in it."""
    for rank, content in enumerate(contents):
        folder = parent / f"node{rank}"
        folder.mkdir()
        (folder / name).write_text(content)
    script = parent / "own_folder.py"
    script.write_text(
        "import os, runpy, sys\n"
        "from tests.training.launches import without_compiling\n"
        "without_compiling()\n"
        f"os.chdir({str(parent / 'node')!r} + os.environ['RANK'])\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    return script
