"""The benchmark of data builds runs, and a build's memory does not grow with its records."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.data_builds import with_needed
from benchmarks.workers.data_stages import STAGES, prepare
from tests.benchmarks.commands import ROOT, last_json, run_benchmark


@pytest.mark.slow
@pytest.mark.exhaustive
def test_every_stage_is_measured(tmp_path: Path) -> None:
    done = run_benchmark("data_builds.py", "--records", "400", "--dir", str(tmp_path / "work"))
    assert done.returncode == 0, done.stderr
    result = last_json(done)
    assert result["benchmark"] == "data_builds" and result["records"] == 400
    for kind, stages in result["stages"].items():
        assert list(stages) == list(STAGES)
        for row in stages.values():
            assert row["records"] / row["seconds"] == pytest.approx(row["records_per_second"])
            assert row["peak_mib"] > 20
        made = {stage: row["records"] for stage, row in stages.items()}
        assert made["build"] == made["merge"] == made["parquet"] == made["read_parquet"]
        assert made["shard_1"] + made["shard_2"] == made["label"] == made["check"] == made["write"]
        assert made["build"] == pytest.approx(400, rel=0.1)
        for name in ("train.jsonl", "card.json"):
            whole, merged = (tmp_path / "work" / kind / s / name for s in ("build", "merge"))
            assert whole.read_bytes() == merged.read_bytes()


def test_stages_bring_what_they_read() -> None:
    assert with_needed(["read_parquet"]) == ["build", "parquet", "read_parquet"]
    assert with_needed(["merge", "check"]) == ["label", "check", "shard_1", "shard_2", "merge"]


def stage(folder: Path, kind: str) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "benchmarks/workers/data_stages.py"), str(folder), kind]
    done = subprocess.run([*command, "build"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.slow
@pytest.mark.exhaustive
def test_ten_times_the_records_take_little_more_memory(tmp_path: Path) -> None:
    """20,000 records: what is held is a few buffers, not the records."""
    peaks = []
    for records in (2_000, 20_000):
        folder = tmp_path / str(records)
        folder.mkdir()
        prepare(folder, "triples", records)
        done = stage(folder, "triples")
        assert done["records"] == records
        peaks.append(done["peak_mib"])
    # As lists the samples took another 31 MiB; what is added now is a sort's buffer and a cache.
    # What is imported differs: bm25s takes numba where it is installed, some 50 MiB.
    assert peaks[1] - peaks[0] < 20
