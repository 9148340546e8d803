"""Repeated tests: orders, outcomes of each kind, and going on after an interruption."""

import json
from pathlib import Path

import pytest

from benchmarks.repeated_tests import RepetitionError, shuffled_files
from tests.benchmarks.commands import ROOT, last_json, run_benchmark

TESTS = """
import pytest
def test_right(): pass
@pytest.mark.parametrize("value", [1, 2])
def test_wrong(value): assert value == 1
@pytest.fixture
def broken(): raise OSError("gone")
def test_broken(broken): pass
@pytest.mark.skip(reason="not here")
def test_skipped(): pass
"""


def test_every_run_has_all_files_in_an_order_of_its_own() -> None:
    orders = [shuffled_files(ROOT / "tests" / "formats", 0, run) for run in (1, 2)]
    assert orders[0] == shuffled_files(ROOT / "tests" / "formats", 0, 1)
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != shuffled_files(ROOT / "tests" / "formats", 1, 1)
    assert set(orders[0]) == {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests" / "formats").rglob("test_*.py")
    }


def test_a_folder_without_tests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RepetitionError, match="test_"):
        shuffled_files(tmp_path, 0, 1)


@pytest.mark.exhaustive
def test_red_runs_are_named_and_an_interrupted_command_goes_on(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_some.py").write_text(TESTS, encoding="utf-8")
    options = ("--tests", tmp_path / "tests", "--out", tmp_path / "out", "--processes", "1")
    done = run_benchmark("repeated_tests.py", *map(str, options), "--runs", "1")
    assert done.returncode == 1, done.stderr
    first = tmp_path / "out" / "run_1.json"
    told = json.loads(first.read_text(encoding="utf-8"))
    assert (told["passed"], told["skipped"]) == (2, 1)
    assert [name.split("::")[1] for name in told["red"]] == ["test_broken", "test_wrong[2]"]
    first.write_text(json.dumps({**told, "red": []}), encoding="utf-8")
    report = last_json(run_benchmark("repeated_tests.py", *map(str, options), "--runs", "2"))
    assert (report["runs"], report["red_runs"]) == (2, 1)
    assert report["outcomes"][0]["red"] == [] and report["median_seconds"] > 0
    refused = run_benchmark("repeated_tests.py", *map(str, options), "--seed", "1")
    assert refused.returncode == 1
    assert "another seed (0, not 1)" in refused.stderr.replace("\n", " ")
