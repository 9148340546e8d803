"""The scripted perfect model: what it answers to each kind of request, and its errors."""

import asyncio
from pathlib import Path

import pytest

from benchmarks.scripted_world.gold_world import GoldWorld, answer_from, make_world, steps_of
from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from benchmarks.scripted_world.world_model import WorldModel
from inference.engines.contract import Request, Sampling
from inference.indexes.extraction import TripleCache, TripleExtractor
from inference.loops.model import GraphReader, passages_prompt
from inference.loops.ras import RasLoop, RasSettings
from inference.retrieval.bm25 import Bm25Retriever
from inference.runs.evaluation import run_questions
from models.formats.conditions import claim, parse_conditions
from models.formats.helpers import (
    SubqueryInput,
    decompose_prompt,
    gap_prompt,
    parse_gap,
    parse_resolution,
    parse_subquery,
    resolve_prompt,
    subquery_writer_prompt,
)
from models.formats.planning import History, HistoryStep
from models.formats.prompts import (
    answer_prompt,
    conditions_prompt,
    passage_text,
    plan_prompt,
    triples_prompt,
)
from models.formats.query_triplets import parse_query_triplets
from models.formats.topics import Topic, parse_topic, topic_prompt
from models.formats.triples import parse_triples
from tests.scripted import text_input


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> GoldWorld:
    return make_world(tmp_path_factory.mktemp("world") / "world")


def ask(model: WorldModel, prompt: str) -> str:
    return model(Request(messages=({"role": "user", "content": prompt.strip()},)))


def test_every_question_has_an_answer_that_its_facts_allow(world: GoldWorld) -> None:
    for record in world.questions:
        assert answer_from(record, record.evidences) == record.answer
        assert answer_from(record, world.triples) == record.answer
        assert bool(steps_of(record)) == bool(record.evidences)
        assert answer_from(record, []) == (None if record.evidences else record.answer)


def test_triples_and_conditions_of_a_passage(world: GoldWorld) -> None:
    model = WorldModel(world)
    for passage in world.passages:
        text = passage_text(passage.title, passage.text)
        for few_shot in (False, True):
            written = ask(model, triples_prompt(text, few_shot))
            assert parse_triples(written).triples == world.facts[text]
        parsed = parse_conditions(ask(model, conditions_prompt(text, few_shot=True)))
        assert [t.conclusion for t in parsed.triplets] == [
            claim(fact) for fact in world.facts[text]
        ]
    assert parse_triples(ask(model, triples_prompt("Nothing known."))).triples == []


def test_decomposition_gap_and_resolution_agree_with_the_annotation(world: GoldWorld) -> None:
    model = WorldModel(world)
    texts = {fact: text for text, facts in world.facts.items() for fact in facts}
    for record in world.questions:
        steps = steps_of(record)
        written = parse_query_triplets(ask(model, decompose_prompt(record.question)))
        assert written.triplets == [step.open for step in steps]
        assert parse_gap(ask(model, gap_prompt(record.question, []))).missing == written.triplets
        assert parse_gap(ask(model, gap_prompt(record.question, record.evidences))).missing == []
        for step, fact in zip(steps, record.evidences, strict=True):
            if record.type == "intersection" or not step.asked.placeholders:
                continue
            for line in (
                texts[fact],
                claim(fact),
                f"{fact.subject} {fact.predicate} {fact.object}",
            ):
                text = ask(model, resolve_prompt(step.asked, [line]))
                assert parse_resolution(text, step.asked) == step.found
            assert ask(model, resolve_prompt(step.asked, ["Some other text."])) == "nothing"


def test_an_answer_needs_the_facts_in_the_prompt(world: GoldWorld) -> None:
    model = WorldModel(world)
    by_title = {passage.title: passage for passage in world.passages}
    for record in world.questions:
        support = [by_title[title] for title, _ in record.supporting_facts]
        assert ask(model, passages_prompt(record.question, support)) == record.answer
        whole = History(record.question, (HistoryStep("?", tuple(record.evidences)),))
        assert ask(model, answer_prompt(whole)) == record.answer
        if record.evidences:
            assert ask(model, passages_prompt(record.question, [])) == "unknown"
            part = History(record.question, (HistoryStep("?", tuple(record.evidences[:-1])),))
            assert ask(model, answer_prompt(part)) == "unknown"
            assert ask(model, plan_prompt(part)).startswith("[SUBQ] ")
            assert ask(model, plan_prompt(whole)) == "[SUFFICIENT]"
        else:
            assert ask(model, plan_prompt(History(record.question))) == "[NO_RETRIEVAL]"
    assert ask(model, passages_prompt("Wer hat das gesagt?", world.passages)) == "unknown"


def test_topics_and_subqueries(world: GoldWorld) -> None:
    model = WorldModel(world)
    person = next(name for name, topic in world.topics.items() if topic.subtopic == "Person")
    assert parse_topic(ask(model, topic_prompt(person, "He lives."))) == Topic(
        "Biography", "Person"
    )
    record = next(record for record in world.questions if record.type == "bridge")
    title, sentences = record.context[record.question_decomposition[0].paragraph_support_idx or 0]
    given = SubqueryInput(record.question, title, " ".join(sentences))
    first = parse_subquery(ask(model, subquery_writer_prompt(given)))
    assert first == record.question_decomposition[0].question


async def test_ras_answers_the_whole_world(world: GoldWorld) -> None:
    engine = ScriptedEngine(WorldModel(world), gives_way=True)
    loop = ras_loop(engine, world)
    traces = await run_questions(loop, world.questions, concurrency=40)
    right = [
        trace.answer in record.answers
        for trace, record in zip(traces, world.questions, strict=True)
    ]
    assert sum(right) / len(right) > 0.9
    assert all(trace.error is None for trace in traces)
    assert engine.most_at_once > 20


def ras_loop(engine: ScriptedEngine, world: GoldWorld) -> RasLoop:
    def extract(passage: object) -> Request:
        return Request(prompt=triples_prompt(passage_text(passage.title, passage.text)))

    extractor = TripleExtractor(engine, extract, TripleCache(None, "test"))
    retriever = Bm25Retriever(world.passages, title_weight=5)
    own = RasSettings(max_rounds=8, first_subquery="question")
    return RasLoop(GraphReader(engine, text_input), retriever, extractor, own)


def test_errors_come_at_their_rate_and_depend_on_the_prompt_alone(world: GoldWorld) -> None:
    prompts = [triples_prompt(text) for text in world.facts]
    prompts += [decompose_prompt(record.question) for record in world.questions]
    good = [ask(WorldModel(world), prompt) for prompt in prompts]
    model = WorldModel(world, error_rate=0.2, seed=3)
    spoiled = {prompt: ask(model, prompt) for prompt in prompts}
    differing = [p for p, text in zip(prompts, good, strict=True) if spoiled[p] != text]
    assert 0.1 * len(prompts) < len(differing) <= model.spoiled.total() < 0.3 * len(prompts)
    again = WorldModel(world, error_rate=0.2, seed=3)
    assert {prompt: ask(again, prompt) for prompt in reversed(prompts)} == spoiled
    other = WorldModel(world, error_rate=0.2, seed=4)
    assert {prompt: ask(other, prompt) for prompt in prompts} != spoiled
    only = WorldModel(world, error_rate=1.0, only={"decompose"})
    assert [ask(only, p) for p in prompts[: len(world.facts)]] == good[: len(world.facts)]
    assert only.spoiled == {"triples": 0}


def test_spoiled_outputs_are_wrong_or_malformed(world: GoldWorld) -> None:
    model = WorldModel(world, error_rate=1.0)
    well_formed_but_wrong = malformed = 0
    for text, facts in world.facts.items():
        parsed = parse_triples(ask(model, triples_prompt(text)))
        well_formed_but_wrong += not parsed.malformed and len(parsed.triples) == len(facts)
        malformed += len(parsed.triples) < len(facts)
    assert well_formed_but_wrong > 50 and malformed > 50


async def test_the_engine_honours_stop_strings_and_counts_what_waits() -> None:
    engine = ScriptedEngine(lambda request: "one STOP two", gives_way=True)
    request = Request(prompt="a b", sampling=Sampling(stop=("STOP",)))
    done = await asyncio.gather(*(engine.generate([request, request]) for _ in range(5)))
    assert {completion.text for part in done for completion in part} == {"one "}
    assert (engine.most_at_once, done[0][0].input_tokens) == (10, 2)


def test_a_world_is_read_from_its_folder(tmp_path: Path) -> None:
    world = make_world(tmp_path / "small", questions=30, seed=9)
    assert len(world.questions) == 30 and len(world.passages) == 200
