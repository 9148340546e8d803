"""The batch scripts on a real SLURM: preemption, arrays of shards, a pipeline's dependencies."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from models.formats.planning import HistoryStep
from models.formats.records import RasSample, write_records
from models.formats.triples import Triple
from tests.components import chat_backbone
from tests.slurm.cluster import ENDED, Cluster, NoCluster, job_settings, real_cluster
from tests.slurm.programs import ROOT, SCRIPTS
from tests.training.runs import course, steps_logged, weights
from training.run.run_folder import read_starts
from training.saving.checkpoints import resume_folder, verify_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.timeout(1800)]
TINY = ("train.logging_steps=1", "train.tensorboard=false", "validation.samples=2")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster for all tests of this file."""
    try:
        with real_cluster() as started:
            yield started
    except NoCluster as reason:
        pytest.skip(str(reason))


@dataclass(frozen=True)
class Material:
    """What the jobs work on: a tiny backbone, planner samples and a synthetic world."""

    backbone: Path
    samples: Path
    world: Path


@pytest.fixture(scope="module")
def material(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Material:
    folder = tmp_path_factory.mktemp("material")
    made = Material(folder / "backbone", folder / "samples", folder / "world")
    chat_backbone(made.backbone)
    samples: list[RasSample] = []
    for i in range(8):
        question = f"Where is Ada{i}?"
        history = [HistoryStep(f"Find Ada{i}", (Triple(f"Ada{i}", "lives in", f"City{i}"),))]
        samples += [
            RasSample(f"q{i}/plan/0", "plan", question, [], f"[SUBQ] Find Ada{i}"),
            RasSample(f"q{i}/answer", "answer", question, history, f"City{i}"),
        ]
    write_records(made.samples / "train.jsonl", samples)
    write_records(made.samples / "dev.jsonl", samples[:2])
    settings = job_settings(folder)
    build = ROOT / "data_gen/build_world.py"
    cluster.run(settings["PYTHON"], build, "--questions", "24", "--out", made.world)
    return made


def training(material: Material, out: Path, steps: int) -> list[str | Path]:
    """Arguments of `train_ras.sbatch`, after the script."""
    values = (f"model.backbone={material.backbone}", f"train.max_steps={steps}", *TINY)
    return ["ras_tiny", material.samples, out, *values]


def trained_further(cluster: Cluster, job: str, out: Path, steps: int = 2) -> None:
    """Wait until a running job has logged so many steps more."""
    before = steps_logged(out)

    def ended_or_further() -> bool:
        return steps_logged(out) >= before + steps or cluster.job(job)["JobState"] in ENDED

    cluster.until(ended_or_further, f"step of {job}")
    assert cluster.job(job)["JobState"] == "RUNNING", log_of(out.parent, job)


def log_of(work: Path, job: str) -> str:
    """What a job, or a task of an array, has written so far."""
    return "\n".join(path.read_text() for path in (work / "logs").glob(f"*-{job}.out"))


def waits_again(cluster: Cluster, job: str, times: int) -> None:
    """Wait until a job is back in the queue, and see that it was put there so many times."""
    cluster.until(lambda: cluster.job(job)["JobState"] == "PENDING", f"requeue of {job}")
    assert cluster.job(job)["Restarts"] == str(times)


def test_a_preempted_training_is_requeued_once_and_ends_as_the_same(
    cluster: Cluster, material: Material, tmp_path: Path
) -> None:
    settings = job_settings(tmp_path)

    def submit(out: str) -> str:
        arguments = training(material, tmp_path / out, 40)
        return cluster.submit("--", SCRIPTS / "train_ras.sbatch", *arguments, **settings)

    whole, preempted = submit("whole"), submit("preempted")
    # To the processes, as SLURM's own warning goes; to the batch script alone; to both.
    ways: tuple[tuple[str, ...], ...] = ((), ("--batch",), ("--full",))
    for times, way in enumerate(ways, start=1):
        trained_further(cluster, preempted, tmp_path / "preempted")
        cluster.run("scancel", *way, "--signal=USR1", preempted)
        waits_again(cluster, preempted, times)
        folder = resume_folder("last", str(tmp_path / "preempted"))
        assert folder is not None
        verify_checkpoint(folder)
        cluster.run("scontrol", "update", f"JobId={preempted}", "StartTime=now")
    assert cluster.wait(preempted) == cluster.wait(whole) == "COMPLETED"
    assert cluster.job(preempted)["Restarts"] == str(len(ways))
    assert cluster.job(whole)["Restarts"] == "0"
    starts = [
        s["slurm"].get("SLURM_RESTART_COUNT", "0") for s in read_starts(tmp_path / "preempted")
    ]
    assert starts == ["0", "1", "2", "3"]
    undisturbed = course(tmp_path / "whole")
    assert [entry["step"] for entry in undisturbed if "loss" in entry] == list(range(1, 41))
    assert course(tmp_path / "preempted") == undisturbed
    assert weights(tmp_path / "preempted") == weights(tmp_path / "whole")


def test_the_main_process_requeues_though_another_ends_before(
    cluster: Cluster, material: Material, tmp_path: Path
) -> None:
    slow = tmp_path / "bin" / "scontrol"
    slow.parent.mkdir()
    slow.write_text(
        '#!/bin/bash\n[[ $1 != requeue ]] || sleep 5\nPATH=${PATH#*:} exec scontrol "$@"\n'
    )
    slow.chmod(0o755)
    path = f"{slow.parent}:{os.environ['PATH']}"
    out = tmp_path / "out"
    job = cluster.submit(
        "--ntasks-per-node=2", "--", SCRIPTS / "train_ras.sbatch",
        *training(material, out, 100000), **job_settings(tmp_path, PATH=path),
    )  # fmt: skip
    trained_further(cluster, job, out)
    assert read_starts(out)[-1]["processes"]["number"] == 2
    cluster.run("scancel", "--signal=USR1", job)
    waits_again(cluster, job, 1)
    cluster.run("scancel", job)
    assert cluster.wait(job) == "CANCELLED"


def test_a_warned_task_of_an_array_requeues_itself_and_a_cancelled_one_does_not(
    cluster: Cluster, material: Material, tmp_path: Path
) -> None:
    script = tmp_path / "train_twice.sbatch"
    arguments = training(material, tmp_path / "run$SLURM_ARRAY_TASK_ID", 100000)
    quoted = " ".join(f'"{argument}"' for argument in ["ras", *arguments])
    script.write_text(f'#!/bin/bash\nsource "$SLURM_FILES/train.sbatch" {quoted}\n')
    settings = job_settings(tmp_path, GRACE="300", TRAIN_TIME="00:30:00")
    job = cluster.submit("--array=1-2", "--", script, **settings)
    for task in (1, 2):
        trained_further(cluster, f"{job}_{task}", tmp_path / f"run{task}")
    # Five minutes are left from now on, less what has passed: SLURM looks twice a minute.
    cluster.run("scontrol", "update", f"JobId={job}_1", "TimeLimit=5")
    waits_again(cluster, f"{job}_1", 1)
    other = cluster.job(f"{job}_2")
    assert (other["JobState"], other["Restarts"]) == ("RUNNING", "0")
    cluster.run("scancel", f"{job}_2")
    assert cluster.wait(f"{job}_2") == "CANCELLED"
    assert cluster.job(f"{job}_2")["Restarts"] == "0"
    for task in (1, 2):
        folder = resume_folder("last", str(tmp_path / f"run{task}"))
        assert folder is not None
        verify_checkpoint(folder)
    cluster.run("scancel", job)


def built(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_array_of_shards_and_its_merge_are_the_whole_build(
    cluster: Cluster, material: Material, tmp_path: Path
) -> None:
    given = {
        "SOURCES": f"world={material.world}",
        "BUILDERS": "build_subq",
        "DATA_OPTIONS": "--tokenizer words --fractions 0.8,0.2,0",
    }
    whole = job_settings(tmp_path / "whole", **given)
    parted = job_settings(tmp_path / "parted", SHARDS="4", **given)
    array = cluster.submit("--array=0-3", "--", SCRIPTS / "build_data.sbatch", **parted)
    after = f"--dependency=afterok:{array}"
    merged = cluster.submit(after, "--array=0", "--", SCRIPTS / "merge_data.sbatch", **parted)
    one = cluster.submit("--array=0", "--", SCRIPTS / "build_data.sbatch", **whole)
    states = cluster.wait_all(merged) + cluster.wait_all(array) + cluster.wait_all(one)
    assert states == ["COMPLETED"] * 6, log_of(tmp_path / "parted", f"{array}_*")
    wanted = built(tmp_path / "whole/data/build_subq")
    assert wanted["train.jsonl"].count(b"\n") > 24
    assert built(tmp_path / "parted/data/build_subq") == wanted


def submitted(shown: str) -> dict[str, str]:
    """Ids of the jobs that `pipeline.sh` printed, by name."""
    return dict(re.findall(r"^(.+?)\s+(\d+)$", shown, re.MULTILINE))


def ended(cluster: Cluster, job: str) -> str:
    """How a job ended, or all tasks of an array: their states, each once."""
    return " ".join(sorted(set(cluster.wait_all(job))))


def test_a_pipeline_ends_well(cluster: Cluster, material: Material, tmp_path: Path) -> None:
    short = (
        f"model.backbone={material.backbone} train.max_steps=2 validation.samples=0 "
        "data.max_train_samples=8 data.max_dev_samples=2 model.max_output_tokens=600 "
        "data.skip_cut_labels=true"
    )
    settings = job_settings(
        tmp_path,
        SOURCES=f"world={material.world}",
        DATA_OPTIONS="--tokenizer words --fractions 0.8,0.2,0",
        SHARDS="2",
        **dict.fromkeys(("T2T_VALUES", "RAS_VALUES", "TRI_RAG_VALUES"), short),
        T2T_RECIPE="t2t_tiny", RAS_RECIPE="ras_tiny", TRI_RAG_RECIPE="tri_rag_tiny",
        QUESTIONS=str(material.world / "questions_train.jsonl"),
        CORPUS=str(material.world / "corpus.jsonl"),
        LOOPS="ras_no_planning", QUESTION_SHARDS="2",
        EVALUATE_OPTIONS="--engine transformers --dtype float32 --retriever bm25 --top-k 1 "
        f"--max-answer-tokens 4 --limit 6 --cache {tmp_path}/triples.sqlite",
    )  # fmt: skip
    jobs = submitted(cluster.run(SCRIPTS / "pipeline.sh", **settings))
    names = ["data", "merged data", "t2t", "ras", "tri_rag", "evaluation", "table"]
    assert list(jobs) == names
    states = {name: ended(cluster, job) for name, job in jobs.items()}
    logs = "\n".join(path.read_text()[-800:] for path in (tmp_path / "logs").iterdir())
    assert states == dict.fromkeys(names, "COMPLETED"), logs
    for name in ("t2t", "ras", "tri_rag"):
        assert weights(tmp_path / name)
    [results] = json.loads((tmp_path / "results/results.json").read_text())
    assert (results["loop"], results["n"], results["errors"]) == ("ras_no_planning", 6, 0)


def test_a_failure_leaves_no_process_behind(cluster: Cluster, tmp_path: Path) -> None:
    def running() -> set[int]:
        names = ("munged", "slurmctld", "slurmd", "slurmstepd")
        return {p.pid for p in psutil.process_iter(["name"]) if p.info["name"] in names}

    before = running()
    script = tmp_path / "sleep.sbatch"
    script.write_text("#!/bin/bash\nsrun sleep 600\n")
    with pytest.raises(KeyError, match="a test's"), real_cluster() as other:
        job = other.submit("--", script, **job_settings(tmp_path))
        other.until(lambda: f"StepId={job}.0" in other.run("scontrol", "show", "step"), "step")
        raise KeyError("a test's")
    cluster.until(lambda: running() <= before, "end of what the other cluster started", 120)
    assert not other.folder.exists()


def test_what_needs_a_failed_job_is_cancelled(cluster: Cluster, tmp_path: Path) -> None:
    # Everything ends well at once but the training of RAS.
    stub = tmp_path / "python"
    stub.write_text("#!/bin/bash\n[[ $1 != training/train_ras.py ]] || exit 1\n")
    stub.chmod(0o755)
    settings = {**job_settings(tmp_path, SOURCES="world=w", QUESTIONS="q"), "PYTHON": str(stub)}
    jobs = submitted(cluster.run(SCRIPTS / "pipeline.sh", **settings))
    states = {name: ended(cluster, job) for name, job in jobs.items()}
    assert states == {
        **dict.fromkeys(("data", "t2t", "tri_rag"), "COMPLETED"),
        "ras": "FAILED",
        "evaluation": "CANCELLED",
        "table": "CANCELLED",
    }
