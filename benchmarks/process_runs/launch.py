"""Starting a measured training in one form, in processes of its own; failures are results."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.process_runs.forms import FORMS, ONE_THREADED, is_installed

ROOT = Path(__file__).resolve().parents[2]
WORKER = "benchmarks.process_runs.worker"
# In the launcher's words; a process that a signal ended writes nothing itself.
_EXIT_CODE = re.compile(r"exitcode: (-?\d+)")


@dataclass(frozen=True)
class Plan:
    """What every form trains.

    Attributes:
        config, overrides: the recipe, with its data.
        batch_size: samples a step and accumulation of all processes together.
        processes: of every form but one process.
        warm_up: first steps that do not count.
    """

    config: Path
    overrides: list[str]
    batch_size: int
    processes: int
    warm_up: int
    limit_seconds: float


def run_form(form: str, plan: Plan, folder: Path) -> dict[str, Any]:
    """Train in one form; its figures, or why there are none, under `status`."""
    if not is_installed(form):
        return {"status": "DeepSpeed is not installed: pip install -e '.[deepspeed]'"}
    out = folder / f"{form}.json"
    out.unlink(missing_ok=True)
    count = plan.processes if form in FORMS else 1
    threads = str(plan.processes if form == ONE_THREADED else 1)
    command = [sys.executable, *_launcher(form, count), "-m", WORKER, "--out", str(out)]
    command += ["--config", str(plan.config), *plan.overrides, f"output_dir={folder / 'run'}"]
    command += [f"train.batch_size={plan.batch_size // count}", f"train.num_processes={count}"]
    hidden = {"ACCELERATE_USE_CPU", "ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    environment = {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        # DeepSpeed looks for `ninja` there.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "CUDA_VISIBLE_DEVICES": "",
        "TOKENIZERS_PARALLELISM": "false",
        **FORMS.get(form, {}),
    }
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=plan.limit_seconds
        )
    except subprocess.TimeoutExpired:
        return {"status": "timed out"}
    if done.returncode or not out.is_file():
        return {"status": f"failed: {_last_error(done.stderr)}"}
    return {"status": "ok", **json.loads(out.read_text(encoding="utf-8"))}


def _launcher(form: str, count: int) -> list[str]:
    if form not in FORMS:
        return []
    # Standalone: the launcher's own port, which no other process can take in between.
    return ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count)]


def _last_error(errors: str) -> str:
    """The last line that a process wrote before its launcher told of it, and the exit codes."""
    own = errors.partition("elastic/multiprocessing")[0].strip().splitlines()
    # The launcher's own line, cut off in its path.
    own = [line for line in own if not line.endswith("torch/distributed/")]
    lines = [line for line in own if "error" in line.lower()]
    codes = sorted(set(_EXIT_CODE.findall(errors)))
    ended = f" (exit code {', '.join(codes)})" if codes else ""
    return (lines or own or ["no message"])[-1] + ended
