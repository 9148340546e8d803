"""Shards of an evaluation put together are the whole one; what is no whole set is refused."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import inference.evaluate
import inference.merge_evaluation
from common.shards import Shard
from evaluation.runs import RESULTS_FILE, SETTINGS_FILE, TRACES_FILE
from inference.runs.log import SHARD_FILE
from models.formats.records import PassageRecord, QuestionRecord, write_records
from tests import processes
from tests.components import ras_component, stirred_backbone, t2t_component
from tests.processes import fresh
from tests.run_main import run_main

ROOT = Path(__file__).resolve().parents[2]
PASSAGES = [
    PassageRecord(str(i), f"Film{i}", f"Film{i} is a film by Ana{i} from 19{i:02d}.")
    for i in range(12)
]
QUESTIONS = [
    QuestionRecord(f"q{i}", f"Who directed Film{i}?", f"Ana{i}", type=("a", "b", "c")[i % 3])
    for i in range(12)
]
# The clock's and the process's alone; triples that shards extract are each one's own to pay for.
OF_THE_CLOCK = {"seconds", "provenance"}
Evaluate = Callable[..., None]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command line that a whole evaluation and its shards share."""
    folder = tmp_path_factory.mktemp("material")
    backbone = stirred_backbone(folder / "backbone")
    ras = ras_component(folder / "ras", backbone, stirred=0.3)
    t2t = t2t_component(folder / "t2t", backbone, max_output_tokens=12)
    write_records(folder / "corpus.jsonl", PASSAGES)
    write_records(folder / "questions.jsonl", QUESTIONS)
    return [
        *("--loop", "ras_no_planning", "--ras", str(ras), "--t2t", str(t2t), "--top-k", "1"),
        *("--dataset", str(folder / "questions.jsonl"), "--corpus", str(folder / "corpus.jsonl")),
        *("--retriever", "bm25", "--max-answer-tokens", "4", "--engine", "transformers"),
        *("--dtype", "float32"),
    ]


@pytest.fixture
def evaluate(options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluate:
    """Evaluate in this process, into a folder of the test's own, with a cache a folder."""
    monkeypatch.chdir(tmp_path)

    def run(out: str, *more: str) -> None:
        cache = ("--cache", f"{out.replace('/', '-')}.sqlite")
        run_main(monkeypatch, inference.evaluate.main, *options, *cache, "--out", out, *more)

    return run


@pytest.fixture
def merge(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def run(*folders: str) -> None:
        main = inference.merge_evaluation.main
        run_main(monkeypatch, main, *folders, "--out", "merged")

    return run


@pytest.fixture
def refused(merge: Callable[..., None]) -> Callable[..., str]:
    """The one line of a merge that is refused; nothing is written."""

    def run(*folders: str) -> str:
        with pytest.raises(SystemExit) as error:
            merge(*folders)
        assert not Path("merged").exists()
        return str(error.value)

    return run


def read(folder: str, name: str) -> Any:
    return json.loads((Path(folder) / name).read_text(encoding="utf-8"))


def rows(folder: str) -> list[dict[str, Any]]:
    """The traces without the seconds of their stages."""
    lines = (Path(folder) / TRACES_FILE).read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [{**row, "bill": {**row["bill"], "seconds": None}} for row in found]


def results(folder: str) -> dict[str, Any]:
    found = read(folder, RESULTS_FILE)
    return {name: value for name, value in found.items() if name not in OF_THE_CLOCK}


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3, 25])
def test_merged_shards_are_the_whole_evaluation(
    count: int, evaluate: Evaluate, merge: Callable[..., None]
) -> None:
    evaluate("whole")
    folders = [f"part{number}" for number in range(1, count + 1)]
    for number, folder in enumerate(folders, start=1):
        evaluate(folder, "--shard", f"{number}/{count}")
        assert not (Path(folder) / RESULTS_FILE).exists()
    # In whatever order they are named; more shards than questions leave some without any.
    merge(*reversed(folders))
    assert results("merged") == results("whole")
    assert read("whole", RESULTS_FILE)["provenance"]["answered_earlier"] == 0
    assert results("whole")["n"] == len(QUESTIONS) and results("whole")["errors"] == 0
    by_type = results("merged")["by_type"]
    assert {name: own["n"] for name, own in by_type.items()} == {"a": 4, "b": 4, "c": 4}
    assert rows("merged") == rows("whole")
    assert read("merged", SETTINGS_FILE) == read("whole", SETTINGS_FILE)
    parts = [read(folder, SHARD_FILE) for folder in folders]
    assert read("merged", RESULTS_FILE)["seconds"] == sum(part["seconds"] for part in parts)
    assert len({row["answer"] for row in rows("whole")}) > 1


def test_a_question_that_fails_is_counted_in_the_merged_results_too(
    evaluate: Evaluate, merge: Callable[..., None], options: list[str]
) -> None:
    # ras_static needs a context that only two of these have.
    given = [replace(q, context=[("T", [f"{q.answer} made it."])]) for q in QUESTIONS[:2]]
    write_records("some.jsonl", [*given, *QUESTIONS[2:4]])
    more = ("--loop", "ras_static", "--dataset", "some.jsonl")
    evaluate("whole", *more)
    for number in (1, 2):
        evaluate(f"part{number}", *more, "--shard", f"{number}/2")
    merge("part1", "part2")
    assert results("merged") == results("whole")
    assert read("whole", RESULTS_FILE)["provenance"]["answered_earlier"] == 0
    assert results("merged")["errors"] == 2


@pytest.fixture
def parts(evaluate: Evaluate) -> list[str]:
    """Two shards of an evaluation without a model call: no corpus, so that each question fails."""
    for number in (1, 2):
        evaluate(f"part{number}", "--loop", "ras_static", "--shard", f"{number}/2")
    return ["part1", "part2"]


def test_a_missing_a_doubled_and_an_unfinished_shard_are_named(
    parts: list[str], refused: Callable[..., str]
) -> None:
    message = refused("part1")
    assert "part1/shard.json: shard 1/2: beside it these shards are missing: 2/2" in message
    assert "part1/shard.json: shard 1/2: the same number as part1" in refused("part1", "part1")
    (Path("part2") / SHARD_FILE).unlink()
    assert "part2/shard.json: no such file" in refused(*parts)
    assert "goes on with --resume" in refused(*parts)


def test_a_whole_evaluation_is_no_shard(
    evaluate: Evaluate, parts: list[str], refused: Callable[..., str]
) -> None:
    evaluate("whole", "--loop", "ras_static")
    assert "whole/shard.json: no such file" in refused("whole", "part2")


def test_shards_of_other_options_are_refused(
    evaluate: Evaluate, parts: list[str], refused: Callable[..., str]
) -> None:
    evaluate("other", "--loop", "ras_static", "--shard", "2/2", "--max-triples", "3")
    message = refused("part1", "other")
    assert (
        "other/shard.json: shard 2/2: max_triples is 3, in part1/shard.json: shard 1/2" in message
    )
    evaluate("three", "--loop", "ras_static", "--shard", "2/3")
    assert "shard 2/3: one of 3 shards" in refused("part1", "three")


def test_shards_of_other_questions_are_refused(
    evaluate: Evaluate, parts: list[str], refused: Callable[..., str], tmp_path: Path
) -> None:
    evaluate("fewer", "--loop", "ras_static", "--shard", "2/2", "--limit", "11")
    message = refused("part1", "fewer")
    assert "dealt from other questions than part1/shard.json: shard 1/2 (11 and 12)" in message
    # As many, under the same name and ids, but one asks for something else.
    changed = [replace(QUESTIONS[0], answer="nobody"), *QUESTIONS[1:]]
    write_records("elsewhere/questions.jsonl", changed)
    more = ("--dataset", "elsewhere/questions.jsonl", "--shard", "2/2")
    evaluate("changed", "--loop", "ras_static", *more)
    both = [read(folder, SETTINGS_FILE)["dataset_sha256"] for folder in ("changed", "part1")]
    assert f"dataset_sha256 is '{both[0]}', in part1/shard.json: shard 1/2 '{both[1]}'" in (
        refused("part1", "changed")
    )
    without_data("changed")
    assert "(12 and 12)" in refused("part1", "changed")


def without_data(folder: str) -> None:
    """Leave out of a shard's settings what they did not record before."""
    settings = read(folder, SETTINGS_FILE)
    kept = {name: value for name, value in settings.items() if not name.endswith("_sha256")}
    (Path(folder) / SETTINGS_FILE).write_text(json.dumps(kept))


def test_shards_over_other_corpora_are_refused(
    evaluate: Evaluate, merge: Callable[..., None], refused: Callable[..., str]
) -> None:
    write_records("elsewhere/corpus.jsonl", PASSAGES[:6])
    given = {1: (), 2: ("--corpus", "elsewhere/corpus.jsonl"), 3: ()}
    for number, corpus in given.items():
        evaluate(f"part{number}", "--shard", f"{number}/3", "--limit", "3", *corpus)
    parts = [f"part{number}" for number in given]
    assert "part2/shard.json: shard 2/3: corpus_sha256 is '" in refused(*parts)
    # A shard from before agrees with all, and these not with each other for that.
    without_data("part1")
    assert "part3/shard.json: shard 3/3: corpus_sha256 is '" in refused(*parts)
    without_data("part2")
    merge(*parts)


def test_altered_traces_and_cards_are_refused(
    parts: list[str], refused: Callable[..., str]
) -> None:
    traces, card = Path("part2") / TRACES_FILE, Path("part2") / SHARD_FILE
    whole, written = traces.read_bytes(), card.read_text()
    for content in (whole[: len(whole) // 2], whole.replace(b'"em": 0', b'"em": 1', 1), b""):
        assert content != whole
        traces.write_bytes(content)
        assert f"{traces}: not the traces that were written" in refused(*parts)
    traces.unlink()
    assert f"{traces}: not the traces that were written" in refused(*parts)
    traces.write_bytes(whole)
    changed = json.loads(written)
    changed["places"] = changed["places"][1:]
    card.write_text(json.dumps(changed))
    assert "does not hold every question once" in refused(*parts)
    card.write_text(json.dumps({**changed, "format": 99}))
    assert "a shard in format 99" in refused(*parts)
    card.write_text("{")
    assert f"{card}: not JSON" in refused(*parts)
    # The traces of another shard, with a card that agrees.
    shutil.copyfile(Path("part1") / TRACES_FILE, traces)
    other = json.loads((Path("part1") / SHARD_FILE).read_text())
    card.write_text(json.dumps({**json.loads(written), "traces_sha256": other["traces_sha256"]}))
    assert f"{traces}: not the " in refused(*parts)


def test_a_shard_goes_on_as_the_same_shard_alone(
    evaluate: Evaluate, parts: list[str], merge: Callable[..., None]
) -> None:
    before = read("part1", SHARD_FILE)
    evaluate("part1", "--loop", "ras_static", "--shard", "1/2", "--resume")
    after = read("part1", SHARD_FILE)
    assert {**before, "seconds": 0} == {**after, "seconds": 0}
    for more in ((), ("--shard", "2/2")):
        with pytest.raises(SystemExit, match="was begun with shard = '1/2'"):
            evaluate("part1", "--loop", "ras_static", "--resume", *more)
    # A whole evaluation into the same folder leaves no card of a part behind, and the reverse.
    evaluate("part1", "--loop", "ras_static")
    assert not (Path("part1") / SHARD_FILE).exists()
    evaluate("part1", "--loop", "ras_static", "--shard", "1/2")
    assert not (Path("part1") / RESULTS_FILE).exists()
    merge(*parts)
    with pytest.raises(SystemExit):
        merge("merged", "part2")


@pytest.mark.slow
def test_the_command_line(options: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "TRIVIUM_CACHE": str(tmp_path / "cache")}

    def run(script: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        program = ROOT / "inference" / script
        return processes.run(program, *arguments, cwd=tmp_path, env=environment)

    for number in (1, 2):
        shard = ("--shard", f"{number}/2", "--out", f"part{number}", "--json")
        done = run("evaluate.py", *options, *shard)
        assert done.returncode == 0, done.stderr
        card = json.loads(done.stdout.splitlines()[-1])
        owned = [i for i, q in enumerate(QUESTIONS) if Shard(number, 2).owns(q.id)]
        assert (card["shard"], card["places"]) == (number, owned)
    merge = ROOT / "inference/merge_evaluation.py"
    done = fresh(merge, "part1", "part2", "--out", "merged", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["n"] == len(QUESTIONS)
    done = run("merge_evaluation.py", "part2", "--out", "again")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: part2/shard.json: shard 2/2: beside it these shards")
