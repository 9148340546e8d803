"""Planner samples over what a reader found: listed, read by a component, and built on."""

import json
from pathlib import Path

import pytest

import inference.extract
from data_gen import build_subq
from models.formats.passages import AskedPassage
from models.formats.records import PassageRecord, RasSample, read_records, write_records
from models.formats.triples import Triple
from models.helper import Helper, HelperConfig
from tests.data_gen.test_build_commands import question, write_lines
from tests.run_main import json_runner
from tests.tiny import tiny_backbone

QUICK = ("--tokenizer", "words", "--fractions", "1,0,0", "--top-k", "2")


def build(folder: Path, questions: Path, *more: str | Path) -> list[RasSample]:
    arguments = ["--source", f"2wikimultihopqa={questions}", "--out", folder, *QUICK, *more]
    build_subq.main([*map(str, arguments)])
    return list(read_records(folder / "train.jsonl", RasSample))


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "questions.jsonl", [question(number) for number in range(3)])


@pytest.fixture
def asked(questions: Path, tmp_path: Path) -> list[AskedPassage]:
    build(tmp_path / "annotated", questions, "--asked", tmp_path / "asked.jsonl")
    return list(read_records(tmp_path / "asked.jsonl", AskedPassage))


def test_an_asked_passage_comes_back() -> None:
    one = AskedPassage("Who?", PassageRecord("1", "Dawn", "A film."), (Triple("a", "b", "c"),))
    assert AskedPassage.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_all_that_a_loop_may_retrieve_is_listed_once(asked: list[AskedPassage]) -> None:
    assert len({one.key for one in asked}) == len(asked)
    subqueries = {one.subquery for one in asked}
    assert "Where was the director of Zone 1 born?" in subqueries
    assert {"Who directed Zone 1?", "Where was Denys Roe born?"} <= subqueries
    assert any(one.passage.title == "Denys Roe" for one in asked)


def test_samples_hold_what_was_read_and_nothing_else(
    asked: list[AskedPassage], questions: Path, tmp_path: Path
) -> None:
    film = Triple("Zone 1", "director", "Denys Roe")
    reads = [
        AskedPassage(one.subquery, one.passage, (film,))
        if one.subquery == "Who directed Zone 1?" and one.passage.title == "Zone 1"
        else one
        for one in asked
    ]
    write_records(tmp_path / "read.jsonl", reads)
    samples = build(tmp_path / "read", questions, "--readings", tmp_path / "read.jsonl")
    shown = {t for s in samples for step in s.history for t in step.triples}
    assert shown == {film}
    asks = [s.label for s in samples if s.question_id == "q1" and s.task == "plan"]
    # The first round found nothing, so the first hop is asked for by itself.
    assert asks[1] == "[SUBQ] Who directed Zone 1?"


def test_a_passage_that_was_not_read_is_an_error(
    asked: list[AskedPassage], questions: Path, tmp_path: Path
) -> None:
    write_records(tmp_path / "read.jsonl", asked[:1])
    with pytest.raises(SystemExit, match=r"read.jsonl: the passage .* was not read for .*--asked"):
        build(tmp_path / "read", questions, "--readings", tmp_path / "read.jsonl")
    assert not (tmp_path / "read").exists()


def test_a_component_reads_what_is_asked(
    asked: list[AskedPassage],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    backbone = tiny_backbone(tmp_path / "backbone")
    settings = HelperConfig(
        str(backbone), max_input_tokens=900, max_output_tokens=4, tasks=("read",)
    )
    Helper.from_config(settings).save_pretrained(tmp_path / "reader")
    run = json_runner(monkeypatch, capsys, tmp_path / "cache", "--engine", "transformers")
    given = (
        "--asked",
        tmp_path / "asked.jsonl",
        "--passage-reader",
        tmp_path / "reader",
        "--span-reader",
        "none",
        "--out",
        tmp_path / "read.jsonl",
        "--dtype",
        "float32",
    )
    capsys.readouterr()
    counts = run(inference.extract.main, *given)
    assert counts["passages"] == counts["written_now"] == len(asked)
    read = list(read_records(tmp_path / "read.jsonl", AskedPassage))
    assert [one.key for one in read] == [one.key for one in asked]
    assert run(inference.extract.main, *given)["written_now"] == 0
