"""Every kind of bad input through the command that a user runs: what is said, and where.

Told precisely elsewhere, and not again here:

- a supporting fact that is not in the context: tests/data_gen/test_sources_questions.py (title,
  index, decomposition), tests/data_gen/test_build_commands.py (the command);
- a cut label of text-to-triples: tests/training/test_commands.py;
- a gradient that is not finite: tests/training/test_trainer.py;
- a full disk while a checkpoint is saved: tests/models/test_checkpoint.py (one component),
  tests/training/test_trainer.py (a training, whose earlier checkpoint stays whole);
- a malformed line and a missing field of each record type: tests/formats/test_records.py.
"""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import inference.ask
import inference.evaluate
import inference.extract
import training.train_ras
import training.train_t2t
from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from inference.engines.contract import Request, Sampling
from inference.indexes.extraction import TripleCache, TripleExtractor
from inference.loops.model import GraphReader, ReaderInput
from inference.loops.ras import RasLoop, RasSettings
from inference.loops.trace import Trace
from inference.opening.components import Component, reader_inputs
from inference.retrieval.bm25 import Bm25Retriever
from inference.retrieval.passages import Passage
from models.formats.planning import History, HistoryStep
from models.formats.records import (
    PassageRecord,
    QuestionRecord,
    RasSample,
    Task,
    TriplesSample,
    write_records,
)
from models.formats.triples import Triple
from models.processors.ras import RasProcessor
from tests.components import chat_backbone, ras_component, t2t_component
from tests.run_main import run_main
from tests.tiny import tiny_llama, tiny_tokenizer

ROOT = Path(__file__).resolve().parents[1]
Command = Callable[[], None]
Fails = Callable[..., str]
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def ras(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ras_component(tmp_path_factory.mktemp("components") / "ras", backbone)


@pytest.fixture(scope="module")
def t2t(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return t2t_component(tmp_path_factory.mktemp("components") / "t2t", backbone)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    passages = [PassageRecord("1", "Dawn", "Dawn is a film by Ana Lis."),
                PassageRecord("2", "Ana Lis", "Ana Lis was born in Brill.")]  # fmt: skip
    write_records(path, passages)
    return path


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    write_records(path, [QuestionRecord("q1", "Who directed Dawn?", "Ana Lis")])
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Run a command's main with a command line, caches in the test's own folder."""
    monkeypatch.setenv("TRIVIUM_CACHE", str(tmp_path / "cache"))

    return partial(run_main, monkeypatch)


@pytest.fixture
def fails(run: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> Fails:
    """Run a command that must fail without a traceback; its one line of error."""

    def run_failing(main: Command, *arguments: object) -> str:
        with pytest.raises(SystemExit) as stopped:
            run(main, *arguments)
        code = stopped.value.code
        # argparse writes its error itself and exits with 2.
        message = capsys.readouterr().err.strip() if code == 2 else str(code)
        line = message.splitlines()[-1] if code == 2 else message
        assert code and "\n" not in line and "Traceback" not in line
        return line

    return run_failing


def append(path: Path, line: str) -> Path:
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"id": "q2", "question": "Wh', "field '(line)': malformed JSON"),
        ('{"id": "q2", "answer": "x"}', "field 'question': missing"),
    ],
)
def test_a_broken_question_is_named_by_evaluate(
    line: str, said: str, questions: Path, corpus: Path, tmp_path: Path, fails: Fails
) -> None:
    append(questions, line)
    message = fails(
        inference.evaluate.main, "--dataset", questions, "--corpus", corpus, "--out", tmp_path / "o"
    )
    assert f"{questions}:2: {said}" in message
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [('{"id": "3", "title":', "field '(line)': malformed"), ('{"id": "3"}', "field 'text'")],
)
def test_a_broken_passage_is_named_by_ask_and_extract(
    line: str, said: str, corpus: Path, t2t: Path, tmp_path: Path, fails: Fails
) -> None:
    append(corpus, line)
    for message in (
        fails(inference.ask.main, "Who?", "--corpus", corpus),
        fails(inference.extract.main, "--corpus", corpus, "--t2t", t2t, "--out", tmp_path / "o"),
    ):
        assert f"{corpus}:3: {said}" in message


def test_an_empty_corpus_is_named_by_every_command(
    questions: Path, t2t: Path, tmp_path: Path, fails: Fails
) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n", encoding="utf-8")
    out = tmp_path / "out"
    for message in (
        fails(inference.ask.main, "Who?", "--corpus", empty),
        fails(inference.extract.main, "--corpus", empty, "--t2t", t2t, "--out", out),
        fails(
            inference.evaluate.main, "--dataset", questions, "--corpus", empty, "--out", out
        ),
    ):  # fmt: skip
        assert f"{empty}: the corpus holds no passage. Give a JSON Lines file" in message
    message = fails(inference.extract.main, "--asked", empty, "--out", tmp_path / "read.jsonl")
    assert f"{empty}: there is no asked passage in it; list what subqueries may find" in message
    assert not (tmp_path / "read.jsonl").exists()


def test_a_missing_corpus_or_data_set_is_named(
    questions: Path, corpus: Path, tmp_path: Path, fails: Fails
) -> None:
    missing = tmp_path / "no.jsonl"
    out = ("--out", tmp_path / "out")
    for message in (
        fails(inference.ask.main, "Who?", "--corpus", missing),
        fails(inference.extract.main, "--corpus", missing, *out),
        fails(inference.evaluate.main, "--dataset", missing, "--corpus", corpus, *out),
    ):
        assert message == f"error: {missing}: no such file. Check the path."
    assert "Is a directory" in fails(inference.extract.main, "--corpus", tmp_path, *out)
    (tmp_path / "empty").mkdir()
    message = fails(inference.ask.main, "Who?", "--corpus", tmp_path / "empty")
    assert "none of 0 files holds a text that can be read" in message
    message = fails(inference.ask.main, "Who?", "--corpus", tmp_path / "no")
    assert message == f"error: {tmp_path / 'no'} does not exist; name a file or a folder"
    assert "name it with --corpus" in fails(inference.ask.main, "Who?")


def test_components_that_do_not_fit_are_refused_with_the_remedy(
    corpus: Path, ras: Path, t2t: Path, tmp_path: Path, fails: Fails
) -> None:
    ask = (inference.ask.main, "Who?", "--corpus", corpus)
    missing = fails(*ask, "--ras", tmp_path / "nowhere", "--t2t", t2t)
    assert f"{tmp_path / 'nowhere'} is not a component folder: no such folder. Give" in missing
    swapped = fails(*ask, "--ras", t2t, "--t2t", t2t)
    assert f"{t2t} holds the component 't2t', and 'ras' is needed here" in swapped


def test_options_out_of_range_and_unknown_names_are_refused(
    questions: Path, corpus: Path, tmp_path: Path, fails: Fails
) -> None:
    evaluate = (inference.evaluate.main, "--dataset", questions, "--out", tmp_path / "o")
    assert "ras_no_planning" in fails(*evaluate, "--corpus", corpus, "--loop", "raptor")
    for option in ("--concurrency", "--limit", "--top-k", "--max-rounds", "--max-answer-tokens"):
        said = fails(*evaluate, "--corpus", corpus, option, "0")
        assert f"argument {option}: '0': give a whole number of 1 or more" in said
    assert "use evaluate.py" in fails(inference.ask.main, "Who?", "--loop", "ras_static")


def test_a_truncated_checkpoint_is_named(
    corpus: Path, ras: Path, t2t: Path, tmp_path: Path, fails: Fails
) -> None:
    broken = tmp_path / "broken"
    for name in ("adapter_model.safetensors", "graph_encoder.safetensors"):
        shutil.copytree(ras, broken)
        weights = (broken / name).read_bytes()
        (broken / name).write_bytes(weights[: len(weights) // 2])
        said = fails(
            inference.ask.main, "Who?", "--corpus", corpus, "--ras", broken, "--t2t", t2t
        )  # fmt: skip
        assert f"{broken / name} has {len(weights) // 2} bytes where {len(weights)}" in said
        assert "Copy it again" in said
        shutil.rmtree(broken)


def test_an_index_of_another_encoder_is_refused_with_both_names(
    backbone: Path, questions: Path, corpus: Path, tmp_path: Path,
    run: Callable[..., None], fails: Fails,
) -> None:  # fmt: skip
    command = (
        inference.evaluate.main, "--loop", "single", "--backbone", backbone,
        "--engine", "transformers", "--dtype", "float32",
        "--dataset", questions, "--corpus", corpus, "--out", tmp_path / "out",
        "--retriever", "dense", "--encoder", "hash", "--index", tmp_path / "index",
        "--max-answer-tokens", 2,
    )  # fmt: skip
    run(*command)
    meta = tmp_path / "index" / "dense" / "meta.json"
    built = {**json.loads(meta.read_text()), "encoder": "other", "encoder_fingerprint": "384:abc"}
    meta.write_text(json.dumps(built))
    said = fails(*command)
    assert str(tmp_path / "index" / "dense") in said and "Rebuild it" in said
    assert "encoder other" in said and "encoder hash" in said


def test_a_file_that_is_no_cache_is_named(
    corpus: Path, ras: Path, t2t: Path, tmp_path: Path, fails: Fails
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a data base, and long enough to be taken for one" * 100)
    said = fails(
        inference.extract.main, "--corpus", corpus, "--t2t", t2t,
        "--engine", "transformers", "--dtype", "float32",
        "--out", tmp_path / "o", "--cache", file,
    )  # fmt: skip
    assert f"{file}: cannot be used as the cache" in said and "Name another file" in said
    assert "not a data base" in file.read_text()


def test_a_long_question_is_asked_whole_and_the_trace_says_so(
    backbone: Path, t2t: Path, corpus: Path, tmp_path: Path,
    run: Callable[..., None], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    small = ras_component(tmp_path / "ras", backbone, max_input_tokens=1000)
    question = f"Who directed Dawn{' and nothing else' * 40}?"
    run(
        inference.ask.main, question, "--corpus", corpus, "--ras", small, "--t2t", t2t,
        "--retriever", "bm25",
        "--engine", "transformers", "--dtype", "float32", "--max-answer-tokens", 4, "--json",
    )  # fmt: skip
    trace = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (trace["question"], trace["error"]) == (question, None)
    kept = "the question alone exceeds the input budget and was kept whole"
    assert f"plan: {kept}" in trace["notes"] and f"answer: {kept}" in trace["notes"]


async def test_a_long_history_is_cut_and_the_question_never(backbone: Path, ras: Path) -> None:
    make_input = reader_inputs(Component.open(ras, "ras"))
    question = f"Where was Ana Lis born{' and where else' * 30}?"
    triples = tuple(Triple(f"Subject {i}", "is next to", f"Object {i}") for i in range(40))
    steps = (HistoryStep("First?", triples), HistoryStep("Second?", triples[:2]))
    engine, trace = ScriptedEngine(lambda request: "Brill"), Trace(question)
    assert await GraphReader(engine, make_input).answer(History(question, steps), trace) == "Brill"
    [request] = engine.requests
    ids = request.input_ids or ()
    assert len(ids) <= 1500
    prompt = tiny_tokenizer().decode(ids)
    assert f"Question: {question}\n" in prompt and "Object 1)" in prompt
    [note] = trace.notes
    assert note.startswith("answer: ") and note.endswith("triples left out to fit the input budget")


def recipe(component: str, data: Path, backbone: Path, *overrides: str) -> list[str]:
    """The command line of a tiny training."""
    given = [f"output_dir={data.parent / 'out'}", f"data.train={data}", "validation.samples=0"]
    config = ROOT / "configs" / f"{component}_tiny.yaml"
    return ["--config", str(config), *given, f"model.backbone={backbone}", *overrides]


def test_broken_training_samples_are_named(backbone: Path, tmp_path: Path, fails: Fails) -> None:
    data = tmp_path / "train.jsonl"
    for line, said in (
        ('{"id": "a/plan/0"', "field '(line)': malformed JSON"),
        ('{"id": "a/plan/0", "task": "plan", "question": "q"}', "field 'label': missing"),
    ):
        data.write_text(f"{line}\n", encoding="utf-8")
        message = fails(training.train_ras.main, *recipe("ras", data, backbone))
        assert f"{data}:1: {said}" in message


def test_a_cut_label_is_named_before_any_training(
    backbone: Path, tmp_path: Path, fails: Fails
) -> None:
    data = tmp_path / "train.jsonl"
    history = [HistoryStep("q?", (Triple("a", "b", "c"),))]
    write_records(
        data,
        [
            RasSample("q1/answer", "answer", "q?", history, "short"),
            RasSample("q2/answer", "answer", "q?", history, "a much longer answer"),
        ],
    )
    message = fails(
        training.train_ras.main, *recipe("ras", data, backbone, "model.max_output_tokens=8")
    )
    assert "the label is cut away in 1 samples: q2/answer. Raise model.max_input" in message
    assert not (tmp_path / "out" / "config.json").exists()


def test_a_loss_that_is_not_finite_stops_before_the_optimizer_steps(
    tmp_path: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_llama()
    with torch.no_grad():
        model.model.norm.weight[0] = float("nan")
    model.save_pretrained(tmp_path / "nan")
    tiny_tokenizer().save_pretrained(tmp_path / "nan")
    data = tmp_path / "train.jsonl"
    samples = [TriplesSample(f"t{i}", "Ada is 1.", [Triple("Ada", "age", "1")]) for i in range(3)]
    write_records(data, samples)
    steps: list[int] = []
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self, closure=None: steps.append(1))
    message = fails(
        training.train_t2t.main, *recipe("t2t", data, tmp_path / "nan", "train.max_steps=2")
    )
    assert "the loss is not finite at step 1; the optimizer has not stepped. Samples: " in message
    assert all(sample.id in message for sample in samples)
    assert steps == []
    assert not (tmp_path / "out" / "config.json").exists()


PIECES = st.sampled_from(
    ["[SUBQ]", "[SUFFICIENT]", "[NO_RETRIEVAL]", "[ SUBQ ]", "(S>", "|", "P>", "O>", ")", "(", "\\",
     "\n", "\x00", "'", "[/b]", "Dawn", "Ana Lis", "date of birth", "1 May 1980", "0000", "country",
     "Question: ", "Retrieved Graph Information: [", "</s>", "<pad>", "%s{}", "\u202e", "ﷺ"]
)  # fmt: skip
MODEL_TEXT = st.one_of(
    st.text(max_size=60),
    st.lists(PIECES, max_size=14).map(" ".join),
    st.lists(PIECES, max_size=14).map("".join),
    st.lists(st.tuples(PIECES, PIECES, PIECES), max_size=5).map(
        lambda triples: ", ".join(f"(S> {s}| P> {p}| O> {o})" for s, p, o in triples)
    ),
)
PASSAGES = [
    Passage("1", "Dawn", "Dawn is a film by Ana Lis."),
    Passage("2", "Ana Lis", "Ana Lis was born on 1 May 1980 in Brill."),
]


def real_inputs(task: Task, history: History, sampling: Sampling) -> ReaderInput:
    """Requests through the processor that a trained component is served with."""
    processor = RasProcessor(tiny_tokenizer(), max_input_tokens=900)
    prompt = processor.encode_prompt(task, history)
    request = Request(
        input_ids=tuple(prompt.input_ids), subgraphs=tuple(prompt.subgraphs), sampling=sampling
    )
    return ReaderInput(request, prompt.cut_triples, prompt.cut_steps)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts=st.lists(MODEL_TEXT, min_size=1, max_size=8))
async def test_text_that_a_model_wrote_never_raises(texts: list[str]) -> None:
    said = iter(texts * 10)
    engine = ScriptedEngine(lambda request: next(said))
    extractor = TripleExtractor(
        engine, lambda passage: Request(prompt=passage.text), TripleCache(None, "test")
    )
    reader = GraphReader(engine, real_inputs)
    loop = RasLoop(reader, Bm25Retriever(PASSAGES), extractor, RasSettings(max_rounds=3))
    trace = await loop.answer(QuestionRecord("q", "Who directed Dawn?", "Ana Lis"))
    assert trace.error is None
    assert len(trace.steps) <= 3
    record: dict[str, Any] = json.loads(json.dumps(trace.to_json()))
    assert record["answer"] == trace.answer.strip()
    inference.ask.show_trace(trace)
