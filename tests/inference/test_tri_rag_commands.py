"""build_kb.py and the tri_rag loop of evaluate.py, on a tiny backbone."""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import inference.build_kb
import inference.evaluate
import inference.opening.index_build
from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from common.files import alone
from inference.engines.contract import Request
from inference.opening.index_build import IndexBusyError
from models.formats.records import PassageRecord, QuestionRecord, write_records
from tests.components import chat_backbone, ras_component, tri_rag_component
from tests.run_main import Run, json_runner, run_main
from tests.tiny import tiny_tokenizer

PASSAGES = [
    PassageRecord("p1", "Ada", "Ada was born in Rome."),
    PassageRecord("p2", "Ben", "Ben was born in Oslo."),
    PassageRecord("p3", "Ben", "Ben was born in Oslo."),
    PassageRecord("p4", "Eve", "Nobody knows."),
]


def extract(request: Request) -> str:
    """What a trained extractor would write: nothing of use about Eve."""
    prompt = str(tiny_tokenizer().decode(list(request.input_ids or ())))
    name, _, rest = prompt.split("Text: ")[1].partition(": ")
    place = rest.split("born in ")[-1].split(".")[0]
    return (
        "no triplet"
        if name == "Eve"
        else f"[C] {name}; place of birth [P] [R] {name} was born in {place}."
    )


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def extractor(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tri_rag_component(tmp_path_factory.mktemp("components") / "tri_rag", backbone)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedEngine]:
    """The engines that builds opened; they answer with `extract`."""
    opened: list[ScriptedEngine] = []

    def open_engine(*arguments: Any, **options: Any) -> ScriptedEngine:
        opened.append(ScriptedEngine(extract))
        return opened[-1]

    monkeypatch.setattr(inference.opening.index_build, "build_engine", open_engine)
    return opened


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return json_runner(monkeypatch, capsys, tmp_path / "cache", "--encoder", "hash")


@pytest.fixture
def build(run: Run, extractor: Path, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Build OUT from some of the passages."""

    def build_from(*passages: PassageRecord, **options: object) -> dict[str, Any]:
        write_records(tmp_path / "corpus.jsonl", passages)
        return run(
            inference.build_kb.main, "--corpus", tmp_path / "corpus.jsonl",
            "--extractor", options.pop("extractor", extractor), "--out", tmp_path / "kb",
            *(part for name, value in options.items() for part in (f"--{name}", value)),
        )  # fmt: skip

    return build_from


def test_a_build_adds_what_is_new_and_calls_the_model_once_a_text(
    build: Callable[..., dict[str, Any]], engines: list[ScriptedEngine]
) -> None:
    first = build(*PASSAGES[:2])
    assert (first["extracted now"], first["documents"], first["entries"]) == (2, 2, 2)
    again = build(*PASSAGES[:2])
    assert (again["extracted now"], again["known before"], len(engines)) == (0, 2, 1)
    assert again["entries"] == 2
    grown = build(*PASSAGES)
    assert (grown["extracted now"], grown["documents"], grown["entries"]) == (2, 4, 2)
    assert grown["merged into a condition that was there"] == 1
    assert grown["dropped: not a complete triplet"] == 1
    assert grown["documents without a triplet"] == 1
    assert sum(len(engine.requests) for engine in engines) == 4
    build(PASSAGES[2], PASSAGES[3])
    assert sum(len(engine.requests) for engine in engines) == 4


def test_an_interrupted_build_goes_on(
    build: Callable[..., dict[str, Any]],
    engines: list[ScriptedEngine],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    complete = ScriptedEngine._complete

    def killed(engine: ScriptedEngine, request: Request) -> Any:
        if len(engine.requests) > 1:
            raise KeyboardInterrupt
        return complete(engine, request)

    with monkeypatch.context() as patch:
        patch.setattr(ScriptedEngine, "_complete", killed)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            build(*PASSAGES)
    assert not (tmp_path / "kb" / "base").exists()
    done = build(*PASSAGES)
    assert (done["extracted now"], done["known before"], done["entries"]) == (3, 1, 2)


def conditions(folder: Path) -> set[str]:
    lines = (folder / "base" / "entries.jsonl").read_text(encoding="utf-8").splitlines()
    return {json.loads(line)["condition"] for line in lines}


def test_a_removed_line_and_new_documents_leave_none_out(
    build: Callable[..., dict[str, Any]], engines: list[ScriptedEngine], tmp_path: Path
) -> None:
    build(*PASSAGES[:2])
    log = tmp_path / "kb" / "outputs.jsonl"
    # As the log's own remedy says.
    log.write_text("".join(log.read_text().splitlines(keepends=True)[1:]))
    new = PassageRecord("p0", "Cid", "Cid was born in Lima.")
    done = build(new, *PASSAGES[:2])
    assert (done["extracted now"], done["documents"], done["entries"]) == (2, 3, 3)
    assert conditions(tmp_path / "kb") == {f"{n}; place of birth" for n in ("Ada", "Ben", "Cid")}
    assert build(new, *PASSAGES[:2])["documents"] == 3


def test_a_base_from_before_grows_and_then_tells_its_documents(
    build: Callable[..., dict[str, Any]], engines: list[ScriptedEngine], tmp_path: Path
) -> None:
    build(*PASSAGES[:2])
    listed = tmp_path / "kb" / "base" / "documents.json"
    listed.unlink()
    assert build(*PASSAGES[:2])["documents"] == 2
    assert build(*PASSAGES)["documents"] == 4
    assert json.loads(listed.read_text()) == ["p1", "p2", "p3", "p4"]


def test_an_index_has_one_build_at_a_time(
    build: Callable[..., dict[str, Any]], engines: list[ScriptedEngine], tmp_path: Path
) -> None:
    with alone(tmp_path / "kb", IndexBusyError()):
        with pytest.raises(SystemExit) as stop:
            build(*PASSAGES)
        assert "kb: another build is adding to it. Wait for its end" in str(stop.value)
        assert not engines and not (tmp_path / "kb").exists()
    assert build(*PASSAGES)["documents"] == 4


def test_only_what_the_questions_come_with(
    build: Callable[..., dict[str, Any]], engines: list[ScriptedEngine], tmp_path: Path
) -> None:
    questions = [
        QuestionRecord("q1", "Where?", "Rome", context=[("Ada", ["Ada was born", " in Rome."])]),
        QuestionRecord("q2", "Where?", "Oslo", context=[("Ben", ["Ben was born in Oslo."])]),
    ]
    write_records(tmp_path / "questions.jsonl", questions)
    first = build(*PASSAGES, questions=tmp_path / "questions.jsonl", **{"question-limit": 1})
    assert (first["documents"], first["entries"]) == (1, 1)
    both = build(*PASSAGES, questions=tmp_path / "questions.jsonl")
    assert (both["documents"], both["entries"]) == (3, 2)
    write_records(tmp_path / "questions.jsonl", [QuestionRecord("q", "Where?", "Rome")])
    with pytest.raises(SystemExit) as stop:
        build(*PASSAGES, questions=tmp_path / "questions.jsonl")
    assert "questions.jsonl" in str(stop.value)


def test_two_documents_of_one_id_end_with_one_line(
    build: Callable[..., dict[str, Any]], engines: list[ScriptedEngine]
) -> None:
    with pytest.raises(SystemExit) as stop:
        build(PASSAGES[0], PassageRecord("p1", "Other", "Text."))
    assert "document 'p1' is there already" in str(stop.value)


def test_another_extractor_or_encoder_is_refused(
    build: Callable[..., dict[str, Any]],
    engines: list[ScriptedEngine],
    backbone: Path,
    extractor: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build(*PASSAGES[:2])
    other = tri_rag_component(tmp_path / "other", backbone, "prefix_tuning")
    with pytest.raises(SystemExit) as stop:
        build(*PASSAGES, extractor=other)
    assert "tri_rag (" in str(stop.value) and "other (" in str(stop.value)
    arguments = ("--corpus", tmp_path / "corpus.jsonl", "--extractor", extractor)
    with pytest.raises(SystemExit) as stop:
        run_main(
            monkeypatch, inference.build_kb.main, *arguments, "--out", tmp_path / "kb",
            "--encoder", "minilm",
        )  # fmt: skip
    assert "hash" in str(stop.value) and "minilm" in str(stop.value)


@pytest.mark.parametrize("trained", [True, False])
def test_evaluate_answers_from_the_knowledge_base(
    trained: bool,
    build: Callable[..., dict[str, Any]],
    engines: list[ScriptedEngine],
    backbone: Path,
    run: Run,
    tmp_path: Path,
) -> None:
    build(*PASSAGES)
    questions = [QuestionRecord("q", "Where was Ada born?", "Rome", context=[("Ada", ["Ada."])])]
    write_records(tmp_path / "questions.jsonl", questions)
    ras = ras_component(tmp_path / "ras", backbone) if trained else "none"
    arguments = (
        "--loop", "tri_rag", "--dataset", tmp_path / "questions.jsonl", "--ras", ras,
        "--corpus", tmp_path / "corpus.jsonl", "--backbone", backbone,
        "--engine", "transformers", "--dtype", "float32",
        "--max-answer-tokens", 3, "--max-rounds", 2, "--out", tmp_path / "out",
    )  # fmt: skip
    results = run(inference.evaluate.main, *arguments, "--kb", tmp_path / "kb")
    assert (results["loop"], results["n"], results["errors"]) == ("tri_rag", 1, 0)
    assert results["indexing"]["llm_calls"] == len(engines[0].requests)
    trace = json.loads((tmp_path / "out" / "traces.jsonl").read_text())
    assert ["Ada", "place of birth", "Rome"] in trace["graph"]
    assert "p1" in {passage["id"] for passage in trace["steps"][0]["passages"]}
    if find_spec("milvus_lite"):
        index = ("--index", tmp_path / "index.db", "--out", tmp_path / "milvus")
        run(inference.evaluate.main, *arguments, "--kb", tmp_path / "kb", *index)
        there = json.loads((tmp_path / "milvus" / "traces.jsonl").read_text())
        assert (there["answer"], there["steps"]) == (trace["answer"], trace["steps"])
    with pytest.raises(SystemExit) as stop:
        run(inference.evaluate.main, *arguments)
    assert "--kb" in str(stop.value)
    write_records(tmp_path / "corpus.jsonl", PASSAGES[:1])
    with pytest.raises(SystemExit) as stop:
        run(inference.evaluate.main, *arguments, "--kb", tmp_path / "kb")
    assert "name the corpus that it was built from" in str(stop.value)
