"""The measure of reading: what is asked and compared, what a threshold does, and the command."""

import json
from pathlib import Path

import pytest

from benchmarks.reading import (
    Asked,
    Read,
    answer_of,
    at_thresholds,
    figures_of,
    hops_asked,
    main,
    reading_asked,
)
from inference.retrieval.passages import Passage
from models.formats.triples import Triple
from models.helper import Helper, HelperConfig
from models.span_reader import SpanReader, SpanReaderConfig
from tests.data_gen.test_build_commands import question, write_lines
from tests.data_gen.test_build_reading import read_passage
from tests.tiny import tiny_backbone, tiny_encoder

PASSAGE = Passage("1", "Dawn", "A film.")
ASKED = [
    Asked("a", "x", "Who?", PASSAGE, ("Ana Lis",)),
    Asked("a", "y", "When?", PASSAGE, ("1898", "in 1898")),
    Asked("b", "y", "Where?", PASSAGE, ()),
]


def test_figures_by_group() -> None:
    read = [Read("Ana", -0.1), Read("1898", -2.0), Read("Brill", -3.0)]
    figures = figures_of(ASKED, read)
    assert figures["a"]["f1"] == pytest.approx((2 / 3 + 1) / 2)
    assert figures["b"] == {"answered": 0, "unanswerable": 1, "refused": 0.0}
    assert set(figures_of(ASKED, read, "kind")) == {"x", "y"}
    strict = at_thresholds(ASKED, read, (-1.0, 0.0))["-1.0"]
    assert strict["a"]["f1"] == pytest.approx(1 / 3)
    assert strict["b"]["refused"] == 1.0


def test_the_answer_is_what_the_question_does_not_name() -> None:
    asked = "Who directed Dawn?"
    assert answer_of([Triple("Dawn", "director", "Ana")], asked) == "Ana"
    assert answer_of([Triple("Ana", "directed", "Dawn")], asked) == "Ana"
    assert answer_of([], asked) == ""


def test_what_is_asked(tmp_path: Path) -> None:
    rows = [*map(read_passage, range(5)), read_passage(9, answer_form="yes/no", answer="yes")]
    reading = reading_asked(write_lines(tmp_path / "r.jsonl", rows), 10, 0)
    assert len(reading) == 5 and {one.kind for one in reading} == {"a", "b"}
    first = reading_asked(tmp_path / "r.jsonl", 2, 0)
    assert [*first, *reading_asked(tmp_path / "r.jsonl", 10, 0, skip=2)] == reading
    hops = hops_asked("2Wiki", write_lines(tmp_path / "q.jsonl", [question(1)]))
    assert [(h.question, h.kind, h.golds) for h in hops] == [
        ("Who directed Zone 1?", "director", ("Denys Roe",)),
        ("Where was Denys Roe born?", "place of birth", ("Montreal",)),
    ]


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backbone = tiny_backbone(tmp_path / "backbone")
    config = HelperConfig(str(backbone), tasks=("read",), max_input_tokens=900)
    Helper.from_config(config).save_pretrained(tmp_path / "read")
    encoder = tiny_encoder(tmp_path / "encoder")
    pointing = SpanReaderConfig(str(encoder), lora_rank=2, max_input_tokens=200)
    SpanReader.from_config(pointing, dtype="float32").save_pretrained(tmp_path / "span")
    reading = write_lines(tmp_path / "r.jsonl", [*map(read_passage, range(4))])
    questions = write_lines(tmp_path / "q.jsonl", [question(1)])
    arguments = ["reading.py", "--reading", reading, "--questions", f"2Wiki={questions}",
                 "--reader", tmp_path / "read", "--span-reader", tmp_path / "span", "--thresholds",
                 "--engine", "transformers", "--dtype", "float32", "--json"]  # fmt: skip
    monkeypatch.setattr("sys.argv", [*map(str, arguments)])
    main()
    figures = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert figures["reader"]["reading"]["answered"] == 4
    assert figures["reader"]["2Wiki"]["answered"] == 2
    assert len(figures["thresholds"]) > 3
    assert figures["span reader"]["2Wiki"]["answered"] == 2
    refused = [row["reading"].get("f1") for row in figures["thresholds of margins"].values()]
    assert refused == sorted(refused, reverse=True)
