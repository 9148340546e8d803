"""Trig-Nav on a world with a scripted model: answers, calls, ablations, and what goes wrong."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from benchmarks.scripted_world.gold_world import GoldWorld, make_world
from benchmarks.scripted_world.scripted_engine import ScriptedEngine, prompt_text
from benchmarks.scripted_world.world_model import UNKNOWN, SubQuestionWriters, WorldModel
from inference.engines.contract import GenerationError, Request
from inference.indexes.extraction import TripleCache, TripleExtractor
from inference.loops.graph_evidence import EvidenceGatherer, EvidenceSettings, QuestionGraph
from inference.loops.model import GraphReader, ModelSteps, PromptRequest
from inference.loops.trace import Trace
from inference.loops.trig_nav import TrigNavLoop, TrigNavSettings
from inference.opening.components import prompted_triples_request
from inference.retrieval.bm25 import Bm25Retriever
from inference.retrieval.passages import Passage
from inference.runs.evaluation import run_questions
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.prompts import INSUFFICIENT, passage_text
from models.formats.records import QuestionRecord
from models.formats.triples import Triple, format_triples
from tests.inference.scripted_loop import FailingEngine
from tests.scripted import text_input

ENCODER = load_sentence_encoder("hash")
EVIDENCE, SETTINGS = EvidenceSettings(), TrigNavSettings(judge=True)
KINDS = ("factual", "associative", "causal")
DECLINED = (UNKNOWN, INSUFFICIENT)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> GoldWorld:
    return make_world(tmp_path_factory.mktemp("world") / "world", questions=120)


@pytest.fixture(scope="module")
def retriever(world: GoldWorld) -> Bm25Retriever:
    return Bm25Retriever(world.passages, title_weight=5)


def model_of(world: GoldWorld, **errors: object) -> WorldModel:
    model = WorldModel(world, **errors)
    SubQuestionWriters(model)
    return model


def make_loop(
    engine: ScriptedEngine,
    retriever: Bm25Retriever,
    evidence: EvidenceSettings = EVIDENCE,
    settings: TrigNavSettings = SETTINGS,
    helpers: dict[str, PromptRequest] | None = None,
    reader: GraphReader | None = None,
    cache: TripleCache | None = None,
) -> TrigNavLoop:
    known = TripleCache(None, "t") if cache is None else cache
    extractor = TripleExtractor(engine, prompted_triples_request, known)
    gatherer = EvidenceGatherer(retriever, extractor, ENCODER, evidence)
    return TrigNavLoop(ModelSteps(engine, helpers), gatherer, settings, reader)


def is_right(record: QuestionRecord, trace: Trace) -> bool:
    return trace.answer in record.answers


def reached(world: GoldWorld, record: QuestionRecord, trace: Trace) -> bool:
    """Whether all facts of a question were in what was retrieved."""
    passages = {passage for step in trace.steps for passage in step.passages}
    told = {f for p in passages for f in world.facts[passage_text(p.title, p.text)]}
    return set(record.evidences) <= told


@pytest.mark.parametrize("judge", [True, False])
async def test_a_perfect_model_answers_what_was_retrieved(
    judge: bool, world: GoldWorld, retriever: Bm25Retriever
) -> None:
    engine = ScriptedEngine(model_of(world), gathers=40)
    loop = make_loop(engine, retriever, settings=TrigNavSettings(judge=judge))
    traces = await run_questions(loop, world.questions, concurrency=60)
    both = list(zip(world.questions, traces, strict=True))
    found = [(record, trace) for record, trace in both if reached(world, record, trace)]
    wrong = [r.question for r, t in found if not is_right(r, t)]
    assert len(wrong) / len(found) <= 0.02, wrong
    assert len(found) / len(both) > 0.9
    assert {0, 1, 2, 3, 4} <= {len(record.evidences) for record, _ in found}
    for record, trace in both:
        assert is_right(record, trace) or trace.answer in DECLINED
    assert engine.most_at_once >= 40


async def test_the_calls_are_those_of_the_algorithm(
    world: GoldWorld, retriever: Bm25Retriever
) -> None:
    """Recall and judge; one to decompose a sub-question, one a triple; one to answer."""
    cache = TripleCache(None, "t")
    await run_questions(
        make_loop(ScriptedEngine(model_of(world)), retriever, cache=cache), world.questions, 60
    )
    traces = await run_questions(
        make_loop(ScriptedEngine(model_of(world)), retriever, cache=cache), world.questions, 60
    )
    enough = 0
    for record, trace in zip(world.questions, traces, strict=True):
        first, *steps = trace.steps
        asked = [step for step in steps if step.decision.split(":")[0] in KINDS]
        solving = [step for step in steps if step not in asked]
        if first.decision == "enough":
            assert (steps, trace.bill.llm_calls) == ([], 3)
            enough += 1
            continue
        resolved = sum(len(step.subquery.split(" / ")) for step in solving)
        answered = trace.answer != INSUFFICIENT
        assert trace.bill.llm_calls == 2 + len(asked) + resolved + answered
        if record.type == "bridge" and is_right(record, trace):
            # A chain is solved one triple a round, and none that the first passages tell.
            assert 1 <= len(solving) <= len(record.evidences)
    assert 5 < enough < 0.7 * len(traces)


async def test_kinds_of_knowledge_follow_the_shape_of_a_question(
    world: GoldWorld, retriever: Bm25Retriever
) -> None:
    loop = make_loop(
        ScriptedEngine(model_of(world)), retriever, settings=TrigNavSettings(judge=False)
    )
    records = [r for r in world.questions if r.type in ("single", "bridge", "intersection")]
    traces = await run_questions(loop, records, 60)
    kinds = {r.type: set[str]() for r in records}
    for record, trace in zip(records, traces, strict=True):
        kinds[record.type].add(trace.steps[0].decision.split(":")[0])
    assert kinds == {
        "single": {"factual"}, "bridge": {"associative"}, "intersection": {"causal"}
    }  # fmt: skip


async def test_trained_helpers_read_the_prompts_of_their_training(
    world: GoldWorld, retriever: Bm25Retriever
) -> None:
    def as_text(prompt: str) -> Request:
        return Request(prompt=prompt, adapter="helper")

    helpers = dict.fromkeys(("judge_gap", "decompose", "resolve"), as_text)
    model = model_of(world)
    engine = ScriptedEngine(model)
    loop = make_loop(
        engine, retriever, settings=TrigNavSettings(judge=True, recall=False), helpers=helpers,
        reader=GraphReader(engine, text_input),
    )  # fmt: skip
    traces = await run_questions(loop, world.questions, 60)
    right = [is_right(r, t) for r, t in zip(world.questions, traces, strict=True)]
    assert sum(right) / len(right) > 0.85
    assert model.asked["judge_gap"] == len(traces)
    assert model.asked["decompose"] + model.asked["judge"] == 0  # the judge wrote the triples
    kinds = {"Missing:": 0, "Filled:": 0}
    for request in engine.requests:
        last = prompt_text(request).rstrip().rpartition("\n")[2]
        if last in kinds:
            kinds[last] += 1
            assert request.adapter == "helper"
            assert prompt_text(request).startswith(("Question: ", "Passage: "))
    assert all(kinds.values())


@pytest.mark.parametrize("knowledge", ["graph", "text"])
async def test_graph_or_text_alone(
    knowledge: str, world: GoldWorld, retriever: Bm25Retriever
) -> None:
    model = model_of(world)
    settings = TrigNavSettings(judge=False)
    loop = make_loop(
        ScriptedEngine(model), retriever, EvidenceSettings(knowledge=knowledge), settings
    )
    records = [record for record in world.questions if record.evidences][:40]
    traces = await run_questions(loop, records, 40)
    right = [is_right(r, t) for r, t in zip(records, traces, strict=True)]
    assert sum(right) / len(right) > 0.8
    assert (model.asked["triples"] == 0) is (knowledge == "text")


async def test_with_errors_nothing_raises_and_half_is_still_right(
    world: GoldWorld, retriever: Bm25Retriever
) -> None:
    engine = ScriptedEngine(model_of(world, error_rate=0.2, seed=1))
    traces = await run_questions(make_loop(engine, retriever), world.questions, 60)
    assert {trace.error for trace in traces} == {None}
    right = sum(is_right(r, t) for r, t in zip(world.questions, traces, strict=True))
    assert 0.35 < right / len(traces) < 0.95
    assert any(trace.answer == INSUFFICIENT for trace in traces)
    notes = "\n".join(note for trace in traces for note in trace.notes)
    for expected in ("not a judgement", "not solved", "no open triple", "no sub-question"):
        assert expected in notes


@pytest.mark.parametrize(
    "question",
    ["Wer führte Regie?", "この映画の監督は誰ですか。", "من أخرج الفيلم؟", "?", "[SUBQ]"],
)
@pytest.mark.parametrize("judge", [True, False])
async def test_a_question_in_another_language_is_declined(
    question: str, judge: bool, world: GoldWorld, retriever: Bm25Retriever
) -> None:
    engine = ScriptedEngine(model_of(world))
    loop = make_loop(engine, retriever, settings=TrigNavSettings(judge=judge))
    trace = await loop.answer(QuestionRecord("q", question, ""))
    assert trace.error is None and trace.answer in DECLINED


# A small corpus of films, with a model that answers from a table.

FILM = Passage("1", "Dawn (1966 film)", "Dawn is a film directed by Ana Lis.")
NOVEL = Passage("2", "Dawn (novel)", "Dawn is a novel written by Bo Ek about a lighthouse.")
ANA = Passage("3", "Ana Lis", "Ana Lis was born in Brill. She also directed Dusk.")
DUSK = Passage("4", "Dusk", "Dusk is a comedy by Ana Lis.")
CORPUS = [FILM, NOVEL, ANA, DUSK]
TRIPLES = {
    FILM.title: [Triple("Dawn", "director", "Ana Lis"), Triple("Dawn", "genre", "drama")],
    NOVEL.title: [Triple("Dawn", "author", "Bo Ek"), Triple("Dawn", "director", "nobody")],
    ANA.title: [Triple("Ana Lis", "place of birth", "Brill")],
    DUSK.title: [Triple("Dusk", "director", "Ana Lis"), Triple("Dusk", "genre", "comedy")],
}


def scripted(**answers: str) -> Callable[[Request], str]:
    """A model that extracts well, answers kinds of request by `answers`, and resolves a triple by
    the first claim or the value given as `resolve`."""

    def script(request: Request) -> str:
        prompt = prompt_text(request)
        last = prompt.rstrip().rpartition("\n")[2]
        if last == "Triples:":
            title = prompt.rpartition("Text: ")[2].split(":")[0]
            return format_triples(TRIPLES[title])
        kinds = {"Known facts:": "recall", "Sub-questions:": "judge", "Triplets:": "decompose",
                 "Filled:": "resolve"}  # fmt: skip
        return answers.get(kinds.get(last, "answer"), "nothing")

    return script


def films(engine: ScriptedEngine, **settings: object) -> TrigNavLoop:
    """With a judge, unless the settings say otherwise."""
    chosen = TrigNavSettings(**{"judge": True, **settings})
    return make_loop(engine, Bm25Retriever(CORPUS), settings=chosen)


async def test_the_example_of_the_paper_is_solved_in_order() -> None:
    """[S, director, answer1], [answer1, date of death, answer2] of §3.3, one after the other."""
    asked: list[str] = []

    def script(request: Request) -> str:
        prompt = prompt_text(request)
        if prompt.rstrip().endswith("Filled:"):
            asked.append(prompt.rpartition("Open: ")[2].split("\n")[0])
            return (
                "Dusk | director | Ana Lis"
                if "Dusk" in asked[-1]
                else ("Ana Lis | place of birth | Brill")
            )
        given = {"judge": "Where was Dusk's director born?", "answer": "Brill",
                 "decompose": "?a | place of birth | ?\nDusk | director | ?a"}  # fmt: skip
        return scripted(**given)(request)

    engine = ScriptedEngine(script)
    trace = await films(engine).answer(QuestionRecord("q", "Where was Dusk's director born?", ""))
    assert trace.answer == "Brill"
    assert asked == ["Dusk | director | ?a", "Ana Lis | place of birth | ?"]
    assert trace.steps[1].decision == ("associative: Dusk | director | ?a; ?a | place of birth | ?")
    final = prompt_text(engine.requests[-1])
    assert "Sub-question: Where was Dusk's director born?\nDusk | director | Ana Lis\n" in final
    assert "Ana Lis | place of birth | Brill\nQuestion:" in final


async def test_a_name_of_several_things_is_taken_by_its_context() -> None:
    engine = ScriptedEngine(scripted(decompose="Dawn | director | ?", answer="x",
                                     resolve="Dawn | director | Ana Lis"))  # fmt: skip
    question = "Who is the director of the film Dawn, directed by whom?"
    trace = await films(engine, judge=False).answer(QuestionRecord("q", question, ""))
    assert "'Dawn' is taken for 'Dawn (1966 film)', one of 2" in trace.notes
    [resolving] = [r for r in engine.requests if "Filled:" in prompt_text(r)]
    shown = prompt_text(resolving)
    assert "Dawn was directed by Ana Lis." in shown and "lighthouse" not in shown
    assert "nobody" not in shown
    exact = "Dawn (novel) | author | ?"
    engine = ScriptedEngine(scripted(decompose=exact, answer="x", resolve="nothing"))
    trace = await films(engine, judge=False).answer(QuestionRecord("q", question, ""))
    assert "'Dawn (novel)' is taken for 'Dawn (novel)', one of 2" in trace.notes


async def test_steps_stand_in_the_order_of_their_triples_whichever_is_found_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later_is_found = asyncio.Event()
    gather = EvidenceGatherer.gather

    async def first_waits(self: EvidenceGatherer, group: Any, *given: Any) -> Any:
        if group[0].subject == "Dawn":
            await later_is_found.wait()
        found = await gather(self, group, *given)
        later_is_found.set()
        return found

    monkeypatch.setattr(EvidenceGatherer, "gather", first_waits)
    engine = ScriptedEngine(scripted(decompose="Dawn | director | ?\nDusk | director | ?"))
    trace = await films(engine, judge=False).answer(
        QuestionRecord("q", "Who directed Dawn and Dusk?", "")
    )
    assert [step.subquery for step in trace.steps[1:]] == ["Dawn director", "Dusk director"]
    assert trace.steps[1].triples and trace.steps[1].passages


@pytest.mark.parametrize(
    ("judged", "decompose", "fails", "waits"),
    [
        ("Who directed Dawn?\nWho directed Dusk?", "Dusk | director | ?",
         "Question: Who directed Dawn?\nTriplets:", "Question: Who directed Dusk?\nTriplets:"),
        (None, "Dawn | director | ?\nDusk | director | ?", "Open: Dawn", "Open: Dusk"),
        (None, "?a | director | Ana Lis\n?a | genre | comedy", "| director | Ana Lis\nFilled:",
         "| genre | comedy\nFilled:"),
    ],
    ids=["sub-questions", "groups of triples", "triples of a group"],
)  # fmt: skip
async def test_what_fails_leaves_nothing_running_that_was_begun_beside_it(
    judged: str | None, decompose: str, fails: str, waits: str
) -> None:
    script = scripted(judge=judged or "", decompose=decompose, resolve="nothing")
    engine = FailingEngine(script, fails, waits)
    trace = Trace("Who directed Dawn and Dusk?")
    with pytest.raises(GenerationError, match="cannot be written"):
        await films(engine, judge=judged is not None).answer(
            QuestionRecord("q", trace.question, ""), trace
        )
    assert engine.running == 0 and any(waits in prompt_text(r) for r in engine.requests)
    assert trace.bill.llm_calls == len(engine.requests)


async def test_evidence_for_one_unknown_is_pooled_and_what_fits_all_comes_first() -> None:
    engine = ScriptedEngine(scripted(
        decompose="?a | director | Ana Lis\n?a | genre | comedy", answer="Dusk",
        resolve="Dusk | director | Ana Lis\nDusk | genre | comedy",
    ))  # fmt: skip
    trace = await films(engine, judge=False).answer(
        QuestionRecord("q", "Which comedy was directed by Ana Lis?", "Dusk")
    )
    [first, together] = trace.steps
    assert first.decision.startswith("causal: ")
    assert together.subquery == "director Ana Lis / genre comedy"
    assert {t.subject for t in together.triples[:2]} == {"Dusk"}
    assert "Dawn" in {t.subject for t in together.triples}
    assert trace.answer == "Dusk" and not trace.notes


@pytest.mark.parametrize(
    ("director", "genre", "taken"),
    [("Dawn", "Dusk", "dusk"), ("Dusk", "Dawn", "dusk"), ("Moon", "Sun", "moon")],
)
async def test_answers_that_differ_for_one_unknown_are_looked_up(
    director: str, genre: str, taken: str
) -> None:
    """The passages tell both facts of Dusk, one of Dawn, and nothing of the others."""

    def script(request: Request) -> str:
        prompt = prompt_text(request)
        if prompt.rstrip().endswith("Filled:"):
            by_genre = "Open: ?a | genre" in prompt
            return f"{genre} | genre | comedy" if by_genre else f"{director} | director | Ana Lis"
        return scripted(decompose="?a | director | Ana Lis\n?a | genre | comedy",
                        answer="Dusk")(request)  # fmt: skip

    engine = ScriptedEngine(script)
    trace = await films(engine, judge=False).answer(
        QuestionRecord("q", "Which comedy was directed by Ana Lis?", "Dusk")
    )
    assert f"2 answers for one unknown, '{taken}' taken" in trace.notes
    read = prompt_text(engine.requests[-1]).casefold()
    assert f"{taken} | director | ana lis" in read
    assert ("dusk | genre | comedy" in read) == (taken == "dusk")


@pytest.mark.parametrize("judgement", ["", "I cannot say.", "not enough", "\x00|", "Where"])
async def test_a_judgement_that_cannot_be_read_takes_the_whole_question(judgement: str) -> None:
    engine = ScriptedEngine(scripted(judge=judgement, decompose="Dusk | genre | ?", answer="comedy",
                                     resolve="Dusk | genre | comedy"))  # fmt: skip
    trace = await films(engine).answer(QuestionRecord("q", "What is the genre of Dusk?", "comedy"))
    assert trace.answer == "comedy"
    assert any("not a judgement" in note for note in trace.notes)


@pytest.mark.parametrize("triples", ["", "no idea", "Dusk | genre | comedy", "||", "a | b"])
async def test_a_decomposition_that_cannot_be_read_is_answered_from_text(triples: str) -> None:
    engine = ScriptedEngine(scripted(decompose=triples, answer="comedy"))
    trace = await films(engine, judge=False).answer(QuestionRecord("q", "What is Dusk?", "comedy"))
    assert trace.answer == "comedy"
    assert any("no open triple" in note for note in trace.notes)
    assert "Found: comedy" in prompt_text(engine.requests[-1])


async def test_a_reader_of_graphs_gets_the_passages_facts_where_no_triple_can_be_read() -> None:
    engine = ScriptedEngine(scripted(decompose="no idea", answer="comedy"))
    loop = make_loop(
        engine, Bm25Retriever(CORPUS), settings=TrigNavSettings(judge=False),
        reader=GraphReader(engine, text_input),
    )  # fmt: skip
    trace = await loop.answer(QuestionRecord("q", "What is the genre of Dusk?", "comedy"))
    assert trace.answer == "comedy"
    assert "(S> Dusk| P> genre| O> comedy)" in prompt_text(engine.requests[-1])
    assert "Found:" not in "".join(map(prompt_text, engine.requests))


@pytest.mark.parametrize(
    "resolution",
    ["nothing", "", "Dusk | genre | unknown", "Dusk | genre | ?", "Moon | genre | rock"],
)
async def test_what_nothing_tells_is_declined_without_a_guess(resolution: str) -> None:
    engine = ScriptedEngine(scripted(decompose="Dusk | genre | ?a\n?a | inventor | ?",
                                     resolve=resolution, answer="a guess"))  # fmt: skip
    trace = await films(engine, judge=False).answer(QuestionRecord("q", "Who invented it?", "x"))
    assert trace.answer == INSUFFICIENT
    assert "no sub-question was solved" in trace.notes
    assert "not solved: ?a | inventor | ?" in trace.notes
    assert trace.bill.llm_calls == 2 + len({p.id for s in trace.steps for p in s.passages})


@pytest.mark.parametrize(
    "triples", ["?a | knows | ?b\n?b | knows | ?a", "? | ? | ?", "?a | ?b | ?c"]
)
async def test_a_circle_of_unknowns_ends(triples: str) -> None:
    engine = ScriptedEngine(scripted(decompose=triples, answer="a guess"))
    trace = await films(engine, judge=False).answer(QuestionRecord("q", "Who knows Dusk?", "x"))
    assert trace.answer == INSUFFICIENT and len(trace.steps) == 1


async def test_what_a_model_claims_is_searched_for_and_shown_to_the_judge() -> None:
    engine = ScriptedEngine(scripted(recall="Ana Lis | place of birth | Oslo\n? | x | y",
                                     judge="enough", answer="Brill"))  # fmt: skip
    trace = await films(engine).answer(QuestionRecord("q", "Where was that person from?", "Brill"))
    assert ANA in trace.steps[0].passages
    judged = prompt_text(engine.requests[1])
    assert "Claimed: Ana Lis | place of birth | Oslo\nQuestion:" in judged
    assert "? | x | y" not in judged
    assert (trace.answer, trace.bill.llm_calls, trace.steps[0].decision) == ("Brill", 3, "enough")


async def test_more_sub_questions_than_the_limit_are_noted() -> None:
    many = "\n".join(f"Who is person {n}?" for n in range(9))
    engine = ScriptedEngine(scripted(judge=many, answer=INSUFFICIENT))
    trace = await films(engine, max_subquestions=2).answer(QuestionRecord("q", "Who?", "x"))
    assert "7 sub-questions left out" in trace.notes
    assert trace.answer == INSUFFICIENT


def titles(passages: Sequence[Passage]) -> list[str]:
    return [passage.title for passage in passages]


async def test_what_the_first_passages_tell_reaches_the_answer() -> None:
    """The judge found the director there, so only the birthplace is asked for."""
    engine = ScriptedEngine(scripted(
        judge="Where was Ana Lis born?", decompose="Ana Lis | place of birth | ?",
        resolve="Ana Lis | place of birth | Brill", answer="Brill",
    ))  # fmt: skip
    trace = await films(engine).answer(QuestionRecord("q", "Where was Dusk's director born?", ""))
    assert "Dusk" in titles(trace.steps[0].passages)
    final = prompt_text(engine.requests[-1])
    known = final.split("Known:\n")[1].split("Sub-question:")[0]
    assert "Dusk | director | Ana Lis\n" in known
    assert Triple("Dusk", "director", "Ana Lis") in trace.graph


@pytest.mark.parametrize(("own_graphs", "grown"), [(False, 1), (True, 2)])
async def test_sub_questions_share_a_graph_or_have_one_each(
    own_graphs: bool, grown: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[QuestionGraph] = []

    class Noted(QuestionGraph):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr("inference.loops.trig_nav.QuestionGraph", Noted)
    engine = ScriptedEngine(
        scripted(judge="Who directed Dawn?\nWho directed Dusk?", decompose="Dusk | director | ?")
    )
    loop = films(engine, own_graphs=own_graphs)
    await loop.answer(QuestionRecord("q", "Who directed Dawn and Dusk?", ""))
    assert sum(len(graph) > 0 for graph in made) == grown


async def test_without_multi_link_what_a_triple_finds_stays_with_it(
    world: GoldWorld, retriever: Bm25Retriever
) -> None:
    records = [r for r in world.questions if r.type == "bridge"]
    settings = TrigNavSettings(judge=False, multi_link=False)
    loop = make_loop(ScriptedEngine(model_of(world)), retriever, settings=settings)
    traces = await run_questions(loop, records, 60)
    assert records and not any(map(is_right, records, traces))
    for trace in traces:
        asked, *solving = trace.steps
        assert asked.decision.startswith("associative")
        # The first link alone has one unknown.
        assert len(solving) == 1


async def test_without_decomposition_the_question_is_read_from_its_passages() -> None:
    engine = ScriptedEngine(scripted(judge="What?", decompose="a | b | ?", answer="Brill"))
    trace = await films(engine, decompose=False).answer(QuestionRecord("q", "Where?", "Brill"))
    assert (trace.answer, [step.subquery for step in trace.steps]) == ("Brill", ["Where?"])
    asked = [prompt_text(request) for request in engine.requests]
    # Nothing is judged or mapped to triples: one call reads the passages, one the answer.
    answers = [prompt for prompt in asked if not prompt.rstrip().endswith("Triples:")]
    assert len(answers) == trace.bill.llm_calls - len(asked) + 2 == 2
    assert answers[-1].endswith("Sub-question: Where?\nFound: Brill\nQuestion: Where?\nAnswer:")


@pytest.mark.parametrize("shows_known", [True, False])
async def test_an_answer_may_be_read_from_sub_answers_alone(shows_known: bool) -> None:
    engine = ScriptedEngine(scripted(
        judge="Where was Ana Lis born?", decompose="Ana Lis | place of birth | ?",
        resolve="Ana Lis | place of birth | Brill", answer="Brill",
    ))  # fmt: skip
    loop = films(engine, shows_known=shows_known)
    await loop.answer(QuestionRecord("q", "Where was Dusk's director born?", ""))
    assert ("Known:\n" in prompt_text(engine.requests[-1])) is shows_known
