"""T²RAG on a world: right answers with the paper's number of calls, and sense where models err."""

from collections.abc import Callable

import pytest

from benchmarks.scripted_world.gold_world import GoldWorld, make_world
from benchmarks.scripted_world.scripted_engine import ScriptedEngine, WideHashEncoder
from benchmarks.scripted_world.world_model import WorldModel
from inference.engines.contract import Request
from inference.indexes.propositions.index import (
    PassageSearch,
    PropositionIndex,
    PropositionSearch,
    Search,
)
from inference.indexes.propositions.parts import Document
from inference.loops.model import GraphReader
from inference.loops.t2rag import T2RagLoop, T2RagSettings
from inference.loops.t2rag_steps import Decomposer, HelperResolver, PromptedResolver, Resolver
from inference.loops.trace import Trace
from inference.retrieval.dense import DenseRetriever
from inference.runs.evaluation import run_questions
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.prompts import passage_text, triples_prompt
from models.formats.records import QuestionRecord
from models.formats.triples import Triple, parse_triples
from tests.scripted import text_input

ENCODER = WideHashEncoder()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> GoldWorld:
    return make_world(tmp_path_factory.mktemp("world") / "world")


def world_documents(world: GoldWorld) -> list[Document]:
    return [
        Document(p.id, "key", tuple(world.facts[passage_text(p.title, p.text)]))
        for p in world.passages
    ]


@pytest.fixture(scope="module")
def search(world: GoldWorld) -> PropositionSearch:
    index = PropositionIndex(ENCODER)
    index.add(world_documents(world))
    return PropositionSearch(index, {passage.id: passage for passage in world.passages})


def make_loop(
    engine: ScriptedEngine, search: Search, resolver: Resolver | None = None, **settings: int
) -> T2RagLoop:
    options = T2RagSettings(**{"max_rounds": 4, **settings})
    resolver = resolver or PromptedResolver(engine)
    return T2RagLoop(engine, Decomposer(engine), resolver, search, options)


def wrong(done: list[tuple[QuestionRecord, Trace]]) -> list[QuestionRecord]:
    return [record for record, trace in done if trace.answer not in record.answers]


def depth(record: QuestionRecord) -> int:
    """Rounds that a question takes where every search finds what it looks for: the facts in a
    row."""
    facts = len(record.evidences)
    row = {"single": 1, "bridge": facts, "comparison": 1, "bridge_comparison": 2, "intersection": 1}
    return facts // 2 if record.type == "yes_no" else row[record.type]


async def run(loop: T2RagLoop, records: list[QuestionRecord]) -> list[tuple[QuestionRecord, Trace]]:
    traces = await run_questions(loop, records, concurrency=50)
    assert [trace.error for trace in traces] == [None] * len(records)
    return list(zip(records, traces, strict=True))


def with_facts(world: GoldWorld) -> list[QuestionRecord]:
    return [record for record in world.questions if record.evidences]


async def test_a_perfect_model_takes_the_calls_of_algorithm_1(
    world: GoldWorld, search: Search
) -> None:
    engine = ScriptedEngine(WorldModel(world), gives_way=True)
    done = await run(make_loop(engine, search), world.questions)
    assert [record.type for record in wrong(done)] == ["intersection"] * 2
    assert {depth(record) for record in with_facts(world)} == {1, 2, 3, 4}
    for record, trace in done:
        # One decomposition, one resolution a round, one answer.
        rounds = depth(record) if record.evidences else 0
        assert trace.bill.llm_calls == 2 + rounds
        assert len(trace.steps) == max(rounds, 1)
        if record.evidences and record.type != "intersection":
            assert set(trace.graph) == set(record.evidences)
            assert trace.notes == []
            assert trace.answer in record.answers
            assert set(trace.bill.seconds) == {"decompose", "retrieve", "resolve", "answer"}
            last = {passage.title for passage in trace.steps[-1].passages}
            assert record.evidences[-1].subject in last or record.evidences[-1].object in last
    assert engine.most_at_once >= 40
    assert len(engine.requests) == sum(trace.bill.llm_calls for _, trace in done)


@pytest.mark.slow
@pytest.mark.exhaustive
async def test_a_perfect_model_with_the_default_encoder(world: GoldWorld) -> None:
    index = PropositionIndex(load_sentence_encoder())
    index.add(world_documents(world))
    search = PropositionSearch(index, {passage.id: passage for passage in world.passages})
    done = await run(make_loop(ScriptedEngine(WorldModel(world)), search), world.questions)
    assert {record.type for record in wrong(done)} <= {"intersection"}
    for record, trace in done:
        assert trace.bill.llm_calls == 2 + (depth(record) if record.evidences else 0)


async def test_every_question_in_few_rounds(world: GoldWorld, search: Search) -> None:
    """Forced termination: the answer is from what was resolved, and the trace says so."""
    engine = ScriptedEngine(WorldModel(world))
    done = await run(make_loop(engine, search, max_rounds=2), with_facts(world))
    for record, trace in done:
        assert len(trace.steps) == min(depth(record), 2)
        if depth(record) > 2:
            assert trace.answer == "unknown" and "unresolved" in trace.notes[-1]
            assert set(trace.graph) < set(record.evidences)
    shallow = [(record, trace) for record, trace in done if depth(record) <= 2]
    assert [record.type for record in wrong(shallow)] == ["intersection"] * 2


def depth_one(world: GoldWorld) -> list[QuestionRecord]:
    return [record for record in with_facts(world) if depth(record) == 1][:20]


async def test_the_ablation_without_passages(world: GoldWorld, search: Search) -> None:
    engine = ScriptedEngine(WorldModel(world))
    resolver = PromptedResolver(engine, show_passages=False)
    records = depth_one(world)
    done = await run(make_loop(engine, search, resolver=resolver), records)
    assert [record.type for record in wrong(done)] == ["intersection"] * 2
    texts = [passage.text for passage in world.passages]
    for request in engine.requests:
        assert not any(text in request.messages[0]["content"] for text in texts)
    assert all(trace.steps[0].passages for _, trace in done)


async def test_the_ablation_with_passages_in_place_of_propositions(
    world: GoldWorld, search: Search
) -> None:
    passages = PassageSearch(DenseRetriever(world.passages, ENCODER))
    engine = ScriptedEngine(WorldModel(world))
    done = await run(make_loop(engine, passages), depth_one(world))
    assert all(not step.propositions for _, trace in done for step in trace.steps)
    assert all(len(step.passages) == 5 for _, trace in done for step in trace.steps)
    # A passage's embedding is coarser than that of one fact: some are not among the five.
    found = [set(record.evidences) <= facts_shown(world, trace) for record, trace in done]
    assert [trace.answer in record.answers for record, trace in done] == found
    by_facts = await run(make_loop(engine, search), depth_one(world))
    assert 0 < len(wrong(by_facts)) < len(wrong(done)) < len(done)
    assert {record.type for record in wrong(done)} == {"intersection", "comparison"}


def facts_shown(world: GoldWorld, trace: Trace) -> set[Triple]:
    """What the passages state that the loop read."""
    passages = [passage for step in trace.steps for passage in step.passages]
    return {fact for p in passages for fact in world.facts[passage_text(p.title, p.text)]}


def asked_of(adapter: str) -> Callable[[str], Request]:
    return lambda prompt: Request(prompt=prompt, adapter=adapter)


@pytest.mark.parametrize("show_passages", [True, False])
async def test_trained_helpers_and_a_trained_answerer(
    show_passages: bool, world: GoldWorld, search: Search
) -> None:
    model = WorldModel(world)
    engine = ScriptedEngine(model)
    loop = T2RagLoop(
        engine,
        Decomposer(engine, asked_of("decompose")),
        HelperResolver(engine, asked_of("resolve"), show_passages),
        search,
        T2RagSettings(max_rounds=4),
        GraphReader(engine, text_input),
    )
    records = [record for record in with_facts(world) if record.type != "intersection"][:40]
    done = await run(loop, records)
    assert wrong(done) == []
    # A call for every triplet, once it can be searched.
    facts = sum(len(record.evidences) for record in records)
    assert model.asked == {"decompose": 40, "resolve": facts, "answer": 40}
    assert {request.adapter for request in engine.requests} == {"decompose", "resolve", None}


async def test_errors_in_a_fifth_of_all_outputs(world: GoldWorld, search: Search) -> None:
    spoiled: list[str] = []

    def errs(request: Request) -> str:
        before = model.spoiled.total()
        text = model(request)
        if model.spoiled.total() > before:
            spoiled.append(request.messages[0]["content"] + "\n")
        return text

    model = WorldModel(world, error_rate=0.2, seed=1)
    done = await run(make_loop(ScriptedEngine(errs), search), world.questions)
    assert len(spoiled) > 50
    clean = [
        (record, trace)
        for record, trace in done
        if not any(f": {record.question}\n" in prompt for prompt in spoiled)
    ]
    assert len(done) / 4 < len(clean) < len(done)
    perfect = await run(make_loop(ScriptedEngine(WorldModel(world)), search), world.questions)
    answers = {record.id: trace.answer for record, trace in perfect}
    assert [trace.answer for _, trace in clean] == [answers[record.id] for record, _ in clean]
    for _, trace in done:
        assert trace.bill.llm_calls <= 6
        if trace.answer == "unknown":
            assert trace.steps == [] or trace.notes or trace.graph


@pytest.mark.parametrize("kind", ["decompose", "resolve_clues"])
async def test_a_step_that_always_errs_gives_no_false_answer_from_nothing(
    kind: str, world: GoldWorld, search: Search
) -> None:
    engine = ScriptedEngine(WorldModel(world, error_rate=1.0, only={kind}))
    done = await run(make_loop(engine, search), with_facts(world))
    declined = [trace for _, trace in done if trace.answer == "unknown"]
    assert len(declined) > 0.7 * len(done)
    assert sum(bool(trace.notes) for trace in declined) > 0.5 * len(declined)


async def test_an_index_of_spoiled_triples(world: GoldWorld) -> None:
    """A fifth of the extractions wrong or malformed as well."""
    model = WorldModel(world, error_rate=0.2, seed=7)
    documents = []
    for passage in world.passages:
        prompt = triples_prompt(passage_text(passage.title, passage.text))
        parsed = parse_triples(model(Request(prompt=prompt)))
        documents.append(Document(passage.id, "key", tuple(parsed.triples)))
    index = PropositionIndex(ENCODER)
    index.add(documents)
    assert len(index.propositions) < len(world.triples)
    kept = {triple for document in documents for triple in document.triples}
    search = PropositionSearch(index, {passage.id: passage for passage in world.passages})
    records = with_facts(world)
    # The passages tell what a spoiled proposition does not.
    done = await run(make_loop(ScriptedEngine(WorldModel(world)), search), records)
    intact = [(record, trace) for record, trace in done if set(record.evidences) <= kept]
    assert len(done) / 2 < len(intact) < len(done)
    assert [record.type for record in wrong(intact)] == ["intersection"]
    lost = [(record, trace) for record, trace in done if not set(record.evidences) <= kept]
    assert 0 < len(wrong(lost)) < len(lost)
    both = await run(make_loop(ScriptedEngine(model), search), records)
    assert len(wrong(both)) > len(wrong(done))


@pytest.mark.parametrize("rounds", [1, 2])
async def test_a_trained_answerer_reads_what_is_open_as_an_empty_step(
    rounds: int, search: Search
) -> None:
    texts = [
        "Dus | is | film\nDawn | director | ?a\n?a | spouse | ?",
        "Subject: Dawn Predicate: director Object: Ana",
        *[""] * (rounds - 1),
        "nobody",
    ]
    engine = ScriptedEngine(lambda request: texts.pop(0))
    loop = make_loop(engine, search, max_rounds=rounds)
    loop.reader = GraphReader(engine, text_input)
    trace = await loop.answer(QuestionRecord("q", "Who is it?", ""))
    assert trace.answer == "nobody"
    prompt = engine.requests[-1].prompt or ""
    assert prompt.partition("[SUBQ] Who is it?")[2].splitlines() == [
        "",
        "Retrieved Graph Information: ['(S> Dus| P> is| O> film)']",
        "[SUBQ] Dawn | director | ?a",
        "Retrieved Graph Information: ['(S> Dawn| P> director| O> Ana)']",
        "[SUBQ] Ana | spouse | ?",
        "Retrieved Graph Information: []",
        "Question: Who is it?",
    ]


async def answer_with(
    search: Search, decomposition: str, *resolutions: str, question: str = "Who?", **settings: int
) -> tuple[Trace, list[str]]:
    """A trace, and the prompts, of a model that writes these texts."""
    texts = [decomposition, *resolutions]
    prompts: list[str] = []

    def script(request: Request) -> str:
        prompts.append(request.messages[0]["content"])
        return texts.pop(0) if texts and not prompts[-1].endswith("Answer:") else "the answer"

    loop = make_loop(ScriptedEngine(script), search, **settings)
    return await loop.answer(QuestionRecord("q", question, "")), prompts


@pytest.mark.parametrize("text", ["", "nothing", "I cannot say.", "a | b", "| | |", "\x00"])
async def test_a_decomposition_without_a_triplet_is_answered_over_passages(
    text: str, search: Search, world: GoldWorld
) -> None:
    question = f"Who is {world.passages[3].title}?"
    trace, prompts = await answer_with(search, text, question=question)
    assert (trace.answer, trace.bill.llm_calls, len(trace.steps)) == ("the answer", 2, 1)
    assert trace.notes[-1] == "no triplet to resolve: answered over passages"
    assert trace.steps[0].subquery == question and len(trace.steps[0].passages) == 5
    assert world.passages[3].text in prompts[-1]


async def test_a_cycle_is_searched_with_the_question_and_given_up(search: Search) -> None:
    cycle = "?a | mother | ?b\n?b | child | ?a"
    trace, prompts = await answer_with(search, cycle, "Nothing is resolved.")
    # The second round would be the first one again.
    assert [step.subquery for step in trace.steps] == ["Who?"]
    assert trace.notes[-2:] == [
        "stopped early: no newly searchable triplet",
        "2 of 2 triplets unresolved",
    ]
    assert trace.bill.llm_calls == 3
    # What could not be searched is no clue for the answer either.
    assert prompts[-1].endswith("Key Reasoning Clues:\nAnswer:")


async def test_a_cycle_that_the_model_breaks_is_resolved(search: Search) -> None:
    trace, _ = await answer_with(
        search,
        "?a | mother | ?b\n?b | child | ?a",
        "Newly Searchable Clue 1: Subject: Ana Predicate: mother Object: ?b",
        "Fully Resolved Clue 1: Subject: Ana Predicate: mother Object: Eva",
    )
    assert [step.subquery for step in trace.steps] == [
        "Who?",
        "Ana | mother | ?b; ?b | child | Ana",
    ]
    assert [triple.subject for triple in trace.graph] == ["Ana", "Eva"]
    assert trace.notes == ["not read but inferred: Eva | child | Ana"]


async def test_one_placeholder_in_two_meanings(search: Search) -> None:
    trace, _ = await answer_with(
        search,
        "Dawn | director | ?x\nDusk | director | ?x",
        "Subject: Dawn Predicate: director Object: Ana\n"
        "Subject: Dusk Predicate: director Object: Bo",
    )
    assert [triple.object for triple in trace.graph] == ["Ana", "Bo"]
    assert trace.notes == ["?x was found to be 'Ana' and 'Bo': two things"]


async def test_a_question_in_another_language(search: Search, world: GoldWorld) -> None:
    question = f"谁是 {world.passages[3].title} 的母亲？"
    written = f"推理：需要母亲。\n{world.passages[3].title} | 母亲 | ?"
    trace, prompts = await answer_with(search, written, "上下文没有说明。", question=question)
    assert (trace.error, trace.answer, trace.bill.llm_calls) == (None, "the answer", 3)
    assert world.passages[3].title in {passage.title for passage in trace.steps[0].passages}
    assert trace.notes == [
        "round 1: 1 pieces of the resolution are no clue",
        "stopped early: no newly searchable triplet",
        "1 of 1 triplets unresolved",
    ]
    assert f"Subject: {world.passages[3].title} Predicate: 母亲 Object: ?" in prompts[-1]
    # A model that has never heard of the question declines.
    engine = ScriptedEngine(WorldModel(world))
    declined = await make_loop(engine, search).answer(QuestionRecord("q", question, ""))
    assert (declined.answer, declined.error) == ("unknown", None)


async def test_the_question_is_searched_when_only_fuzzy_triplets_are_left(search: Search) -> None:
    trace, _ = await answer_with(
        search,
        "Dawn | director | ?a\n?b | member of | ?c",
        "Subject: Dawn Predicate: director Object: Ana",
        "Newly Searchable Clue 1: Subject: Choir Predicate: member of Object: ?c",
        "",
    )
    asked = [step.subquery for step in trace.steps]
    assert asked == ["Dawn | director | ?a", "Who?", "Choir | member of | ?c"]
    assert trace.notes[0] == "stopped early: no newly searchable triplet"


async def test_a_clue_that_is_not_repeated_stays_and_is_resolved_later(search: Search) -> None:
    trace, prompts = await answer_with(
        search,
        "Dawn | director | ?a\nDusk | director | ?b\n?a | spouse | ?",
        "Fully Resolved Clue 1: Subject: Dawn Predicate: director Object: Ana",
        "Subject: Ana Predicate: spouse Object: Eve\nSubject: Dusk Predicate: director Object: Bo",
    )
    # Only what is newly searchable is searched, but the model is asked about all that is open.
    assert [step.subquery for step in trace.steps] == [
        "Dawn | director | ?a; Dusk | director | ?b",
        "Ana | spouse | ?",
    ]
    assert "Subject: Dusk Predicate: director Object: ?b" in prompts[2]
    assert [triple.object for triple in trace.graph] == ["Ana", "Bo", "Eve"]
    assert trace.notes == []


async def test_known_facts_need_no_retrieval(search: Search) -> None:
    trace, prompts = await answer_with(search, "Dawn | director | Ana")
    assert (trace.steps, trace.bill.llm_calls) == ([], 2)
    assert "Subject: Dawn Predicate: director Object: Ana\nAnswer:" in prompts[-1]


async def test_a_decomposition_that_runs_on_is_cut(search: Search) -> None:
    text = "\n".join(f"Film {number} | director | ?" for number in range(100))
    trace, prompts = await answer_with(search, text, "")
    assert trace.notes[0] == "decomposition: the first 20 of 100 triplets kept"
    assert "Film 19 " in prompts[1] and "Film 20 " not in prompts[1]
