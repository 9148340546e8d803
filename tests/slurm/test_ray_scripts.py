"""`ray.sbatch` with an srun and a scontrol that write down what they are asked, and no Ray."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.slurm.programs import SCRIPTS, write_echo

# Shows its words and Ray's variables. Nodes are waited for until srun has begun, and a program
# named `slow` goes on until it is ended.
PYTHON = """#!/bin/bash
if [[ $1 == slurm/await_nodes.py ]]; then until [[ -s $ASKED ]]; do sleep 0.02; done; fi
IFS="|"; echo "$*"
echo "$RAY_ADDRESS|$RAY_AUTH_MODE|${#RAY_AUTH_TOKEN}|$RAY_USAGE_STATS_ENABLED"
if [[ $1 == slow ]]; then
  trap 'exit 143' TERM
  touch "$WORK/slow"
  while true; do sleep 0.05; done
fi
[[ $1 != fails ]] || exit 3
"""


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """The environment of a job of two nodes."""
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {
        "srun": 'echo "srun|$*" >>"$ASKED"; trap "exit 0" TERM; while true; do sleep 0.05; done',
        "scontrol": 'if [[ $1 == show ]]; then echo localhost; else echo "$*" >>"$ASKED"; fi',
    }
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/bash\nIFS='|'\n{body}\n")
    (folder / "python").write_text(PYTHON)
    for program in folder.iterdir():
        program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "WORK": str(tmp_path / "work"),
        "PYTHON": str(folder / "python"),
        "ASKED": str(tmp_path / "asked"),
        "SLURM_FILES": str(SCRIPTS),
        "SLURM_JOB_ID": "30017",
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_NTASKS": "2",
        "GPUS_PER_NODE": "0",
        "CPUS_PER_TASK": "3",
    }


def begin(job: dict[str, str], *words: str, **more: str) -> "subprocess.Popen[str]":
    command = ["bash", str(SCRIPTS / "ray.sbatch"), *words]
    return subprocess.Popen(
        command, env={**job, **more}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, list[str]]:
    output, errors = process.communicate(timeout=60)
    assert errors == "", errors
    return process.returncode, output.splitlines()


def asked(job: dict[str, str]) -> list[str]:
    path = Path(job["ASKED"])
    return path.read_text().splitlines() if path.exists() else []


def test_a_command_runs_once_all_nodes_are_there(job: dict[str, str]) -> None:
    words = ["inference/extract.py", "--engine", "ray", "--out", "new file"]
    status, lines = finish(begin(job, *words))
    assert status == 0
    assert lines[0] == "slurm/await_nodes.py|2"
    assert lines[2] == "|".join(words)
    assert lines[1] == lines[3] == "127.0.0.1:26017|token|64|0"
    python = job["PYTHON"]
    assert asked(job) == [f"srun|--overlap|--kill-on-bad-exit=0|{SCRIPTS}/ray_node.sh|{python}"]
    assert finish(begin(job, "fails"))[0] == 3
    refused = begin(job)
    assert refused.wait(60) == 2 and "give a program" in refused.communicate()[1]


@pytest.mark.parametrize(
    ("number", "requeued"), [(signal.SIGUSR1, ["requeue|30017"]), (signal.SIGTERM, [])]
)
def test_a_warned_command_is_ended_and_its_job_requeued(
    number: signal.Signals, requeued: list[str], job: dict[str, str]
) -> None:
    process = begin(job, "slow")
    try:
        while not (Path(job["WORK"]) / "slow").exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        assert finish(process)[0] == 143
    finally:
        process.kill()
    assert asked(job)[1:] == requeued


def test_a_requeued_command_is_told_to_go_on(job: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    words = ("inference/evaluate.py", "--out")

    def run(out: str, **more: str) -> str:
        given = {"RESUME_OPTIONS": "--resume --limit 3", **more}
        return finish(begin(job, *words, str(tmp_path / out), **given))[1][2]

    own = "|".join((*words, str(tmp_path / "there")))
    assert run("there") == own
    assert run("there", SLURM_RESTART_COUNT="1") == f"{own}|--resume|--limit|3"
    assert run("gone", SLURM_RESTART_COUNT="1") == "|".join((*words, str(tmp_path / "gone")))


def test_the_first_task_is_the_head(job: dict[str, str]) -> None:
    given = {**job, "RAY_ADDRESS": "10.0.0.7:6400", "RAY_FOLDER": "/tmp/ray-x"}

    def shown(task: str) -> str:
        command = [str(SCRIPTS / "ray_node.sh"), job["PYTHON"]]
        done = subprocess.run(
            command, env={**given, "SLURM_PROCID": task}, capture_output=True, text=True
        )
        return done.stdout.splitlines()[0]

    same = "--block|--disable-usage-stats|--num-cpus|3|--num-gpus|0"
    start = "-m|ray.scripts.scripts|start"
    assert shown("0") == (
        f"{start}|--head|--node-ip-address|10.0.0.7|--port|6400|--include-dashboard=false|"
        f"--temp-dir|/tmp/ray-x|{same}"
    )
    assert shown("1") == f"{start}|--address|10.0.0.7:6400|{same}"


def test_it_is_submitted_for_all_nodes_and_warned_in_time(
    job: dict[str, str], tmp_path: Path
) -> None:
    write_echo(tmp_path / "bin" / "sbatch")
    command = [str(SCRIPTS / "submit.sh"), "--", "slurm/ray.sbatch", "inference/extract.py"]
    given = {**job, "NODES": "4", "GRACE": "90", "GPUS_PER_NODE": "2"}
    done = subprocess.run(command, env=given, capture_output=True, text=True)
    words = set(done.stdout.strip().split("|"))
    assert {"--nodes=4", "--ntasks-per-node=1", "--signal=B:USR1@90", "--requeue"} <= words
    assert {"--gres=gpu:2", "inference/extract.py"} <= words
