"""build_propositions.py, and the loops over it and over passages, by evaluate.py and ask.py."""

import json
import signal
import sqlite3
import time
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import inference.ask
import inference.build_propositions
import inference.evaluate
import inference.opening.index_build
import inference.opening.loop
from benchmarks.scripted_world.gold_world import GoldWorld, make_world
from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from benchmarks.scripted_world.world_model import WorldModel
from inference.indexes.cost import read_cost
from inference.opening.loop import LOOPS
from inference.opening.loop_options import add_loop_arguments, options_from
from inference.runs.evaluation import settings_of
from models.formats.records import write_records
from models.formats.triples import Triple
from tests.components import chat_backbone, helper_component, ras_component, t2t_component
from tests.processes import begin, fresh
from tests.run_main import Run, json_runner
from tests.tiny import tiny_tokenizer

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("t2rag")


@pytest.fixture(scope="module")
def world(folder: Path) -> GoldWorld:
    world = make_world(folder / "world")
    chains = [r for r in world.questions if r.type in ("single", "bridge") and len(r.evidences) < 4]
    write_records(folder / "questions.jsonl", chains[:12])
    return world


@pytest.fixture(scope="module")
def components(folder: Path) -> dict[str, Path]:
    """A tiny backbone and a component of every kind; their prompts have room for whole passages."""
    backbone = chat_backbone(folder / "backbone")
    helpers = {
        task: helper_component(folder / task, backbone, task) for task in ("decompose", "resolve")
    }
    for path in helpers.values():
        config = json.loads((path / "config.json").read_text())
        config["max_input_tokens"] = 20_000
        (path / "config.json").write_text(json.dumps(config))
        manifest = json.loads((path / "manifest.json").read_text())
        manifest["files"]["config.json"]["bytes"] = (path / "config.json").stat().st_size
        (path / "manifest.json").write_text(json.dumps(manifest))
    ras = ras_component(folder / "ras", backbone, max_input_tokens=20_000)
    t2t = t2t_component(folder / "t2t", backbone)
    return {"backbone": backbone, "ras": ras, "t2t": t2t, **helpers}


@pytest.fixture
def engines(world: GoldWorld, monkeypatch: pytest.MonkeyPatch) -> list[ScriptedEngine]:
    """Engines that commands opened, with the adapters asked for; they answer from the world."""
    opened: list[ScriptedEngine] = []

    def open_engine(*arguments: Any, **options: Any) -> ScriptedEngine:
        def decode(ids: list[int]) -> str:
            return str(tiny_tokenizer().decode(ids, skip_special_tokens=True))

        engine = ScriptedEngine(WorldModel(world, decode=decode), gives_way=True)
        engine.adapters = dict(options.get("adapters") or {})
        opened.append(engine)
        return engine

    monkeypatch.setattr(inference.opening.index_build, "build_engine", open_engine)
    monkeypatch.setattr(inference.opening.loop, "build_engine", open_engine)
    return opened


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return json_runner(monkeypatch, capsys, tmp_path / "cache", "--encoder", "hash")


@pytest.fixture
def build(run: Run, folder: Path, components: dict[str, Path], tmp_path: Path) -> Run:
    """Build the index of the world's corpus, or of a part of it."""

    def build_from(*arguments: object, **options: object) -> dict[str, Any]:
        corpus = options.get("corpus", folder / "world" / "corpus.jsonl")
        return run(
            inference.build_propositions.main, "--corpus", corpus, "--t2t", components["t2t"],
            "--out", options.get("out", tmp_path / "index"), *arguments,
        )  # fmt: skip

    return build_from


def evaluate(
    run: Run, folder: Path, components: dict[str, Path], out: Path, loop: str, *more: object
) -> dict[str, Any]:
    return run(
        inference.evaluate.main, "--loop", loop, "--dataset", folder / "questions.jsonl",
        "--corpus", folder / "world" / "corpus.jsonl", "--backbone", components["backbone"],
        "--out", out, *more,
    )  # fmt: skip


def traces(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "traces.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("loop", "limits"),
    [
        ("ras", (3, 5)),
        ("tri_rag", (3, 5)),
        ("t2rag", (5, 3)),
        ("th_rag", (3, 5)),
        ("trig_nav", (5, 5)),
        ("ircot", (5, 3)),
        ("react", (5, 3)),
    ],
)
def test_each_loop_has_its_own_limits_where_none_are_given(
    loop: str, limits: tuple[int, int]
) -> None:
    parser = ArgumentParser()
    add_loop_arguments(parser)
    options = options_from(parser.parse_args(["--loop", loop, "--ras", "none"]))
    assert (options.top_k, options.max_rounds) == limits
    given = parser.parse_args(["--loop", loop, "--top-k", "7", "--max-rounds", "2"])
    assert (options_from(given).top_k, options_from(given).max_rounds) == (7, 2)
    settings = settings_of(options, Path("questions.jsonl"))
    assert json.loads(json.dumps(settings)) == settings
    # What is new with a loop is no setting of the others, whose evaluations can go on.
    special = {name for kind in LOOPS.values() for name in kind.own}
    assert special & set(settings) == set(LOOPS[loop].own)


def test_an_index_grows_by_what_is_new(
    build: Run, engines: list[ScriptedEngine], world: GoldWorld, tmp_path: Path
) -> None:
    first = build("--limit", 120)
    assert (first["added now"], first["documents"], len(engines[0].requests)) == (120, 120, 120)
    assert (read_cost(tmp_path / "index") or {})["llm_calls"] == 120
    again = build("--limit", 120)
    assert (again["added now"], again["propositions"]) == (0, first["propositions"])
    assert len(engines) == 1
    grown = build()
    assert (grown["added now"], grown["documents"]) == (80, 200)
    assert len(engines[1].requests) == 80
    assert (read_cost(tmp_path / "index") or {})["llm_calls"] == 200
    fresh = build(out=tmp_path / "fresh")
    # What was extracted before comes from the cache.
    assert engines[2].requests == []
    assert {k: v for k, v in fresh.items() if k in ("documents", "propositions")} == {
        "documents": 200,
        "propositions": len(world.triples),
    }


def test_propositions_searched_in_milvus_answer_the_same(
    build: Run,
    engines: list[ScriptedEngine],
    components: dict[str, Path],
    folder: Path,
    run: Run,
    tmp_path: Path,
) -> None:
    pytest.importorskip("milvus_lite", reason="the extra `milvus` is not installed")
    index = ("--index", tmp_path / "index.db")
    named = ("--propositions", tmp_path / "index", "--top-k", 20, "--ras", "none")
    build("--limit", 120, *index)
    build()
    with pytest.raises(SystemExit, match=r"other texts.*build_propositions\.py with --index"):
        evaluate(run, folder, components, tmp_path / "old", "t2rag", *named, *index)
    assert build(*index)["added now"] == 0
    for name, more in {"memory": (), "milvus": index}.items():
        assert evaluate(run, folder, components, tmp_path / name, "t2rag", *named, *more)["n"] == 12

    def seen(name: str) -> list[Any]:
        return [(row["id"], row["answer"], row["steps"]) for row in traces(tmp_path / name)]

    assert seen("milvus") == seen("memory")


def test_triples_by_a_prompted_model(
    build: Run, engines: list[ScriptedEngine], components: dict[str, Path], world: GoldWorld
) -> None:
    backbone = components["backbone"]
    done = build("--t2t", "none", "--backbone", backbone)
    assert done["propositions"] == len(world.triples)
    assert engines[0].adapters == {}
    assert all(request.messages and not request.adapter for request in engines[0].requests)
    with pytest.raises(SystemExit) as stop:
        build()
    assert f"extractor prompted {backbone}" in str(stop.value)


def test_a_loop_over_triples_prompts_for_them(
    run: Run,
    engines: list[ScriptedEngine],
    components: dict[str, Path],
    folder: Path,
    world: GoldWorld,
    tmp_path: Path,
) -> None:
    untrained = ("--ras", "none", "--t2t", "none")
    results = evaluate(run, folder, components, tmp_path / "out", "ras", *untrained)
    assert (results["n"], results["errors"], engines[0].adapters) == (12, 0, {})
    assert all(request.messages and not request.adapter for request in engines[0].requests)
    graph = [Triple(*triple) for trace in traces(tmp_path / "out") for triple in trace["graph"]]
    assert graph and set(graph) <= set(world.triples)


def test_only_what_the_questions_come_with(
    build: Run, engines: list[ScriptedEngine], world: GoldWorld, tmp_path: Path
) -> None:
    write_records(tmp_path / "one.jsonl", world.questions[:1])
    counts = build("--questions", tmp_path / "one.jsonl")
    assert counts["documents"] == len(world.questions[0].context)


def test_wrong_input_ends_with_one_line(
    build: Run,
    engines: list[ScriptedEngine],
    components: dict[str, Path],
    folder: Path,
    run: Run,
    tmp_path: Path,
) -> None:
    def message(action: Callable[[], object]) -> str:
        with pytest.raises(SystemExit) as stop:
            action()
        return str(stop.value)

    ask = partial(evaluate, run, folder, components, tmp_path / "out", "t2rag", "--ras", "none")
    assert "name their index with --propositions" in message(ask)
    assert "holds no proposition" in message(lambda: ask("--propositions", tmp_path / "none"))
    build("--limit", 20)
    named = ("--propositions", tmp_path / "index")
    wrong_task = message(lambda: ask(*named, "--decomposer", components["resolve"]))
    assert "for 'resolve', and 'decompose' is needed" in wrong_task
    both = ("--granularity", "passage", "--without-passages")
    assert "give one of the two" in message(lambda: ask(*both))
    lines = (folder / "world" / "corpus.jsonl").read_text().splitlines()
    (tmp_path / "part.jsonl").write_text("\n".join(lines[1:]) + "\n")
    other = message(lambda: ask(*named, "--corpus", tmp_path / "part.jsonl"))
    assert "name the corpus that it was built from" in other
    about = tmp_path / "index" / "part-00000" / "about.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "format_version": 0}))
    for action in (lambda: ask(*named), build):
        assert "index of format 0, and this version" in message(action)


def test_evaluate_prompted_by_helpers_and_with_a_trained_answerer(
    build: Run,
    engines: list[ScriptedEngine],
    components: dict[str, Path],
    folder: Path,
    run: Run,
    tmp_path: Path,
) -> None:
    build()
    index = ("--propositions", tmp_path / "index", "--top-k", 20)
    helpers = ("--decomposer", components["decompose"], "--resolver", components["resolve"])
    results = {}
    for name, more in {
        "prompted": ("--ras", "none"),
        "helpers": ("--ras", components["ras"], *helpers),
    }.items():
        out = tmp_path / name
        results[name] = evaluate(run, folder, components, out, "t2rag", *index, *more)
        assert (results[name]["n"], results[name]["errors"]) == (12, 0)
        assert results[name]["em"] >= 0.8
        first = traces(out)[0]
        assert first["steps"][0]["propositions"] and first["graph"]
        settings = json.loads((out / "settings.json").read_text())
        assert (settings["max_rounds"], settings["top_k"]) == (3, 20)
    assert [set(engine.adapters) for engine in engines[1:]] == [
        set(),
        {"ras", "decompose", "resolve"},
    ]
    # A prompted resolver takes one call a round, a helper one a triplet.
    assert results["prompted"]["llm_calls"] == len(engines[1].requests)
    assert {r.adapter for r in engines[2].requests} == {"ras", "decompose", "resolve"}


def test_the_ablations_by_options(
    build: Run,
    engines: list[ScriptedEngine],
    components: dict[str, Path],
    folder: Path,
    run: Run,
    tmp_path: Path,
    world: GoldWorld,
) -> None:
    build()
    index = ("--propositions", tmp_path / "index", "--ras", "none")
    ask = partial(evaluate, run, folder, components)
    ask(tmp_path / "single_round", "t2rag", *index, "--max-rounds", 1)
    assert {len(trace["steps"]) for trace in traces(tmp_path / "single_round")} == {1}
    ask(tmp_path / "facts", "t2rag", *index, "--without-passages")
    assert not any(
        passage.text in request.messages[0]["content"]
        for request in engines[-1].requests
        for passage in world.passages
    )
    by_passage = ("--granularity", "passage", "--retriever", "dense", "--ras", "none")
    ask(tmp_path / "passages", "t2rag", *by_passage)
    steps = [step for trace in traces(tmp_path / "passages") for step in trace["steps"]]
    assert all(len(step["passages"]) == 5 and "propositions" not in step for step in steps)


@pytest.mark.parametrize("loop", ["ircot", "react", "self_ask"])
def test_baselines_by_their_names(
    loop: str,
    engines: list[ScriptedEngine],
    components: dict[str, Path],
    folder: Path,
    run: Run,
    tmp_path: Path,
    world: GoldWorld,
) -> None:
    results = evaluate(
        run, folder, components, tmp_path / "out", loop, "--retriever", "bm25"
    )  # fmt: skip
    assert (results["loop"], results["n"], results["errors"]) == (loop, 12, 0)
    assert results["em"] >= 0.7
    assert engines[0].adapters == {}
    assert max(len(trace["steps"]) for trace in traces(tmp_path / "out")) <= 3


def test_ask_shows_a_trace(
    build: Run,
    engines: list[ScriptedEngine],
    components: dict[str, Path],
    folder: Path,
    run: Run,
    tmp_path: Path,
    world: GoldWorld,
) -> None:
    build()
    record = next(r for r in world.questions if r.type == "bridge" and len(r.evidences) == 2)
    trace = run(
        inference.ask.main, record.question, "--corpus", folder / "world" / "corpus.jsonl",
        "--loop", "t2rag", "--propositions", tmp_path / "index", "--ras", "none",
        "--backbone", components["backbone"], "--top-k", 20,
    )  # fmt: skip
    assert trace["answer"] == record.answer
    assert trace["bill"]["llm_calls"] == 4


def extracted(cache: Path) -> int:
    """Passages whose triples are in a cache so far."""
    try:
        with closing(sqlite3.connect(f"file:{cache}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT COUNT(*) FROM extracted").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_killed_build_goes_on(
    components: dict[str, Path], folder: Path, tmp_path: Path, world: GoldWorld
) -> None:
    """The real command, killed while it extracts, with a tiny model that writes no triples."""
    lines = (folder / "world" / "corpus.jsonl").read_text().splitlines()[:40]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    arguments = [
        ROOT / "inference" / "build_propositions.py",
        "--corpus", str(tmp_path / "corpus.jsonl"), "--t2t", str(components["t2t"]),
        "--out", str(tmp_path / "index"), "--cache", str(tmp_path / "triples.sqlite"),
        "--encoder", "hash", "--engine", "transformers", "--max-batch-size", "2",
    ]  # fmt: skip
    process = begin(*arguments)
    while not extracted(tmp_path / "triples.sqlite") and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not list((tmp_path / "index").glob("part-*"))
    done = fresh(*arguments)
    # An untrained model gives no triple, which is said in one line and is no index.
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: no triple in 40 documents")
    left = sorted(path.name for path in (tmp_path / "index").iterdir())
    assert left == ["indexing_cost.jsonl", "part-00000"]
