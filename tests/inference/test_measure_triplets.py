"""Quality of a knowledge base's triplets: by rule for all, by a judge for a sample."""

import json
from pathlib import Path
from typing import Any

import pytest

import inference.measure_triplets
from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from inference.engines.contract import Request
from inference.indexes.knowledge_base.store import Output, OutputLog
from inference.measure_triplets import questions_of, rule_figures
from models.formats.records import QuestionRecord, write_records
from tests.run_main import run_main

OUTPUTS = [
    Output(
        "1", "Ada", "Ada was born in Rome.", "[C] Ada; birth [P] [R] Ada was born in Rome.", False
    ),
    Output("2", "Ben", "Ben was born in Oslo.", "[C] Ben; job [P] [R] Nothing he ever did.", False),
    Output("3", "Eve", "Eve.", "no triplet", False),
]


def test_the_form_is_of_outputs_and_support_of_triplets() -> None:
    figures = rule_figures(OUTPUTS)
    assert (figures["documents"], figures["triplets"]) == (3, 2)
    assert figures["well_formed"] == pytest.approx(2 / 3)
    assert figures["support"] == 0.5 and len(figures["support_ci95"]) == 2
    assert "support" not in rule_figures(OUTPUTS[2:])


def test_a_title_is_asked_for_by_its_first_question() -> None:
    records = [
        QuestionRecord(name, f"{name}?", "", supporting_facts=[("Ada", 0), (name, 1)])
        for name in ("x", "y")
    ]
    assert questions_of(records) == {"Ada": "x?", "x": "x?", "y": "y?"}


def test_command_with_a_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(request: Request) -> str:
        assert request.messages is not None
        content = request.messages[0]["content"]
        if "Question:" in content:
            return "2" if "[C] Ada; birth" in content else "1"
        if "the structure" in content:
            return "3" if "; birth [P]" in content or "; job [P]" in content else "2"
        return "4" if ("Passage: Ada" in content) == ("[C] Ada" in content) else "1"

    def open_engine(*arguments: Any, **options: Any) -> ScriptedEngine:
        return ScriptedEngine(script)

    monkeypatch.setattr(inference.measure_triplets, "build_engine", open_engine)
    OutputLog(tmp_path / "kb" / "outputs.jsonl").append(OUTPUTS)
    record = QuestionRecord("q", "Where was Ada born?", "Rome", supporting_facts=[("Ada", 0)])
    write_records(tmp_path / "q.jsonl", [record])
    run_main(
        monkeypatch, inference.measure_triplets.main, "--kb", tmp_path / "kb", "--judge", "any",
        "--questions", tmp_path / "q.jsonl", "--control", "--json",
    )  # fmt: skip
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (figures["faithfulness_mean"], figures["faithfulness_scored"]) == (4, 2)
    assert (figures["structural_integrity_mean"], figures["structural_integrity_scored"]) == (3, 2)
    assert (figures["condition_alignment_mean"], figures["condition_alignment_scored"]) == (2, 1)
    assert (figures["faithfulness_control_mean"], figures["faithfulness_control_scored"]) == (1, 2)
    assert figures["structural_integrity_control_mean"] == 2
    # A single triplet is asked for: there is no other to set in its place.
    assert figures["condition_alignment_control_scored"] == 0


def test_a_folder_without_outputs_ends_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as stop:
        run_main(monkeypatch, inference.measure_triplets.main, "--kb", tmp_path)
    assert "Run inference/build_kb.py first" in str(stop.value)
