"""ask.py and evaluate.py with --loop trig_nav, on tiny untrained components."""

import json
from pathlib import Path

import pytest

import inference.ask
import inference.evaluate
from models.formats.records import PassageRecord, QuestionRecord, write_records
from tests.components import chat_backbone, helper_component, ras_component, t2t_component
from tests.run_main import Run, json_runner

PASSAGES = [
    PassageRecord("1", "Dawn", "Dawn is a film by Ana Lis."),
    PassageRecord("2", "Ana Lis", "Ana Lis was born in Brill."),
]
QUESTIONS = [
    QuestionRecord("a", "Who directed Dawn?", "Ana Lis"),
    QuestionRecord("b", "Where was Ana Lis born?", "Brill"),
]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    write_records(tmp_path / "corpus.jsonl", PASSAGES)
    write_records(tmp_path / "questions.jsonl", QUESTIONS)
    return json_runner(
        monkeypatch, capsys, tmp_path / "cache", "--loop", "trig_nav",
        "--corpus", tmp_path / "corpus.jsonl", "--retriever", "bm25", "--encoder", "hash",
        "--engine", "transformers", "--dtype", "float32", "--max-answer-tokens", 3,
    )  # fmt: skip


def test_every_step_prompted(run: Run, backbone: Path) -> None:
    """An untrained backbone writes nothing that parses: the question is answered from its text."""
    untrained = ("--ras", "none", "--t2t", "none", "--backbone", backbone)
    trace = run(inference.ask.main, "Who directed Dawn?", *untrained, "--judge")
    assert trace["error"] is None and trace["bill"]["llm_calls"] >= 4
    assert any("not a judgement" in note for note in trace["notes"])
    unjudged = run(inference.ask.main, "Who directed Dawn?", *untrained)
    assert unjudged["bill"]["llm_calls"] < trace["bill"]["llm_calls"]


def test_every_step_by_a_trained_component(run: Run, backbone: Path, tmp_path: Path) -> None:
    folders = {"gap-judge": "judge_gap", "decomposer": "decompose", "resolver": "resolve"}
    helpers = [
        part
        for option, task in folders.items()
        for part in (f"--{option}", helper_component(tmp_path / task, backbone, task))
    ]
    trained = (
        *helpers, "--ras", ras_component(tmp_path / "ras", backbone),
        "--t2t", t2t_component(tmp_path / "t2t", backbone), "--judge", "--no-recall",
        "--dataset", tmp_path / "questions.jsonl", "--out", tmp_path / "out",
    )  # fmt: skip
    results = run(inference.evaluate.main, *trained)
    assert (results["loop"], results["n"], results["errors"]) == ("trig_nav", 2, 0)
    settings = json.loads((tmp_path / "out" / "settings.json").read_text())
    assert settings["judge"] and len(settings["resolver"]) > 8
    assert "hierarchy" not in settings
    with pytest.raises(SystemExit, match="begun with judge = True, and False is given"):
        run(inference.evaluate.main, *trained, "--resume", "--no-judge")
    with pytest.raises(SystemExit, match="is a helper for 'resolve'"):
        run(inference.ask.main, "Who?", "--gap-judge", tmp_path / "resolve")
