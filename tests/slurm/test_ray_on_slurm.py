"""`ray.sbatch` on a real SLURM: what is preempted goes on, and rounds follow one another."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

from tests.inference.ray_commands import alone, answered, evaluation, has_lines, on_ray, world_of
from tests.slurm.cluster import ENDED, Cluster, NoCluster, job_settings, real_cluster
from tests.slurm.programs import SCRIPTS
from tests.training.improvement_material import write_improvement

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    try:
        with real_cluster() as started:
            yield started
    except NoCluster as reason:
        pytest.skip(str(reason))


def log_of(work: Path) -> str:
    return "\n".join(path.read_text() for path in (work / "logs").iterdir())


def ray_processes() -> set[int]:
    """Those of a node: the store of objects and its scheduler."""
    names = ("raylet", "gcs_server")
    return {p.pid for p in psutil.process_iter(["name"]) if p.info["name"] in names}


def test_a_command_on_ray_is_requeued_and_ends_as_on_one_engine(
    cluster: Cluster, tmp_path: Path
) -> None:
    world = world_of(tmp_path, 40, 150)
    alone(evaluation(world, tmp_path / "alone"))
    before = ray_processes()
    out = tmp_path / "pool"
    script, *arguments = on_ray(evaluation(world, out), "", engines=2)
    settings = job_settings(tmp_path, RESUME_OPTIONS="--resume")
    job = cluster.submit(
        "--nodes=1", "--ntasks-per-node=2", "--", SCRIPTS / "ray.sbatch",
        f"inference/{script}", *map(str, arguments), **settings,
    )  # fmt: skip

    def answers_or_ended() -> bool:
        return has_lines(out / "progress.jsonl", 5) or cluster.job(job)["JobState"] in ENDED

    cluster.until(answers_or_ended, "five answers", 900)
    assert cluster.job(job)["JobState"] == "RUNNING", log_of(tmp_path)
    cluster.run("scancel", "--batch", "--signal=USR1", job)
    cluster.until(lambda: cluster.job(job)["JobState"] == "PENDING", f"requeue of {job}")
    assert not (out / "results.json").exists(), "it had ended before"
    kept = len((out / "progress.jsonl").read_text().splitlines())
    cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    assert cluster.wait(job, 900) == "COMPLETED", log_of(tmp_path)
    assert cluster.job(job)["Restarts"] == "1"
    assert answered(out) == answered(tmp_path / "alone")
    assert len(answered(out)) > kept >= 5
    assert "2 nodes at" in log_of(tmp_path)
    cluster.until(lambda: ray_processes() <= before, "end of Ray", 120)


def test_rounds_follow_one_another_and_end_where_one_fails(
    cluster: Cluster, tmp_path: Path
) -> None:
    values = [*write_improvement(tmp_path, rounds=2), "measure.least_gain=2"]
    settings = job_settings(tmp_path)
    before = ray_processes()
    out = tmp_path / "out"

    def improve(out: Path, *changed: str) -> list[str]:
        command = [SCRIPTS / "improve.sh", "ras_smollm2", out, "2", *values, *changed]
        return re.findall(r"^round \d+  (\d+)$", cluster.run(*command, **settings), re.MULTILINE)

    first, second = improve(out)
    cluster.until((out / "round-01" / "train" / "history.jsonl").exists, "a step of round 1", 900)
    cluster.run("scancel", "--batch", "--signal=USR1", first)
    cluster.until(lambda: cluster.job(first)["JobState"] == "PENDING", f"requeue of {first}")
    assert cluster.job(second)["Dependency"].startswith(f"afterok:{first}")
    cluster.run("scontrol", "update", f"JobId={first}", "StartTime=now")
    assert cluster.wait(second, 900) == "COMPLETED", log_of(tmp_path)
    assert cluster.job(first)["JobState"] == "COMPLETED"
    assert cluster.job(first)["Restarts"] == "1"
    rounds = [json.loads(line) for line in (out / "rounds.jsonl").read_text().splitlines()]
    assert [each["number"] for each in rounds] == [0, 1, 2]

    failed, never = improve(tmp_path / "other", "rollout.corpus=none.jsonl")
    assert cluster.wait(failed) == "FAILED", log_of(tmp_path)
    assert cluster.wait(never) == "CANCELLED"
    cluster.until(lambda: ray_processes() <= before, "end of Ray", 120)
