"""A disk that fills, a record that is broken, a kill: no part of a build is taken for a whole."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.data_gen.build_inputs import write_inputs
from tests.data_gen.test_build_commands import DATA_GEN, run
from tests.data_gen.test_build_pins import PINS, hashes
from tests.processes import on_full_disk

COMMANDS = {
    "build_subq.py": ("--source", "2wikimultihopqa=wiki.jsonl", "--skip-contradictions"),
    "build_triples.py": ("--source", "contract=texts.jsonl", "--source", "wikiofgraph=pairs.jsonl"),
    "build_conditions.py": ("--source", "hotpotqa=hotpot.jsonl"),
}
OPTIONS = ("--tokenizer", "words")


def check_refused(done: "subprocess.CompletedProcess[str]", out: Path) -> None:
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"error: {out.name}: writing failed") and "--out" in line
    assert not [path for path in out.parent.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("largest_file", [500, 9_000])
@pytest.mark.parametrize("part", [(), ("--shard", "1/1")])
@pytest.mark.parametrize("script", COMMANDS)
def test_a_build_that_finds_no_room(
    script: str, part: tuple[str, ...], largest_file: int, tmp_path: Path
) -> None:
    write_inputs(tmp_path)
    arguments = (*COMMANDS[script], *OPTIONS, *part, "--out", "out")
    done = on_full_disk(DATA_GEN / script, *arguments, cwd=tmp_path, largest_file=largest_file)
    check_refused(done, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_stood_there_is_unchanged_and_the_next_run_finds_its_way(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    arguments = (*COMMANDS["build_triples.py"], *OPTIONS, "--out", "out")
    assert run("build_triples.py", *arguments, cwd=tmp_path).returncode == 0
    before = hashes(tmp_path / "out")
    more = ("--source", "tekgen=tekgen.tsv")
    done = on_full_disk(
        DATA_GEN / "build_triples.py", *arguments, *more, cwd=tmp_path, largest_file=2_000
    )
    check_refused(done, tmp_path / "out")
    assert hashes(tmp_path / "out") == before
    assert run("build_triples.py", *arguments, cwd=tmp_path).returncode == 0
    assert hashes(tmp_path / "out") == before


def test_merging_and_parquet_find_no_room(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    arguments = (*COMMANDS["build_triples.py"], *OPTIONS)
    for part, out in (((), "built"), (("--shard", "1/1"), "part")):
        done = run("build_triples.py", *arguments, *part, "--out", out, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for script, source in (("merge_shards.py", "part"), ("to_parquet.py", "built")):
        done = on_full_disk(
            DATA_GEN / script, source, "--out", "out", cwd=tmp_path, largest_file=1_000
        )
        check_refused(done, tmp_path / "out")
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("part", [(), ("--shard", "1/2")])
@pytest.mark.parametrize(
    ("script", "source", "file", "words"),
    [
        ("build_subq.py", "2wikimultihopqa", "more.jsonl", "field '(line)': malformed JSON"),
        ("build_triples.py", "2wikimultihopqa", "more.jsonl", "field '(line)': malformed JSON"),
        ("build_triples.py", "wikiofgraph", "pairs.jsonl", "field 'triplet': 1 malformed"),
        ("build_conditions.py", "hotpotqa", "hotpot.jsonl", "field 'supporting_facts[0]': no"),
    ],
)
def test_a_broken_record_in_the_middle_leaves_nothing_behind(
    script: str, source: str, file: str, words: str, part: tuple[str, ...], tmp_path: Path
) -> None:
    write_inputs(tmp_path)
    lines = (tmp_path / file).read_text(encoding="utf-8").splitlines()
    if file == "pairs.jsonl":
        lines.insert(9, '{"triplet": "(<S> a| <P> b", "text": "t"}')
    if file == "hotpot.jsonl":
        lines[9] = lines[9].replace('"supporting_facts": [["Odense', '"supporting_facts": [["Oslo')
    (tmp_path / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    number = 14 if file == "more.jsonl" else 10
    before = sorted(tmp_path.iterdir())
    arguments = ("--source", f"{source}={file}", *OPTIONS, *part, "--out", "out")
    done = run(script, *arguments, cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"error: {file}:{number}: {words}")
    assert sorted(tmp_path.iterdir()) == before


# What is killed has written its samples and lacks its card.
KILLED = """
import os, signal, sys
from data_gen import build_triples
from data_gen.builds import build, shards
killed = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
build.write_card = shards.write_card = killed
build_triples.main(sys.argv[1:])
"""


@pytest.mark.parametrize("part", [(), ("--shard", "1/1")])
def test_a_killed_build_leaves_what_stood_there_and_is_run_again(
    part: tuple[str, ...], tmp_path: Path
) -> None:
    write_inputs(tmp_path)
    sources = ("--source", "musique=musique.jsonl", "--source", "world=world", "--skip-bad")
    arguments = (*sources, *OPTIONS, *part, "--out", "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "card.json").write_text("old", encoding="utf-8")
    command = [sys.executable, "-c", KILLED, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(DATA_GEN.parent)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    [left] = [path for path in tmp_path.iterdir() if path.name.startswith(".out.")]
    assert any(left.glob("*.jsonl"))
    assert [path.read_text("utf-8") for path in (tmp_path / "out").iterdir()] == ["old"]
    # What the killed run left is not in the way of the next.
    assert run("build_triples.py", *arguments, cwd=tmp_path).returncode == 0
    if part:
        assert run("merge_shards.py", "out", "--out", "whole", cwd=tmp_path).returncode == 0
    pinned = json.loads(PINS.read_text(encoding="utf-8"))["build_triples world"]
    assert hashes(tmp_path / ("whole" if part else "out")) == pinned
