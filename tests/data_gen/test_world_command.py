"""data_gen/build_world.py by its real command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from data_gen.build_world import build_world
from data_gen.world.questions import WorldTooSmallError, slots

SCRIPT = Path(__file__).resolve().parents[2] / "data_gen" / "build_world.py"
FILES = {
    "corpus.jsonl",
    "triples.jsonl",
    "card.json",
    "questions_train.jsonl",
    "questions_dev.jsonl",
    "questions_test.jsonl",
}


def _run(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        timeout=600,
    )


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_same_seed_same_bytes_across_processes(tmp_path: Path) -> None:
    done = _run(tmp_path, "--questions", "60", "--seed", "5", "--out", "world", "--json")
    assert done.returncode == 0, done.stderr
    card = json.loads(done.stdout.splitlines()[-1])
    assert card["questions"] == 60
    build_world(60, 5, tmp_path / "again", progress=False)
    assert _bytes(tmp_path / "world") == _bytes(tmp_path / "again")
    assert set(_bytes(tmp_path / "world")) == FILES
    assert card == json.loads((tmp_path / "world" / "card.json").read_text(encoding="utf-8"))
    build_world(60, 6, tmp_path / "other", progress=False)
    assert _bytes(tmp_path / "world") != _bytes(tmp_path / "other")


@pytest.mark.slow
def test_a_folder_with_files_is_kept_unless_told(tmp_path: Path) -> None:
    out = tmp_path / "world"
    out.mkdir()
    (out / "mine.txt").write_text("keep", encoding="utf-8")
    refused = _run(tmp_path, "--questions", "5", "--out", str(out))
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    assert (out / "mine.txt").read_text(encoding="utf-8") == "keep"
    taken = _run(tmp_path, "--questions", "5", "--out", str(out), "--overwrite")
    assert taken.returncode == 0, taken.stderr
    assert set(_bytes(out)) == FILES
    assert "questions" in taken.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--questions", "0"], "--questions 0"),
        (["--questions", "-3"], "--questions -3"),
        (["--questions", "10", "--entities", "12"], "--entities 12"),
        (["--questions", "10", "--fractions", "0.5", "0.5", "0.5"], "fractions"),
    ],
)
def test_bad_sizes_are_refused_before_anything_is_written(
    tmp_path: Path, arguments: list[str], named: str
) -> None:
    done = _run(tmp_path, *arguments, "--out", "world")
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_world_that_runs_out_of_questions_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(WorldTooSmallError, match="--entities"):
        build_world(10_000, 1, tmp_path / "world", entities=60, progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [1, 9, 10, 333])
def test_slots_fill_the_mixture_exactly(count: int) -> None:
    assert len(slots(count, Random(0))) == count
