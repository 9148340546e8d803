"""The batch scripts, with an sbatch and an srun that write down what they are asked."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.slurm.programs import ROOT, SCRIPTS, asked, run, write_echo


def test_the_pipeline_waits_for_what_it_needs(cluster: dict[str, str]) -> None:
    done = run(cluster, str(SCRIPTS / "pipeline.sh"), ACCOUNT="lab", NODES="2", GPUS_PER_NODE="8")
    assert done.returncode == 0, done.stderr
    jobs = asked(cluster)
    scripts = [next(Path(a).name for a in job if a.endswith(".sbatch")) for job in jobs]
    trainings = [f"train_{name}.sbatch" for name in ("t2t", "ras", "tri_rag")]
    assert scripts == ["build_data.sbatch", *trainings, "evaluate.sbatch", "merge.sbatch"]
    needs = [[a for a in job if a.startswith("--dependency")] for job in jobs]
    after = "--dependency=afterok:"
    assert needs == [[], *[[f"{after}1"]] * 3, [f"{after}2:3"], [f"{after}5"]]
    assert all("--account=lab" in job for job in jobs)
    train = jobs[2]
    assert {"--nodes=2", "--ntasks-per-node=8", "--gres=gpu:8", "--signal=USR1@300"} <= set(train)
    at = train.index(str(SCRIPTS / "train_ras.sbatch"))
    work = cluster["WORK"]
    wanted = ["ras_llama3_8b", f"{work}/data/build_subq", f"{work}/ras"]
    assert train[at + 1 :] == wanted
    for recipe in ("t2t_llama3_2_3b", "ras_llama3_8b", "tri_rag_llama3_8b"):
        assert (ROOT / "configs" / f"{recipe}.yaml").is_file()


def test_shards_are_tasks_and_their_merges_jobs(cluster: dict[str, str]) -> None:
    more = {"SHARDS": "4", "QUESTION_SHARDS": "3", "LOOPS": "single ras", "RAS_VALUES": "a=1 b=2"}
    done = run(cluster, str(SCRIPTS / "pipeline.sh"), **more)
    assert done.returncode == 0, done.stderr
    jobs = asked(cluster)
    arrays = [[a for a in job if a.startswith("--array")] for job in jobs]
    tasks = [["--array=0-11"], ["--array=0-2"], [], [], [], ["--array=0-5"], []]
    assert arrays == tasks
    assert [Path(job[-1]).name for job in jobs[:2]] == ["build_data.sbatch", "merge_data.sbatch"]
    after = [next(a for a in job if a.startswith("--dependency")) for job in jobs[1:]]
    assert after == [f"--dependency=afterok:{n}" for n in ("1", "2", "2", "2", "3:4", "6")]
    assert jobs[3][-3:] == [f"{cluster['WORK']}/ras", "a=1", "b=2"]
    logs = [next(a for a in job if a.startswith("--output")) for job in jobs]
    names = [Path(log).name for log in logs]
    assert names == ["%x-%A_%a.out" if array else "%x-%j.out" for array in arrays]


@pytest.mark.parametrize(("srun_status", "status"), [(0, 0), (75, 75), (1, 1)])
def test_a_training_starts_its_processes(
    srun_status: int, status: int, cluster: dict[str, str]
) -> None:
    slurm = {
        "SLURM_FILES": str(SCRIPTS),
        "SLURM_JOB_ID": "30017",
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_NTASKS": "8",
        "SRUN_STATUS": str(srun_status),
    }
    given = ("t2t_tiny", "DATA", "OUT", "train.seed=3")
    command = ["bash", str(SCRIPTS / "train_t2t.sbatch"), *given]
    done = run(cluster, *command, **slurm)
    assert done.returncode == status, done.stderr
    assert ("submit the same command to go on" in done.stdout) == (status == 75)
    [started] = asked(cluster)
    program = [sys.executable, "training/train_t2t.py", "--config", "configs/t2t_tiny.yaml"]
    assert started[1:8] == ["--kill-on-bad-exit=0", "--wait=60", str(SCRIPTS / "rank.sh"), *program]
    same = run(cluster, "bash", str(SCRIPTS / "train.sbatch"), "t2t", *given, **slurm)
    assert same.returncode == status and asked(cluster) == [started, started]
    added = {"train.num_processes=8", "train.resume=auto", "train.slurm_requeue=true"}
    assert {"data.train=DATA/train.jsonl", "output_dir=OUT", "train.seed=3", *added} <= set(started)
    refused = run(cluster, *command, **slurm, PARALLEL="magic")
    assert refused.returncode == 2 and "write ddp, fsdp2, zero2 or zero3" in refused.stderr


def test_a_process_learns_its_place(cluster: dict[str, str]) -> None:
    place = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_NNODES": "2"}
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "ACCELERATE_USE_CPU")
    shown = f"import os, json; print(json.dumps([os.environ.get(n) for n in {names}]))"
    command = [str(SCRIPTS / "rank.sh"), sys.executable, "-c", shown]
    gpus = run(cluster, *command, **place, GPUS_PER_NODE="4")
    assert json.loads(gpus.stdout) == ["5", "8", "1", "4", None]
    cpus = run(cluster, *command, **place, GPUS_PER_NODE="0")
    assert json.loads(cpus.stdout) == ["5", "8", "1", "4", "true"]
    zero = run(cluster, *command, **place, GPUS_PER_NODE="0", DS_ACCELERATOR="cpu")
    assert json.loads(zero.stdout) == ["5", "8", "1", "4", None]


@pytest.mark.parametrize("stage", ["2", "3"])
def test_a_training_under_zero_says_so_to_its_processes(
    stage: str, cluster: dict[str, str], tmp_path: Path
) -> None:
    srun = tmp_path / "bin" / "srun"
    srun.write_text(f"#!/bin/bash\nenv > {tmp_path / 'environment'}\n")
    srun.chmod(0o755)
    slurm = {"SLURM_FILES": str(SCRIPTS), "SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "node[1-2]"}
    given = ("t2t", "t2t_tiny", "DATA", "OUT")
    for gpus, accelerator in (("4", None), ("0", "cpu")):
        more = {"SLURM_NTASKS": "8", "PARALLEL": f"zero{stage}", "GPUS_PER_NODE": gpus}
        done = run(cluster, "bash", str(SCRIPTS / "train.sbatch"), *given, **slurm, **more)
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / "environment").read_text().splitlines()
        said = dict(line.partition("=")[::2] for line in lines)
        assert said["ACCELERATE_USE_DEEPSPEED"] == "true"
        assert said["ACCELERATE_DEEPSPEED_ZERO_STAGE"] == stage
        assert said.get("DS_ACCELERATOR") == accelerator


def test_an_array_has_a_task_for_each_entry(cluster: dict[str, str], tmp_path: Path) -> None:
    command = ["bash", str(SCRIPTS / "build_data.sbatch")]
    shown = write_echo(tmp_path / "bin" / "python")
    environment = {"SLURM_FILES": str(SCRIPTS), "SOURCES": "musique=/m world=/w"}
    environment["PYTHON"] = str(shown)
    done = run(cluster, *command, **environment, SLURM_ARRAY_TASK_ID="1")
    sources = ["--source", "musique=/m", "--source", "world=/w"]
    wanted = ["data_gen/build_triples.py", *sources, "--out"]
    assert done.stdout.strip().split("|") == [*wanted, f"{cluster['WORK']}/data/build_triples"]
    for builder in ("build_subq", "build_triples", "build_conditions"):
        assert (ROOT / "data_gen" / f"{builder}.py").is_file()
    beyond = run(cluster, *command, **environment, SLURM_ARRAY_TASK_ID="7")
    assert beyond.returncode != 0 and "BUILDERS in settings.sh has 3 entries" in beyond.stderr
    parted = {**environment, "SHARDS": "4", "DATA_OPTIONS": "--seed 7"}
    done = run(cluster, *command, **parted, SLURM_ARRAY_TASK_ID="6")
    out = f"{cluster['WORK']}/data/shards/build_triples/3-of-4"
    given = ["--seed", "7", *sources, "--shard", "3/4", "--out", out]
    assert done.stdout.strip().split("|") == ["data_gen/build_triples.py", *given]
    beyond = run(cluster, *command, **parted, SLURM_ARRAY_TASK_ID="12")
    assert (
        beyond.returncode != 0
        and "BUILDERS in settings.sh has 3 entries, 4 task(s) each" in beyond.stderr
    )
    nothing = run(cluster, *command, **{**environment, "SOURCES": ""}, SLURM_ARRAY_TASK_ID="0")
    assert nothing.returncode == 2 and "set SOURCES" in nothing.stderr


def test_an_evaluation_is_one_task_a_loop_or_several(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    shown = write_echo(tmp_path / "bin" / "python")
    environment = {"SLURM_FILES": str(SCRIPTS), "QUESTIONS": "q.jsonl", "PYTHON": str(shown)}
    environment |= {"LOOPS": "single ras", "EVALUATE_OPTIONS": "--limit 9"}
    results = Path(cluster["WORK"]) / "results"

    def shows(script: str, **more: str) -> list[list[str]]:
        done = run(cluster, "bash", str(SCRIPTS / script), **environment, **more)
        assert done.returncode == 0, done.stderr
        return [line.split("|") for line in done.stdout.splitlines()]

    loop = ["inference/evaluate.py", "--limit", "9", "--loop", "ras", "--dataset", "q.jsonl"]
    assert shows("evaluate.sbatch", SLURM_ARRAY_TASK_ID="1") == [
        [*loop, "--out", str(results / "ras")]
    ]
    parted = {"QUESTION_SHARDS": "2"}
    part = results / "ras" / "shards" / "2-of-2"
    [asked_for] = shows("evaluate.sbatch", **parted, SLURM_ARRAY_TASK_ID="3")
    assert asked_for == [*loop, "--shard", "2/2", "--out", str(part)]
    part.mkdir(parents=True)
    [asked_for] = shows("evaluate.sbatch", **parted, SLURM_ARRAY_TASK_ID="3")
    assert asked_for == [*loop, "--shard", "2/2", "--resume", "--out", str(part)]
    (part / "shard.json").touch()
    assert shows("evaluate.sbatch", **parted, SLURM_ARRAY_TASK_ID="3") == [[f"{part} is finished"]]
    joined = ["slurm/merge_results.py", "--out", str(results / "results.json")]
    joined += [str(results / "single"), str(results / "ras")]
    assert shows("merge.sbatch") == [joined]
    merges = [
        [
            "inference/merge_evaluation.py",
            *(str(results / name / "shards" / f"{number}-of-2") for number in (1, 2)),
            *("--out", str(results / name)),
        ]
        for name in ("single", "ras")
    ]
    assert shows("merge.sbatch", **parted) == [*merges, joined]


def test_nothing_is_served_to_a_network_without_a_key(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    shown = write_echo(tmp_path / "bin" / "python")
    environment = {"SLURM_FILES": str(SCRIPTS), "PYTHON": str(shown), "SERVE_PORT": "8123"}

    def serves(*options: str, **more: str) -> "subprocess.CompletedProcess[str]":
        command = ("bash", str(SCRIPTS / "serve.sbatch"), "runs/ras", *options)
        return run(cluster, *command, **environment, **{"TRIVIUM_API_KEY": "", **more})

    for more in ({}, {"SERVE_HOST": "node7"}):
        refused = serves(**more)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "export TRIVIUM_API_KEY" in refused.stderr
    # An option of serve.py would get round it.
    for option in ("--host", "--host=0.0.0.0"):
        refused = serves(option, "0.0.0.0", SERVE_HOST="127.0.0.1")
        assert refused.returncode == 2 and "SERVE_HOST" in refused.stderr
    cases = [("0.0.0.0", "a secret"), ("127.0.0.1", "")]
    for host, key in cases:
        done = serves("--deadline", "60", SERVE_HOST=host, TRIVIUM_API_KEY=key)
        assert done.returncode == 0, done.stderr
        assert "a secret" not in done.stdout + done.stderr
        asked_for = done.stdout.splitlines()[-1].split("|")
        assert asked_for[:3] == ["inference/serve.py", "--adapter", "ras=runs/ras"]
        assert asked_for[3:7] == ["--host", host, "--port", "8123"]
        assert asked_for[-2:] == ["--deadline", "60"]


def test_an_index_is_served_to_those_who_are_named(cluster: dict[str, str], tmp_path: Path) -> None:
    shown = write_echo(tmp_path / "bin" / "python")
    command = ("bash", str(SCRIPTS / "milvus.sbatch"), "runs/index")
    environment = {"SLURM_FILES": str(SCRIPTS), "PYTHON": str(shown), "MILVUS_PORT": "8123"}
    refused = run(cluster, *command, **environment, MILVUS_HOST="")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "export MILVUS_HOST" in refused.stderr
    refused = run(cluster, *command, "--host=0.0.0.0", **environment, MILVUS_HOST="127.0.0.1")
    assert refused.returncode == 2
    done = run(cluster, *command, **environment, MILVUS_HOST="127.0.0.1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split("|") == [
        *("-m", "milvus_lite", "server", "--data-dir", "runs/index"),
        *("--host", "127.0.0.1", "--port", "8123"),
    ]


@pytest.fixture
def apptainer(cluster: dict[str, str], tmp_path: Path) -> Path:
    """An apptainer that writes down its options and runs the command; returns where.

    As the real one it takes the environment along, runs the command as a child, hands signals on
    and ends with the child's code.
    """
    asked_for = tmp_path / "apptainer_asked"
    program = tmp_path / "bin" / "apptainer"
    program.write_text(f"""#!/bin/bash
options=()
until [[ $1 == *.sif ]]; do options+=("$1"); shift; done
(IFS="|"; echo "${{options[*]}}|$1" >> {asked_for})
shift
PATH=${{APPTAINERENV_PREPEND_PATH:+$APPTAINERENV_PREPEND_PATH:}}$PATH "$@" &
trap 'kill -TERM $!' TERM
trap 'kill -USR1 $!' USR1
while kill -0 $! 2>/dev/null; do wait $!; code=$?; done
exit $code
""")
    program.chmod(0o755)
    return asked_for


def entered(folders: list[str], *more: str) -> list[str]:
    """Options with which a container is entered, and the image."""
    binds = [word for folder in folders for word in ("--bind", folder)]
    return ["exec", "--pwd", str(ROOT), *binds, *more, "/images/t.sif"]


def test_a_container_is_entered_with_what_the_job_needs(
    cluster: dict[str, str], apptainer: Path, tmp_path: Path
) -> None:
    shown = tmp_path / "bin" / "python"
    shown.write_text('#!/bin/bash\nIFS="|"; echo "$PYTHONPATH|$TRIVIUM_API_KEY|$*"\n')
    shown.chmod(0o755)
    given = {
        "SLURM_FILES": str(SCRIPTS), "CONTAINER": "/images/t.sif", "PYTHON": str(shown),
        "TRIVIUM_API_KEY": "a secret", "QUESTIONS": "q.jsonl", "SOURCES": "world=/w",
        "SLURM_ARRAY_TASK_ID": "0", "BUILDERS": "build_subq", "LOOPS": "ras",
    }  # fmt: skip
    folders = [str(ROOT), str(SCRIPTS), cluster["WORK"]]
    wanted = [
        ("build_data.sbatch", {}, [*folders], ["--nv"], "data_gen/build_subq.py"),
        ("merge_data.sbatch", {"GPUS_PER_NODE": "0"}, folders, [], "data_gen/merge_shards.py"),
        ("merge.sbatch", {"GPUS_PER_NODE": "0"}, folders, [], "slurm/merge_results.py"),
        (
            "evaluate.sbatch", {"CONTAINER_OPTIONS": "--bind /data", "TRIVIUM_CACHE": "/c"},
            [*folders, "/c"], ["--nv", "--bind", "/data"], "inference/evaluate.py",
        ),
        ("serve.sbatch", {"HF_HOME": "/hub"}, [*folders, "/hub"], ["--nv"], "inference/serve.py"),
    ]  # fmt: skip
    for script, more, bound, options, program in wanted:
        done = run(cluster, "bash", str(SCRIPTS / script), "runs/ras", **{**given, **more})
        assert done.returncode == 0, done.stderr
        assert apptainer.read_text().splitlines()[-1].split("|") == entered(bound, *options)
        path, key, *command = done.stdout.splitlines()[-1].split("|")
        # A key goes by the environment alone: who lists processes sees no command's.
        assert (path, key, command[0]) == (str(ROOT), "a secret", program)
    assert "a secret" not in apptainer.read_text()
    assert run(cluster, "bash", "-c", f"source {SCRIPTS}/settings.sh; echo $PYTHON", PYTHON="",
               CONTAINER="/images/t.sif").stdout == "/opt/venv/bin/python\n"  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "received", "requeued"),
    [("TERM", "TERM", []), ("USR1", "USR1", [["requeue", "30017"]])],
)
def test_a_training_in_a_container_hears_signals_and_is_requeued_outside(
    sent: str, received: str, requeued: list[list[str]], cluster: dict[str, str],
    apptainer: Path, tmp_path: Path,
) -> None:  # fmt: skip
    folder = tmp_path / "bin"
    (folder / "srun").write_text(
        "#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\n"
        'SLURM_PROCID=0 SLURM_LOCALID=0 exec "$@"\n'
    )
    (folder / "scontrol").write_text(
        "#!/bin/bash\n[[ $1 != show ]] || exec echo node1\n"
        f'IFS="|"; echo "$*" >> {cluster["ASKED"]}\n'
    )
    # As a training: it asks for a requeue at the warning, and ends with 75 at either signal.
    training = folder / "python"
    training.write_text(
        f"""#!/bin/bash
trap 'echo TERM; exit 75' TERM
trap 'echo USR1; scontrol requeue "$SLURM_JOB_ID"; exit 75' USR1
touch {tmp_path}/started
while true; do sleep 0.05; done
"""
    )
    training.chmod(0o755)
    given = {
        **cluster, "SLURM_FILES": str(SCRIPTS), "CONTAINER": "/images/t.sif",
        "PYTHON": str(training), "SLURM_JOB_ID": "30017", "SLURM_JOB_NODELIST": "node1",
        "SLURM_NTASKS": "1", "SLURM_NNODES": "1",
    }  # fmt: skip
    command = ["bash", str(SCRIPTS / "train_t2t.sbatch"), "t2t_tiny", "DATA", "OUT"]
    with subprocess.Popen(
        command, env=given, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as job:
        try:
            while not (tmp_path / "started").exists():
                assert job.poll() is None
                time.sleep(0.02)
            for child in psutil.Process(job.pid).children():
                child.send_signal(getattr(signal, f"SIG{sent}"))
            output, _ = job.communicate(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
    assert job.returncode == 75
    assert output.splitlines()[0] == received
    asked_for = Path(cluster["ASKED"])
    assert (asked(cluster) if asked_for.exists() else []) == requeued
    assert not list(Path(cluster["WORK"]).glob("asked_of_scontrol*"))


def test_results_are_merged_or_the_missing_one_is_named(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    for number, loop in enumerate(("single", "ras")):
        folder = tmp_path / loop
        folder.mkdir()
        by_type = {"bridge": {"n": number, "em": 0.5, "f1": 0.5}}
        results = {"loop": loop, "n": number, "em": 0.5, "by_type": by_type}
        (folder / "results.json").write_text(json.dumps(results))
    merged = tmp_path / "merged.json"
    command = [sys.executable, str(SCRIPTS / "merge_results.py"), "--out", str(merged)]
    folders = [str(tmp_path / loop) for loop in ("single", "ras")]
    path = {"PYTHONPATH": str(ROOT)}
    assert run(cluster, *command, *folders, **path).returncode == 0
    assert [entry["loop"] for entry in json.loads(merged.read_text())] == ["single", "ras"]
    missing = run(cluster, *command, *folders, str(tmp_path / "none"), **path)
    assert missing.returncode == 1 and "none/results.json: no such file" in missing.stderr


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_scripts_are_clean() -> None:
    scripts = sorted([*SCRIPTS.glob("*.sh"), *SCRIPTS.glob("*.sbatch")])
    scripts += [SCRIPTS / "in_container" / "scontrol", ROOT / "containers" / "install.sh"]
    command = ["shellcheck", "-x", "-P", str(SCRIPTS), *map(str, scripts)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
