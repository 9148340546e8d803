"""`ray.sbatch` on a real SLURM: two nodes of Ray in one job, which is preempted and goes on."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

from tests.inference.ray_commands import alone, answered, evaluation, has_lines, on_ray, world_of
from tests.slurm.cluster import ENDED, Cluster, NoCluster, job_settings, real_cluster
from tests.slurm.programs import SCRIPTS

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
