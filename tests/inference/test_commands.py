"""ask.py, evaluate.py and extract.py on tiny untrained components."""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import inference.ask
import inference.evaluate
import inference.extract
from common.files import file_sha256
from inference.engines.contract import EngineError
from inference.indexes.extraction import TripleExtractor
from inference.loops.ras import RasLoop, StaticRasLoop
from inference.loops.trace import Trace, TraceStep
from inference.opening.arguments import command, positive_int
from inference.retrieval.corpus import MappedCorpus
from inference.retrieval.passages import Passage
from inference.runs.scores import scored_trace
from models.formats.records import (
    PassageRecord,
    QuestionRecord,
    TriplesSample,
    read_records,
    write_records,
)
from models.formats.triples import Triple
from tests import processes
from tests.components import chat_backbone, ras_component, t2t_component
from tests.processes import fresh
from tests.run_main import Run, json_runner, openings_of
from tests.tiny import tiny_backbone

ROOT = Path(__file__).resolve().parents[2]
PASSAGES = [
    PassageRecord("1", "Dawn", "Dawn is a film by Ana Lis."),
    PassageRecord("2", "Ana Lis", "Ana Lis was born in Brill."),
    PassageRecord("3", "Brill", "Brill is a town."),
]
CONTEXT = [("Dawn", ["Dawn is a film by Ana Lis."]), ("Brill", ["Brill is a town."])]
QUESTIONS = [
    QuestionRecord("a", "Who directed Dawn?", "Ana Lis", type="who", context=CONTEXT),
    QuestionRecord("b", "Where was Ana Lis born?", "Brill", type="who"),
    QuestionRecord("c", "What is Brill?", "a town", context=CONTEXT),
]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def components(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Options that name a RAS and a text-to-triples component."""
    folder = tmp_path_factory.mktemp("components")
    ras = ras_component(folder / "ras", backbone)
    return ("--ras", str(ras), "--t2t", str(t2t_component(folder / "t2t", backbone)))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A corpus and a data set."""
    write_records(tmp_path / "corpus.jsonl", PASSAGES)
    write_records(tmp_path / "questions.jsonl", QUESTIONS)
    return tmp_path / "corpus.jsonl", tmp_path / "questions.jsonl"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in float32 and give the JSON object that it prints last."""
    return json_runner(
        monkeypatch, capsys, tmp_path / "cache", "--engine", "transformers", "--dtype", "float32"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ask", "evaluate", "extract"])
def test_help_from_any_folder(name: str, tmp_path: Path) -> None:
    start = fresh if name == "ask" else processes.run  # One imports everything itself.
    done = start(ROOT / "inference" / f"{name}.py", "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--json" in done.stdout and "--t2t" in done.stdout


@pytest.mark.parametrize("concurrency", [1, 8])
def test_evaluate_writes_results_and_traces_in_order(
    concurrency: int, components: tuple[str, ...], files: tuple[Path, Path], tmp_path: Path,
    run: Run, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    corpus, dataset = files
    opened = openings_of(corpus, monkeypatch)
    results = run(
        inference.evaluate.main, *components, "--dataset", dataset, "--corpus", corpus,
        "--retriever", "bm25", "--concurrency", concurrency, "--max-answer-tokens", 4,
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == results
    lines = (tmp_path / "out" / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["a", "b", "c"]
    assert (results["loop"], results["n"], results["errors"]) == ("ras", 3, 0)
    assert results["preset"] == "tuned"
    assert results["departures"]["top_k"] == {"here": 3, "paper": 5}
    # Once for its hash, and once to be searched.
    assert len(opened) == 2
    settings = json.loads((tmp_path / "out" / "settings.json").read_text())
    digests = [file_sha256(corpus), file_sha256(dataset)]
    assert [settings["corpus_sha256"], settings["dataset_sha256"]] == digests


def test_a_question_that_fails_is_counted_and_spares_the_others(
    components: tuple[str, ...], files: tuple[Path, Path], tmp_path: Path, run: Run
) -> None:
    results = run(
        inference.evaluate.main, *components, "--loop", "ras_static", "--dataset", files[1],
        "--max-answer-tokens", 4, "--out", tmp_path / "out",
    )  # fmt: skip
    assert (results["n"], results["errors"]) == (3, 1)
    lines = (tmp_path / "out" / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    errors = [json.loads(line)["error"] for line in lines]
    assert errors[0] is None and errors[2] is None
    assert errors[1] == "ValueError: question b: ras_static needs passages in 'context'"


def test_an_interrupted_evaluation_goes_on_and_asks_only_what_is_missing(
    components: tuple[str, ...], files: tuple[Path, Path], tmp_path: Path, run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    out = tmp_path / "out"
    asked: list[str] = []
    whole = RasLoop.answer

    async def killed_at_b(
        self: RasLoop, record: QuestionRecord, trace: Trace | None = None
    ) -> Trace:
        if record.id == "b" and len(asked) == 1:
            raise KeyboardInterrupt
        asked.append(record.id)
        return await whole(self, record, trace)

    monkeypatch.setattr(RasLoop, "answer", killed_at_b)
    evaluate = (
        inference.evaluate.main, *components, "--dataset", files[1], "--corpus", files[0],
        "--retriever", "bm25", "--concurrency", 1, "--max-answer-tokens", 4, "--out", out,
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        run(*evaluate)
    assert not (out / "results.json").exists()
    with pytest.raises(SystemExit, match="--resume"):
        run(*evaluate)
    with pytest.raises(SystemExit, match="begun with top_k = 3, and 2 is given"):
        run(*evaluate, "--resume", "--top-k", 2)
    write_records(tmp_path / "elsewhere" / "corpus.jsonl", PASSAGES[:2])
    corrected = [replace(QUESTIONS[0], answer="Ana"), *QUESTIONS[1:]]
    write_records(tmp_path / "elsewhere" / "questions.jsonl", corrected)
    for name, stood in (("corpus", files[0]), ("dataset", files[1])):
        both = rf"begun with {name}_sha256 = '{file_sha256(stood)}', and '[0-9a-f]+' is given"
        with pytest.raises(SystemExit, match=both):
            run(*evaluate, "--resume", f"--{name}", tmp_path / "elsewhere" / stood.name)
    # A run that was begun before they were recorded goes on, and records them.
    recorded = (out / "settings.json").read_text()
    before = {k: v for k, v in json.loads(recorded).items() if not k.endswith("_sha256")}
    (out / "settings.json").write_text(json.dumps(before))
    asked.append("killed")
    results = run(*evaluate, "--resume")
    assert json.loads((out / "settings.json").read_text()) == json.loads(recorded)
    assert asked == ["a", "killed", "b", "c"]
    assert not (out / "progress.jsonl").exists()
    assert {name: own["n"] for name, own in results["by_type"].items()} == {"who": 2, "(none)": 1}
    earlier = (out / "results.json").read_text()
    assert run(*evaluate, "--resume") == results
    assert (out / "results.json").read_text() == earlier


def test_resume_asks_again_what_failed(
    components: tuple[str, ...], files: tuple[Path, Path], tmp_path: Path, run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    evaluate = (
        inference.evaluate.main, *components, "--loop", "ras_static", "--dataset", files[1],
        "--max-answer-tokens", 4, "--out", tmp_path / "out",
    )  # fmt: skip
    write_records(files[1], [replace(record, context=CONTEXT) for record in QUESTIONS])
    whole = StaticRasLoop.answer

    async def failing_at_b(
        self: StaticRasLoop, record: QuestionRecord, trace: Trace | None = None
    ) -> Trace:
        if record.id == "b":
            raise EngineError("busy")
        return await whole(self, record, trace)

    with monkeypatch.context() as patch:
        patch.setattr(StaticRasLoop, "answer", failing_at_b)
        assert run(*evaluate)["errors"] == 1
    results = run(*evaluate, "--resume")
    assert (results["n"], results["errors"]) == (3, 0)
    with pytest.raises(SystemExit, match="no evaluation to go on with"):
        run(*evaluate[:-1], tmp_path / "new", "--resume")


def test_questions_need_ids_of_their_own(
    components: tuple[str, ...], files: tuple[Path, Path], tmp_path: Path, run: Run
) -> None:
    write_records(files[1], [QUESTIONS[0], QUESTIONS[2], QUESTIONS[0]])
    with pytest.raises(SystemExit, match="'a' stands for 2 questions"):
        run(
            inference.evaluate.main, *components, "--loop", "none", "--dataset", files[1],
            "--out", tmp_path / "out",
        )  # fmt: skip


def test_an_untrained_backbone_needs_a_chat_template(
    backbone: Path, files: tuple[Path, Path], tmp_path: Path, run: Run
) -> None:
    evaluate = (
        inference.evaluate.main, "--loop", "none", "--ras", "none", "--dataset", files[1],
        "--max-answer-tokens", 4, "--out", tmp_path / "out", "--backbone",
    )  # fmt: skip
    assert run(*evaluate, backbone)["errors"] == 0
    plain = tiny_backbone(tmp_path / "plain")
    assert run(*evaluate, plain)["errors"] == 3
    first = (tmp_path / "out" / "traces.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert "no chat template" in json.loads(first)["error"]


def test_ask_gives_the_whole_trace(
    components: tuple[str, ...], files: tuple[Path, Path], run: Run
) -> None:
    trace = run(
        inference.ask.main, QUESTIONS[0].question, *components, "--corpus", files[0],
        "--loop", "ras_no_planning", "--retriever", "bm25", "--max-answer-tokens", 4,
    )  # fmt: skip
    [step] = trace["steps"]
    assert step["passages"][0] == {"id": "1", "title": "Dawn"}
    assert trace["bill"]["llm_calls"] == len(step["passages"]) + 1


def test_ask_wants_a_question(
    run: Run, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(inference.ask.main, " ", "--corpus", files[0])
    assert "the question is empty" in capsys.readouterr().err


def test_ask_prints_model_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    step = TraceStep(
        "[/b] who?", [Passage("1", "[red]", "")], [Triple("[b]", "[/]", "x")], "[SUBQ]"
    )
    inference.ask.show_trace(Trace("q", "[/i] answer", [step]))
    printed = capsys.readouterr().out
    for text in ("[/b] who?", "[red]", "(S> [b]| P> [/]| O> x)", "plan: [SUBQ]", "[/i] answer"):
        assert text in printed


def test_extract_scores_samples_with_gold(
    components: tuple[str, ...], tmp_path: Path, run: Run
) -> None:
    text = "Ada was born in Paris."
    gold = [TriplesSample("a", text, [Triple("Ada", "place of birth", "Paris")])]
    write_records(tmp_path / "gold.jsonl", gold)
    given = ("--samples", tmp_path / "gold.jsonl", "--out", tmp_path / "out.jsonl")
    figures = run(inference.extract.main, *given, "--t2t", components[3])
    # An untrained model finds nothing right; its own output as gold is all right.
    assert figures["exact_f1"] == 0.0
    [written] = read_records(tmp_path / "out.jsonl", TriplesSample)
    assert (written.id, written.text) == ("a", text)
    again = ("--samples", tmp_path / "out.jsonl", "--out", tmp_path / "again.jsonl")
    assert run(inference.extract.main, *again, "--t2t", components[3])["exact_f1"] == 1.0


def test_extract_reads_a_corpus_as_its_turn_comes_and_writes_in_order(
    components: tuple[Path, ...], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passages = [PassageRecord(f"p{n}", f"Ada {n}", "Ada was born in Rome.") for n in range(40)]
    write_records(tmp_path / "corpus.jsonl", passages)
    read: list[int] = []
    line = MappedCorpus._line

    def line_of(corpus: MappedCorpus, row: int) -> tuple[str, bytes]:
        read.append(row)
        return line(corpus, row)

    monkeypatch.setattr(MappedCorpus, "_line", line_of)
    asked: list[int] = []
    extract = TripleExtractor.extract

    async def noted(extractor: TripleExtractor, passages: list[Passage]) -> Any:
        asked.append(len(read))
        return await extract(extractor, passages)

    monkeypatch.setattr(TripleExtractor, "extract", noted)
    given = ("--corpus", tmp_path / "corpus.jsonl", "--max-batch-size", 1)
    out = tmp_path / "triples.jsonl"
    counts = run(inference.extract.main, *given, "--out", out, "--t2t", components[3])
    assert (counts["passages"], read) == (40, list(range(40)))
    # Eight batches of one passage are at work together.
    assert asked == [8 * (n // 8 + 1) for n in range(40)]
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [
        passage.id for passage in passages
    ]


def test_extract_calls_the_model_once_a_passage_and_component(
    components: tuple[str, ...], backbone: Path, files: tuple[Path, Path], tmp_path: Path, run: Run
) -> None:
    extract = (inference.extract.main, "--corpus", files[0], "--out", tmp_path / "triples.jsonl")
    counts = [
        run(*extract, "--t2t", components[3], "--limit", limit)["extracted_now"]
        for limit in (2, 3, 3)
    ]
    assert counts == [2, 1, 0]
    written = (tmp_path / "triples.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in written] == ["1", "2", "3"]
    other = t2t_component(tmp_path / "other", tiny_backbone(tmp_path / "seed", seed=1))
    assert run(*extract, "--t2t", other)["extracted_now"] == 3


def test_without_a_corpus_the_context_is_what_supports() -> None:
    record = QuestionRecord(
        "a", "q", "x", context=CONTEXT, supporting_facts=[("Dawn", 0)],
        evidences=[Triple("Dawn", "director", "Ana Lis")],
    )  # fmt: skip
    seen = Trace("q", steps=[TraceStep("q", [Passage("a/0", "Dawn", CONTEXT[0][1][0])])])
    rows = [scored_trace(record, trace) for trace in (seen, Trace("q"))]
    assert [row["recall"] for row in rows] == [1.0, 0.0]
    assert [row["stage"] for row in rows] == ["extraction", "plan"]


def test_expected_errors_end_with_one_line() -> None:
    def broken(error: Exception) -> str:
        @command
        def main() -> None:
            raise error

        with pytest.raises(SystemExit) as stopped:
            main()
        return str(stopped.value.code)

    assert broken(EngineError("two\n  lines")) == "error: two lines"
    missing = FileNotFoundError(2, "No such file or directory", "x.jsonl")
    assert broken(missing) == "error: x.jsonl: no such file. Check the path."
    denied = PermissionError(13, "Permission denied", "x.jsonl")
    assert broken(denied).startswith("error: x.jsonl: Permission denied. Check")
    with pytest.raises(KeyError):
        broken(KeyError("a mistake of the program's"))


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", ""])
def test_positive_int(text: str) -> None:
    assert positive_int("12") == 12
    with pytest.raises(argparse.ArgumentTypeError, match="1 or more"):
        positive_int(text)
