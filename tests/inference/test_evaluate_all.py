"""evaluate_all.py: the runs of evaluate.py on one engine, resumable, with a table at the end."""

import json
from pathlib import Path
from typing import Any

import pytest

import inference.evaluate
import inference.evaluate_all
import inference.opening.loop
from inference.engines.contract import Engine
from inference.loops.ras import RasLoop
from inference.loops.trace import Trace
from inference.opening.engine import build_engine
from models.formats.records import PassageRecord, QuestionRecord, write_records
from tests import processes
from tests.components import chat_backbone, ras_component, t2t_component
from tests.processes import fresh
from tests.run_main import Run, json_runner

ROOT = Path(__file__).resolve().parents[2]
LOOPS = ("none", "single", "ras")
PASSAGES = [
    PassageRecord("1", "Dawn", "Dawn is a film by Ana Lis."),
    PassageRecord("2", "Ana Lis", "Ana Lis was born in Brill."),
]
QUESTIONS = {
    "films": [QuestionRecord("a", "Who directed Dawn?", "Ana Lis"),
              QuestionRecord("b", "Where was Ana Lis born?", "Brill")],
    "towns": [QuestionRecord("a", "What is Brill?", "a town")],
}  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """Options of components on a tiny backbone, and of data sets and their corpora."""
    folder = tmp_path_factory.mktemp("evaluate_all")
    backbone = chat_backbone(folder / "backbone")
    ras, t2t = ras_component(folder / "ras", backbone), t2t_component(folder / "t2t", backbone)
    for name, questions in QUESTIONS.items():
        write_records(folder / f"{name}.jsonl", questions)
        write_records(folder / f"{name}_corpus.jsonl", PASSAGES)
    return (
        "--ras", ras, "--t2t", t2t, "--backbone", backbone, "--retriever", "bm25",
        "--max-answer-tokens", 4, "--engine", "transformers", "--dtype", "float32",
        "--corpus", folder / "{dataset}_corpus.jsonl",
    )  # fmt: skip


@pytest.fixture
def datasets(shared: tuple[object, ...]) -> tuple[str, ...]:
    folder = Path(str(shared[-1])).parent
    return tuple(f"{name}={folder / name}.jsonl" for name in QUESTIONS)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The adapters of every engine that is opened."""
    opened: list[tuple[str, ...]] = []

    def counted(*arguments: Any, **options: Any) -> Engine:
        opened.append(tuple(options["adapters"]))
        return build_engine(*arguments, **options)

    monkeypatch.setattr(inference.opening.loop, "build_engine", counted)
    return opened


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process and give the JSON object that it prints last."""
    return json_runner(monkeypatch, capsys, tmp_path / "cache")


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The traces without what a clock says."""
    lines = (folder / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        del row["bill"]["seconds"]
    return rows


def test_only_the_questions_own_documents_are_searched(
    run: Run, shared: tuple[object, ...], tmp_path: Path
) -> None:
    questions = tmp_path / "questions.jsonl"
    context = [("Dawn", ["Dawn is a film by Ana Lis."])]
    write_records(questions, [QuestionRecord("a", "Where was Ana Lis born?", "?", context=context)])
    common = ("--loop", "single", "--dataset", questions, *shared[:-1])
    corpus = Path(str(shared[-1])).with_name("films_corpus.jsonl")

    def titles(out: str, *more: str) -> set[str]:
        run(inference.evaluate.main, *common, corpus, "--out", tmp_path / out, *more)
        [row] = rows_of(tmp_path / out)
        return {passage["title"] for step in row["steps"] for passage in step["passages"]}

    assert titles("all") == {"Dawn", "Ana Lis"}
    assert titles("own", "--question-documents") == {"Dawn"}
    with pytest.raises(SystemExit, match="question_documents"):
        titles("own", "--resume")


def test_every_run_is_that_of_evaluate_on_one_engine(
    shared: tuple[object, ...], datasets: tuple[str, ...], engines: list[tuple[str, ...]],
    run: Run, tmp_path: Path,
) -> None:  # fmt: skip
    out = tmp_path / "out"
    given = ("--loops", *LOOPS, "--datasets", *datasets, *shared, "--out", out)
    compared = run(inference.evaluate_all.main, *given, "--baseline", "single")
    assert engines == [("ras", "t2t")]
    assert [(group["dataset"], group["n"]) for group in compared["datasets"]] == [
        ("films", 2), ("towns", 1)
    ]  # fmt: skip
    for group in compared["datasets"]:
        assert [figures["label"] for figures in group["runs"]] == list(LOOPS)
        assert group["baseline"] == "single"
    assert "| ras |" in (out / "compared.md").read_text(encoding="utf-8")
    assert (out / "compared.png").stat().st_size > 5000
    for loop in LOOPS:
        alone = tmp_path / "alone" / loop
        corpus = str(shared[-1]).replace("{dataset}", "films")
        one = (*shared[:-1], corpus, "--dataset", datasets[0].partition("=")[2])
        results = run(inference.evaluate.main, "--loop", loop, *one, "--out", alone)
        # A batch of other adapters does not change an answer; the triples' cache saves calls.
        costs = ("llm_calls", "input_tokens", "output_tokens", "weighted_tokens")
        ours = rows_of(out / "films" / loop)
        assert [(r["answer"], r["graph"]) for r in ours] == [
            (r["answer"], r["graph"]) for r in rows_of(alone)
        ]
        if loop != "ras":
            assert ours == rows_of(alone)
            stored = json.loads((out / "films" / loop / "results.json").read_text())
            assert [stored[cost] for cost in costs] == [results[cost] for cost in costs]
        settings = [
            (folder / "settings.json").read_text() for folder in (alone, out / "films" / loop)
        ]
        assert settings[0] == settings[1]


@pytest.mark.exhaustive
def test_a_killed_comparison_goes_on_and_leaves_what_is_done(
    shared: tuple[object, ...], datasets: tuple[str, ...], run: Run, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    out = tmp_path / "out"
    given = ("--loops", "none", "ras", "--datasets", *datasets, *shared, "--out", out)
    whole = RasLoop.answer

    async def killed_at_b(
        self: RasLoop, record: QuestionRecord, trace: Trace | None = None
    ) -> Trace:
        if record.id == "b":
            raise KeyboardInterrupt
        return await whole(self, record, trace)

    with monkeypatch.context() as patch:
        patch.setattr(RasLoop, "answer", killed_at_b)
        with pytest.raises(KeyboardInterrupt):
            run(inference.evaluate_all.main, *given, "--concurrency", 1)
    assert not (out / "compared.md").exists()
    done = (out / "films" / "none" / "results.json").read_text()
    with pytest.raises(SystemExit, match="films/none holds an evaluation: go on with --resume"):
        run(inference.evaluate_all.main, *given)
    with pytest.raises(SystemExit, match="begun with top_k = 3, and 2 is given"):
        run(inference.evaluate_all.main, *given, "--resume", "--top-k", 2)
    compared = run(inference.evaluate_all.main, *given, "--resume")
    assert [group["n"] for group in compared["datasets"]] == [2, 1]
    # Seconds and all: a finished run is not written again.
    assert (out / "films" / "none" / "results.json").read_text() == done
    again = run(inference.evaluate_all.main, *given, "--resume")
    assert again == compared


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("--corpus", "{dataset}_nowhere.jsonl"), "ras over films: --corpus films_nowhere.jsonl"),
        (("--datasets", "films=nowhere.jsonl"), "nowhere.jsonl: no such file"),
        (("--baseline", "t2rag"), "--baseline t2rag is none of --loops ras"),
        (("--loops", "tri_rag", "--kb", "kb/{dataset}"), "tri_rag over films: --kb kb/films does"),
        (("--ras", "nowhere"), "nowhere"),
    ],
)
def test_wrong_input_is_told_before_a_model_is_loaded(
    changes: tuple[str, ...], message: str, shared: tuple[object, ...], datasets: tuple[str, ...],
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def never(*_: Any, **__: Any) -> Engine:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(inference.opening.loop, "build_engine", never)
    given = ("--loops", "ras", "--datasets", *datasets, *shared, "--out", tmp_path / "out")
    with pytest.raises(SystemExit) as stopped:
        run(inference.evaluate_all.main, *given, *changes)
    assert message in str(stopped.value.code) and "\n" not in str(stopped.value.code)
    assert not (tmp_path / "out").exists()


def test_a_loop_that_searches_needs_a_corpus(
    shared: tuple[object, ...], datasets: tuple[str, ...], run: Run, tmp_path: Path
) -> None:
    given = ("--loops", "none", "single", "--datasets", *datasets, "--out", tmp_path / "out")
    with pytest.raises(SystemExit, match="single searches a corpus: name it with --corpus"):
        run(inference.evaluate_all.main, *given, *shared[:-2])


@pytest.mark.slow
def test_the_command_line_itself(
    shared: tuple[object, ...], datasets: tuple[str, ...], tmp_path: Path
) -> None:
    script = ROOT / "inference" / "evaluate_all.py"
    given = ("--loops", "none", "single", "--datasets", *datasets, *shared, "--out", "out")
    done = fresh(script, *given, "--json", cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(json.loads(done.stdout.splitlines()[-1])["datasets"]) == 2
    names = processes.run(
        script, "--loops", "none", "--datasets", "films.jsonl", "--out", "x", cwd=tmp_path
    )
    assert names.returncode == 2 and "give NAME=PATH" in names.stderr
