"""Starting one training as two processes on CPUs, in each form that they can share the work."""

import importlib.util
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from torch.distributed import TCPStore

from benchmarks.harness.forms import DDP, FORMS
from tests import processes
from tests.training.conftest import ROOT

needs_deepspeed = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None,
    reason="DeepSpeed is not installed: pip install -e '.[deepspeed]'",
)
PROCESSES = 2
# Every form as a parameter.
ALL_FORMS = [
    pytest.param(form, marks=[needs_deepspeed] if form.startswith("zero") else []) for form in FORMS
]


def without_compiling() -> None:
    """Keep DeepSpeed from compiling a helper for a minute, which gloo does without."""
    if os.environ.get("ACCELERATE_USE_DEEPSPEED"):
        import deepspeed.ops

        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


class Launch:
    """A script started twice, as one training on CPUs, in a form of FORMS.

    Of torchrun's part this does what a training sees: places, and a store at which they meet. Its
    three interpreters would import everything for 20 seconds of a core; `torchrun` below is for the
    one test that it starts our processes too.
    """

    def __init__(self, script: Path, *arguments: str, form: str) -> None:
        # It lives here and not in the first process, as torchrun's does: no port is lost between.
        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        meeting = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self._store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "WORLD_SIZE": str(PROCESSES),
            "LOCAL_WORLD_SIZE": str(PROCESSES),
        }
        given = {**os.environ, **FORMS[form], **meeting}
        self._started = [
            processes.begin(script, *arguments, env={**given, "RANK": rank, "LOCAL_RANK": rank})
            for rank in map(str, range(PROCESSES))
        ]

    def wait(self) -> tuple[list[int], str]:
        """Wait for the end of both; their exit codes, and what both wrote to standard error.

        Where one fails the other has a minute to end itself, and is killed after it.
        """
        codes = processes.wait_together(self._started, grace=60)
        return codes, "".join(process.errors for process in self._started)


def torchrun(script: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a script by torchrun as two processes on CPUs, to its end."""
    command = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(PROCESSES))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **DDP}
    return processes.fresh(*command, script, *arguments, env=environment)


def in_turn(commands: Sequence[Sequence[str]], form: str) -> str:
    """Run training commands one after another; returns what they wrote to standard error.

    Args:
        commands: a script of training/ and its arguments, each.
        form: of FORMS, as two processes; `one`: as one process.
    """
    script = ROOT / "tests/training/in_turn.py"
    given = json.dumps([list(command) for command in commands])
    if form == "one":
        done = processes.run(script, given)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stderr
    codes, errors = Launch(script, given, form=form).wait()
    assert codes == [0, 0], errors[-3000:]
    return errors


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
