"""benchmarks/packed_weights.py: both do the same, and the page says how fast."""

from pathlib import Path

import pytest

from tests.benchmarks.commands import last_json, page_with, run_benchmark


def test_the_page_has_a_row_a_task(tmp_path: Path) -> None:
    task = {"plain_seconds": 3.0, "packed_seconds": 2.0, "ratio": 1.5, "same": True}
    settings = {"dtype": "float32", "threads": 2, "new_tokens": 16, "rounds": 3}
    figures = {**settings, "tasks": {"decode 8 at once": task}}
    page = page_with("packed_weights", {"benchmark": "packed_weights", **figures}, tmp_path)
    assert "| float32 | decode 8 at once | 3.00 | 2.00 | 1.50 | yes |" in page


@pytest.mark.slow
def test_both_layouts_have_the_same_outcome() -> None:
    sizes = ("--concurrency", "2", "--new-tokens", "3", "--texts", "3", "--rounds", "1")
    tasks = last_json(run_benchmark("packed_weights.py", *sizes))["tasks"]
    assert list(tasks) == ["decode 2 at once", "read 3 passages", "embed 3 texts"]
    assert all(task["same"] and task["packed_seconds"] > 0 for task in tasks.values())
