"""build_hierarchy.py and the th_rag loop of the commands, on a tiny backbone."""

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import inference.ask
import inference.build_hierarchy
import inference.build_propositions
import inference.evaluate
import inference.opening.extractors
import inference.opening.index_build
import inference.opening.loop
from benchmarks.scripted_world.scripted_engine import ScriptedEngine, prompt_text
from inference.engines.contract import Request
from inference.indexes.cost import read_cost
from inference.indexes.hierarchy.index import HierarchyIndex
from models.files.checkpoint import component_fingerprint
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.records import PassageRecord, QuestionRecord, write_records
from tests import processes
from tests.components import chat_backbone, helper_component, ras_component, t2t_component
from tests.run_main import Run, json_runner
from tests.tiny import tiny_tokenizer

PASSAGES = [
    PassageRecord("p1", "Ada", "Ada is a painter. She was born in Rome."),
    PassageRecord("p2", "Ben", "Ben was born in Oslo."),
    PassageRecord("p3", "Eve", "Nobody knows."),
]


def index_model(request: Request) -> str:
    """What a trained text-to-triples model and topic helper would write."""
    prompt = prompt_text(request, lambda ids: str(tiny_tokenizer().decode(ids)))
    if prompt.rstrip().endswith("Topic:"):
        return "Geography | City" if "Entity: Rome" in prompt else "no topic"
    own = prompt.rstrip().endswith("Triplets with topics:")
    if own or prompt.startswith("—Role—"):
        item = {"triplet": ["Ada", "place of birth", "Rome"], "sentence": "She was born in Rome.",
                "subject": {"subtopic": "Painter", "main_topic": "Art"},
                "object": {"subtopic": "City", "main_topic": "Geography"}}  # fmt: skip
        # The paper's prompt asks for an object a triplet.
        written = json.dumps({"triplets": [item]} if own else item)
        return written if "Ada" in prompt else '{"triplets": []}'
    name, _, rest = prompt.split("Text: ")[1].partition(": ")
    place = rest.split("born in ")[-1].split(".")[0]
    return "none" if name == "Eve" else f"(S> {name}| P> place of birth| O> {place})"


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def t2t(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return t2t_component(tmp_path_factory.mktemp("components") / "t2t", backbone)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedEngine]:
    opened: list[ScriptedEngine] = []

    def open_engine(*arguments: Any, **options: Any) -> ScriptedEngine:
        opened.append(ScriptedEngine(index_model))
        return opened[-1]

    monkeypatch.setattr(inference.opening.extractors, "build_engine", open_engine)
    return opened


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return json_runner(monkeypatch, capsys, tmp_path / "cache", "--encoder", "hash")


@pytest.fixture
def build(run: Run, t2t: Path, tmp_path: Path) -> Run:
    """Build a hierarchy from some of the passages."""

    def build_from(*passages: PassageRecord, more: tuple[object, ...] = ()) -> dict[str, Any]:
        corpus: tuple[object, ...] = ()
        if passages:
            write_records(tmp_path / "corpus.jsonl", passages)
            corpus = ("--corpus", tmp_path / "corpus.jsonl")
        return run(
            inference.build_hierarchy.main, *corpus, "--t2t", t2t, "--out", tmp_path / "h", *more
        )

    return build_from


def test_what_another_index_extracted_costs_a_hierarchy_no_call(
    build: Run, run: Run, t2t: Path, engines: list[ScriptedEngine], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setattr(
        inference.opening.index_build, "build_engine", inference.opening.extractors.build_engine
    )
    corpus = tmp_path / "corpus.jsonl"
    write_records(corpus, PASSAGES[:2])
    run(
        inference.build_propositions.main,
        *("--corpus", corpus, "--t2t", t2t, "--out", tmp_path / "propositions"),
    )
    first = build(*PASSAGES)
    assert (first["LLM calls"], first["facts"]) == (1, 2)
    assert [len(engine.requests) for engine in engines] == [2, 1]
    assert read_cost(tmp_path / "h")["llm_calls"] == 1


def test_only_documents_of_some_questions(
    build: Run, engines: list[ScriptedEngine], tmp_path: Path
) -> None:
    asked = QuestionRecord("q1", "Where?", ["Oslo"], context=[("Ben", ["Ben was born in Oslo."])])
    write_records(tmp_path / "questions.jsonl", [asked])
    built = build(*PASSAGES, more=("--questions", tmp_path / "questions.jsonl"))
    assert (built["documents"], built["facts"]) == (1, 1)


def test_a_build_grows_shrinks_and_calls_the_model_once_a_chunk(
    build: Run, engines: list[ScriptedEngine], tmp_path: Path
) -> None:
    first = build(PASSAGES[0])
    assert (first["new documents"], first["LLM calls"], first["facts"]) == (1, 1, 1)
    assert (first["topic nodes"], first["entity nodes"], first["components"]) == (2, 2, 1)
    grown = build(*PASSAGES)
    assert (grown["documents"], grown["LLM calls"], grown["chunks without a fact"]) == (3, 2, 1)
    assert grown["dropped: not a triplet"] == 1
    calls = sum(len(engine.requests) for engine in engines)
    shrunk = build(more=("--delete", "p2", "p9"))
    assert (shrunk["documents deleted"], shrunk["documents"], shrunk["facts"]) == (1, 2, 1)
    changed = PassageRecord("p1", "Ada", "Ada was born in Oslo.")
    with pytest.raises(SystemExit, match="--replace"):
        build(changed)
    replaced = build(changed, more=("--replace",))
    assert (replaced["documents"], replaced["LLM calls"]) == (2, 1)
    assert sum(len(engine.requests) for engine in engines) == calls + 1
    assert (read_cost(tmp_path / "h") or {})["llm_calls"] == calls + 1


def test_long_documents_are_cut_into_chunks(build: Run, engines: list[ScriptedEngine]) -> None:
    text = " ".join(f"Ada was born in Town{n} long ago." for n in range(9))
    counts = build(
        PassageRecord("long", "Ada", text), more=("--chunk-tokens", 15, "--chunk-overlap", 7)
    )
    # Two sentences of seven words a chunk, one of them again in the next.
    assert (counts["documents"], counts["chunks"], counts["LLM calls"]) == (1, 8, 8)
    assert counts["sentences"] == 8


def test_topics_by_a_trained_helper_and_by_the_prompted_model(
    build: Run, run: Run, engines: list[ScriptedEngine], backbone: Path, t2t: Path, tmp_path: Path
) -> None:
    helper = helper_component(tmp_path / "topic", backbone, "topic")
    counts = build(*PASSAGES, more=("--topic-helper", helper))
    # Two triples' calls with two entities each, and the one without a triple.
    assert (counts["LLM calls"], counts["dropped: not a topic"]) == (3 + 4, 3)
    with pytest.raises(SystemExit, match=r"begun with the indexing model 't2t .* topic"):
        build(*PASSAGES)
    wrong = helper_component(tmp_path / "wrong", backbone, "resolve")
    with pytest.raises(SystemExit, match="is a helper for 'resolve'"):
        build(*PASSAGES, more=("--topic-helper", wrong))
    prompted = run(
        inference.build_hierarchy.main, "--corpus", tmp_path / "corpus.jsonl",
        "--indexer", "prompted", "--backbone", "any", "--out", tmp_path / "prompted",
    )  # fmt: skip
    assert (prompted["LLM calls"], prompted["facts"], prompted["topic nodes"]) == (3, 1, 2)


def test_the_papers_own_prompt_builds_another_index_and_is_not_held_to_our_schema(
    run: Run, engines: list[ScriptedEngine], tmp_path: Path
) -> None:
    write_records(tmp_path / "corpus.jsonl", PASSAGES)

    def built(*more: str) -> dict[str, Any]:
        return run(
            inference.build_hierarchy.main, "--corpus", tmp_path / "corpus.jsonl", "--encoder",
            "hash", "--indexer", "prompted", "--backbone", "any", "--out", tmp_path / "h", *more,
        )  # fmt: skip

    with pytest.raises(SystemExit, match="give --indexer prompted, or leave --prompts out"):
        built("--prompts", "paper", "--indexer", "t2t")

    counts = built("--prompts", "paper")
    assert (counts["LLM calls"], counts["facts"], counts["topic nodes"]) == (3, 1, 2)
    [asked] = {prompt_text(r).partition("—Input Document—\n")[2] for r in engines[-1].requests
               if "Ben was born" in prompt_text(r)}  # fmt: skip
    assert asked == "Ben: Ben was born in Oslo."
    with pytest.raises(SystemExit, match="begun with the indexing model 'prompted any by the pap"):
        built()
    with pytest.raises(SystemExit, match="--constrain holds outputs to one list"):
        built("--prompts", "paper", "--constrain")


def test_the_papers_preset_needs_topics_that_the_corpus_names(
    build: Run, run: Run, engines: list[ScriptedEngine], backbone: Path, tmp_path: Path
) -> None:
    asked = ("Where was Ada born?", "--loop", "th_rag", "--hierarchy", tmp_path / "h",
             "--preset", "paper", "--ras", "none", "--backbone", backbone)  # fmt: skip
    build(*PASSAGES)
    with pytest.raises(SystemExit, match=r"topics from a list .* Build it with --topics corpus"):
        run(inference.ask.main, *asked)
    shutil.rmtree(tmp_path / "h")
    built = build(*PASSAGES, more=("--topics", "corpus"))
    assert built["topic nodes"] >= 1
    with pytest.raises(SystemExit, match="topics of the corpus', and 't2t"):
        build(*PASSAGES)
    trace = run(inference.ask.main, *asked, "--engine", "transformers", "--dtype", "float32",
                "--max-answer-tokens", 3)  # fmt: skip
    assert trace["error"] is None


def test_what_cannot_be_is_refused_in_one_line(
    build: Run, run: Run, engines: list[ScriptedEngine], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with pytest.raises(SystemExit, match="holds no hierarchy"):
        build()
    build(*PASSAGES)
    with pytest.raises(SystemExit, match=r"encoder hash, and minilm is given"):
        build(*PASSAGES, more=("--encoder", "minilm"))

    def loaded(*arguments: Any, **options: Any) -> ScriptedEngine:
        pytest.fail("the backbone was loaded first")

    monkeypatch.setattr(inference.opening.loop, "build_engine", loaded)
    for arguments, message in ((("--hierarchy", tmp_path / "no"), "holds no hierarchy"),
                               ((), "name it with --hierarchy")):  # fmt: skip
        with pytest.raises(SystemExit, match=message):
            run(inference.ask.main, "Who?", "--loop", "th_rag", "--ras", "none", *arguments)


KILLED = """
import os, signal, sys
import inference.build_hierarchy, inference.opening.extractors
from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from tests.inference.test_build_hierarchy import index_model
limit, asked = int(sys.argv.pop(1)), []
def script(request):
    asked.append(request)
    if len(asked) > limit:
        os.kill(os.getpid(), signal.SIGKILL)
    return index_model(request)
inference.opening.extractors.build_engine = lambda *a, **k: ScriptedEngine(script)
inference.build_hierarchy.main()
"""


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_killed_build_goes_on_and_asks_only_for_what_is_missing(
    t2t: Path, tmp_path: Path
) -> None:
    corpus = [PassageRecord(f"p{n}", f"Ada{n}", f"Ada{n} was born in Rome{n}.") for n in range(9)]
    write_records(tmp_path / "corpus.jsonl", corpus)
    program = tmp_path / "killed.py"
    program.write_text(KILLED)

    def build(killed_after: int, folder: str) -> subprocess.CompletedProcess[str]:
        return processes.run(
            program, killed_after, "--corpus", tmp_path / "corpus.jsonl", "--t2t", t2t,
            "--encoder", "hash", "--json", "--out", tmp_path / folder,
            "--cache", tmp_path / f"{folder}.sqlite",
        )  # fmt: skip

    assert build(4, "h").returncode == -signal.SIGKILL
    done = build(99, "h")
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    whole = json.loads(build(99, "whole").stdout.splitlines()[-1])
    assert (counts["LLM calls"], whole["LLM calls"]) == (5, 9)
    for name in ("documents", "facts", "sentences", "nodes", "edges", "components"):
        assert counts[name] == whole[name]


@pytest.mark.parametrize("trained", [True, False])
def test_evaluate_answers_from_the_hierarchy(
    trained: bool, build: Run, engines: list[ScriptedEngine], backbone: Path, run: Run,
    tmp_path: Path,
) -> None:  # fmt: skip
    build(*PASSAGES)
    context = [("Ada", [PASSAGES[0].text])]
    record = QuestionRecord("q", "Where was Ada born?", "Rome", context=context,
                            supporting_facts=[("Ada", 0)])  # fmt: skip
    write_records(tmp_path / "questions.jsonl", [record])
    ras = ras_component(tmp_path / "ras", backbone) if trained else "none"
    results = run(
        inference.evaluate.main, "--loop", "th_rag", "--dataset", tmp_path / "questions.jsonl",
        "--ras", ras, "--backbone", backbone,
        "--engine", "transformers", "--dtype", "float32", "--max-answer-tokens", 3,
        "--hierarchy", tmp_path / "h", "--traversal", "embedding", "--out", tmp_path / "out",
    )  # fmt: skip
    assert (results["loop"], results["n"], results["errors"]) == ("th_rag", 1, 0)
    assert results["retrieval_recall"] == 1.0
    trace = json.loads((tmp_path / "out" / "traces.jsonl").read_text())
    assert ["Ada", "place of birth", "Rome"] in trace["graph"]
    assert trace["bill"]["llm_calls"] == 1
    settings = json.loads((tmp_path / "out" / "settings.json").read_text())
    assert settings["hierarchy"] == str(tmp_path / "h")


def test_a_hierarchy_searched_in_milvus_answers_the_same(
    build: Run, engines: list[ScriptedEngine], backbone: Path, run: Run, tmp_path: Path
) -> None:
    pytest.importorskip("milvus_lite", reason="the extra `milvus` is not installed")
    index = ("--index", tmp_path / "index.db")
    build(*PASSAGES[:1], more=index)
    build(*PASSAGES)
    record = QuestionRecord("q", "Where was Ben born?", "Oslo")
    write_records(tmp_path / "questions.jsonl", [record])

    def answered(name: str, *more: object) -> list[Any]:
        run(
            inference.evaluate.main, "--loop", "th_rag", "--dataset", tmp_path / "questions.jsonl",
            "--ras", "none", "--backbone", backbone,
            "--engine", "transformers", "--dtype", "float32", "--max-answer-tokens", 3,
            "--hierarchy", tmp_path / "h", "--traversal", "embedding", "--out", tmp_path / name,
            *more,
        )  # fmt: skip
        trace = json.loads((tmp_path / name / "traces.jsonl").read_text())
        return [trace["answer"], trace["steps"], trace["graph"]]

    with pytest.raises(SystemExit, match=r"build_hierarchy\.py with --index"):
        answered("stale", *index)
    # Brought up to the folder without a document more.
    build(more=index)
    assert answered("milvus", *index) == answered("memory")


def test_ask_chooses_topics_through_a_constrained_backbone(
    build: Run, engines: list[ScriptedEngine], backbone: Path, run: Run, tmp_path: Path
) -> None:
    """An untrained model can only choose what the graph holds."""
    build(*PASSAGES[:2])
    trace = run(
        inference.ask.main, "Where was Ada born?", "--loop", "th_rag", "--ras", "none",
        "--backbone", backbone, "--engine", "transformers", "--dtype", "float32",
        "--hierarchy", tmp_path / "h", "--max-answer-tokens", 3, "--most-topics", 1,
    )  # fmt: skip
    [step] = trace["steps"]
    graph = HierarchyIndex.load(tmp_path / "h", load_sentence_encoder("hash")).graph
    assert step["decision"].split(": ")[0] in graph.topics
    assert trace["bill"]["llm_calls"] == 2
    assert not [note for note in trace["notes"] if "does not hold" in note]


def test_a_trained_chooser_is_served_and_part_of_the_settings(
    build: Run, engines: list[ScriptedEngine], backbone: Path, run: Run, tmp_path: Path
) -> None:
    build(*PASSAGES[:2])
    chooser = helper_component(tmp_path / "chooser", backbone, "choose_topics")
    wrong = helper_component(tmp_path / "wrong", backbone, "topic")
    write_records(tmp_path / "questions.jsonl", [QuestionRecord("q", "Where was Ada born?", "")])
    evaluate = (
        inference.evaluate.main, "--loop", "th_rag", "--dataset", tmp_path / "questions.jsonl",
        "--ras", "none", "--backbone", backbone, "--engine", "transformers", "--dtype", "float32",
        "--max-answer-tokens", 3, "--hierarchy", tmp_path / "h", "--most-topics", 1,
        "--most-subtopics", 1, "--out", tmp_path / "out",
    )  # fmt: skip
    results = run(*evaluate, "--topic-chooser", chooser)
    assert (results["n"], results["errors"]) == (1, 0)
    trace = json.loads((tmp_path / "out" / "traces.jsonl").read_text())
    # One choice of topics, perhaps one of subtopics, and the answer; a schema leaves nothing wrong.
    assert trace["bill"]["llm_calls"] in (2, 3)
    assert not [note for note in trace["notes"] if "does not hold" in note]
    settings = json.loads((tmp_path / "out" / "settings.json").read_text())
    assert settings["topic_chooser"] == component_fingerprint(chooser)
    with pytest.raises(SystemExit, match="begun with topic_chooser"):
        run(*evaluate, "--resume")
    with pytest.raises(SystemExit, match="is a helper for 'topic', and 'choose_topics'"):
        run(*evaluate, "--topic-chooser", wrong)
    with pytest.raises(SystemExit, match=r"--topic-chooser .* with --traversal none"):
        run(*evaluate, "--topic-chooser", chooser, "--traversal", "none")
