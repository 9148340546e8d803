"""`improve.sh` with an sbatch that writes down what it is asked."""

from pathlib import Path

import pytest

from tests.slurm.programs import ROOT, SCRIPTS, asked, run

GIVEN = ("ras_smollm2", "OUT", "3", "rollout.questions=QUESTIONS", "loop=[--loop,ras]")


def test_a_round_is_a_job_after_the_one_before(cluster: dict[str, str]) -> None:
    done = run(cluster, str(SCRIPTS / "improve.sh"), *GIVEN, NODES="2", GPUS_PER_NODE="4")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["round 1  1", "round 2  2", "round 3  3"]
    jobs = asked(cluster)
    needs = [[a for a in job if a.startswith("--dependency")] for job in jobs]
    assert needs == [[], ["--dependency=afterok:1"], ["--dependency=afterok:2"]]
    launch = f"{cluster['PYTHON']},-m,accelerate.commands.launch,--num_processes,4"
    for number, job in enumerate(jobs, start=1):
        assert {"--nodes=2", "--requeue", "--kill-on-invalid-dep=yes", "--gres=gpu:4"} <= set(job)
        words = job[job.index(str(SCRIPTS / "ray.sbatch")) + 1 :]
        recipe = "configs/improve/ras_smollm2.yaml"
        assert words == [
            "training/improve.py", "--config", recipe, "output_dir=OUT",
            f"learning.launcher=[{launch}]", *GIVEN[3:], f"rounds={number}",
        ]  # fmt: skip
        assert (ROOT / recipe).is_file()


def test_one_process_needs_no_launcher(cluster: dict[str, str]) -> None:
    done = run(cluster, str(SCRIPTS / "improve.sh"), *GIVEN, GPUS_PER_NODE="1")
    assert done.returncode == 0, done.stderr
    assert not any("learning.launcher" in word for job in asked(cluster) for word in job)


@pytest.mark.parametrize("rounds", ["", "0", "three", "-1"])
def test_rounds_are_a_number(rounds: str, cluster: dict[str, str]) -> None:
    done = run(cluster, str(SCRIPTS / "improve.sh"), *GIVEN[:2], *filter(None, [rounds]))
    assert done.returncode == 2 and "a number of rounds" in done.stderr
    assert not Path(cluster["ASKED"]).exists()
