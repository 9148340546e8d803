"""The stages of HotpotQA-SUBQ on hand-made questions: every outcome, and sums that add up."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_gen.facts.held_out import HeldOutQuestions, Leak
from data_gen.facts.passage_triples import PassageTriples
from data_gen.facts.solving_steps import solving_steps
from data_gen.hotpot_subq.direct_command import RIGHT, WRONG, DirectAnswering
from data_gen.hotpot_subq.documents import (
    BROKEN,
    SAME_ID,
    DocumentRules,
    QuestionFiles,
    clean_text,
    cut_to_tokens,
    kept_documents,
)
from data_gen.hotpot_subq.filtering import ANSWER_DROPPED, UNREADABLE, DocumentFilter, read_numbers
from data_gen.hotpot_subq.label_command import (
    AlgorithmOptions,
    Labelling,
    algorithm_samples,
    document_steps,
)
from data_gen.hotpot_subq.run import PromptLimit
from data_gen.hotpot_subq.stage import Decision, decide_all
from data_gen.hotpot_subq.subqueries import (
    CUT,
    ELSEWHERE,
    EMPTY,
    GIVES_ANSWER,
    OF_THE_DOCUMENT,
    OTHER_LANGUAGE,
    PROBLEMS,
    PROSE,
    REFERENCE,
    REPEATED,
    TOO_LONG,
    SubqueryWriting,
    checked_subquery,
)
from data_gen.sources.arguments import NamedPath
from data_gen.teacher.caller import CallFailedError
from data_gen.teacher.prompts import Answer, TeacherCall
from inference.engines.contract import TransientError
from models.formats.helpers import SubqueryInput, subquery_writer_prompt
from models.formats.planning import parse_plan
from models.formats.records import DecompositionStep, QuestionRecord, write_records
from models.formats.triples import Triple

FILM = ("Zone", ["Zone is a 2017 film directed by Denys Roe.", "It runs for two hours."])
PERSON = ("Denys Roe", ["Denys Roe was born in Montreal."])
LAKE = ("Lake", ["Lake is a lake in Poland."])
QUESTION = QuestionRecord(
    "q1",
    "Where was the director of Zone born?",
    "Montreal",
    context=[LAKE, PERSON, FILM],
    supporting_facts=[("Denys Roe", 0), ("Zone", 0)],
)
DIRECTOR, BIRTHPLACE = "Who directed Zone?", "Where was Denys Roe born?"


def words(text: str) -> int:
    return len(text.split())


LIMIT = PromptLimit(100_000, words)
RULES = DocumentRules("paragraphs", 1000, words)
FILTER = DocumentFilter(RULES, LIMIT)


class ScriptedAsker:
    """Answers the calls with texts in order; an exception in their place is raised."""

    def __init__(self, *texts: str | Exception, finish_reason: str = "stop") -> None:
        self.texts = list(texts)
        self.finish_reason = finish_reason
        self.calls: list[TeacherCall] = []

    async def ask(self, call: TeacherCall) -> Answer:
        """The next text."""
        self.calls.append(call)
        text = self.texts.pop(0)
        if isinstance(text, Exception):
            raise text
        return Answer(text, self.finish_reason, 1, 1)


def filtered(asker: ScriptedAsker, stage: DocumentFilter = FILTER, **fields: object) -> Decision:
    return asyncio.run(stage.decide(replace(QUESTION, **fields), asker))


def titles(record: QuestionRecord) -> list[str]:
    return [record.context[index][0] for index in kept_documents(record)]


def test_helpful_documents_are_kept_those_that_the_question_names_first() -> None:
    asker = ScriptedAsker("1, 2")
    decision = filtered(asker)
    assert (decision.kept, decision.outcome) == (True, "all documents helpful")
    assert titles(decision.record) == ["Zone", "Denys Roe"]
    assert "1. Zone: Zone is a 2017 film" in asker.calls[0].request.prompt
    assert LAKE in decision.record.context


def test_a_dropped_document_stays_as_a_distractor_alone() -> None:
    decision = filtered(ScriptedAsker("2"))
    assert decision.outcome == "some documents dropped"
    assert titles(decision.record) == ["Denys Roe"]
    assert decision.record.supporting_facts == [("Denys Roe", 0)]
    assert [title for title, _ in decision.record.context] == ["Denys Roe", "Zone", "Lake"]


@pytest.mark.parametrize(
    ("texts", "outcome", "kept"),
    [
        (["none"], "no helpful document", False),
        (["1"], ANSWER_DROPPED, None),
        (["1", "1,2"], "all documents helpful", True),
        (["I think both help.", "Documents 1 and 2 help."], UNREADABLE, False),
        (["", "1,3"], UNREADABLE, False),
        (["1,1", "1"], ANSWER_DROPPED, False),
    ],
)
def test_answers_of_the_filter(texts: list[str], outcome: str, kept: bool | None) -> None:
    asker = ScriptedAsker(*texts, *texts[-1:])
    decision = filtered(asker)
    assert decision.outcome == outcome
    assert decision.kept is bool(kept)
    seeds = [call.request.sampling.seed for call in asker.calls]
    assert seeds in ([None], [None, 1])
    assert len(decision.notes) == len(seeds) - decision.kept - (outcome == "no helpful document")


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"supporting_facts": []}, "no supporting documents"),
        ({"context": [LAKE, FILM]}, "a supporting document without text"),
        ({"context": [FILM, ("Denys Roe", [" "])]}, "a supporting document without text"),
        ({"answer": "Warsaw"}, "the answer is in no supporting document"),
    ],
)
def test_what_is_left_out_before_any_call(fields: dict[str, object], outcome: str) -> None:
    decision = filtered(ScriptedAsker(), **fields)
    assert (decision.kept, decision.outcome) == (False, outcome)


def test_what_is_kept_without_a_call() -> None:
    alone = filtered(ScriptedAsker(), supporting_facts=[("Denys Roe", 0)])
    assert (alone.kept, alone.outcome) == (True, "one document, not asked")
    everything = filtered(ScriptedAsker(), DocumentFilter(RULES, LIMIT, keep_all=True))
    assert (everything.kept, everything.outcome) == (True, "all kept, not asked")
    chosen = filtered(ScriptedAsker("1,2"), answer="yes")  # no document need hold it
    assert chosen.kept


def test_a_repeated_title_means_the_paragraph_with_the_named_sentence() -> None:
    other = ("Zone", ["Zone is a town."])
    facts = [("Denys Roe", 0), ("Zone", 1)]
    decision = filtered(ScriptedAsker("1,2"), context=[other, FILM, PERSON], supporting_facts=facts)
    assert decision.notes == ("titles that stand for several paragraphs",)
    assert titles(decision.record) == ["Zone", "Denys Roe"]
    assert other not in decision.record.context


def test_markup_goes_from_texts_titles_and_facts() -> None:
    context = [("Zone &amp; Co", ["<b>Zone &amp; Co</b> is [[film|a film]]."]), PERSON]
    facts = [("Zone &amp; Co", 0), ("Denys Roe", 0)]
    decision = filtered(ScriptedAsker("1,2"), context=context, supporting_facts=facts)
    assert decision.notes == ("markup removed",)
    assert ("Zone & Co", ["Zone & Co is a film."]) in decision.record.context
    assert clean_text("a < b > c, x<y") == "a < b > c, x<y"


def test_sentences_as_documents() -> None:
    stage = DocumentFilter(replace(RULES, unit="sentences"), LIMIT)
    facts = [("Zone", 0), ("Zone", 1), ("Denys Roe", 0)]
    decision = filtered(ScriptedAsker("1,3"), stage, supporting_facts=facts)
    kept = [decision.record.context[index] for index in kept_documents(decision.record)]
    assert kept == [("Zone", FILM[1][:1]), PERSON]


def test_a_document_of_100_000_words_is_cut_and_a_prompt_above_the_limit_not_sent() -> None:
    long = ("Zone", ["Zone is a film. " + "word " * 100_000])
    asker = ScriptedAsker("1,2")
    decision = filtered(asker, context=[long, PERSON])
    assert decision.kept
    assert decision.notes == ("documents cut to the token limit",)
    assert words(asker.calls[0].request.prompt) < 1500
    refused = filtered(
        ScriptedAsker(), DocumentFilter(RULES, PromptLimit(1000, words)), context=[long, PERSON]
    )
    assert refused.outcome == "prompt above the token limit"
    behind = filtered(ScriptedAsker(), context=[FILM, ("Denys Roe", ["word " * 2000 + "Montreal"])])
    assert behind.outcome == "the answer is in no supporting document"


@given(st.lists(st.sampled_from(["a", "bb", "ccc"]), max_size=30), st.integers(1, 40))
def test_a_cut_is_the_longest_that_fits(parts: list[str], limit: int) -> None:
    text = " ".join(parts)
    kept = cut_to_tokens(text, limit, len)
    assert len(kept) <= limit
    assert text.startswith(kept)
    if kept != text:
        assert len(" ".join(parts[: len(kept.split()) + 1])) > limit


def test_numbers_are_read_and_prose_is_not() -> None:
    for text in ("1,3", " 1, 3.", "Output: 1,3", "[1, 3]", "1 and 3", "**1,3**", "3,1,3"):
        assert sorted(read_numbers(text, 3) or []) == [1, 3]
    assert read_numbers("None.", 3) == []
    for text in ("", "0", "4", "1,4", "Doc 1 is helpful", "1,", "9" * 5000, "one"):
        assert read_numbers(text, 3) is None


def checked(text: str, reason: str = "stop", earlier: tuple[str, ...] = ()) -> tuple[str, str]:
    return checked_subquery(text, reason, QUESTION.question, ["Montreal"], earlier)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (" \n", EMPTY),
        ("Sub-query:", EMPTY),
        ("The document says that Roe was born there.", PROSE),
        ("Who directed Zone?\nThis asks for the director.", PROSE),
        ("This helps us further. Who directed Zone?", PROSE),
        ("Who " + "really " * 60 + "directed Zone?", TOO_LONG),
        ("Wer hat den Film Zone gedreht?", OTHER_LANGUAGE),
        ("Was ist der Titel des Films?", OTHER_LANGUAGE),
        ("Is het een Nederlandse film?", OTHER_LANGUAGE),
        ("Qui a réalisé le film Zone ?", OTHER_LANGUAGE),
        ("¿Quién dirigió la película?", OTHER_LANGUAGE),
        ("谁导演了电影 Zone?", OTHER_LANGUAGE),
        ("Кто снял фильм?", OTHER_LANGUAGE),
        ("Who is named in the document?", OF_THE_DOCUMENT),
        ("According to the passage, who directed Zone?", OF_THE_DOCUMENT),
        ("Which Montreal director made Zone?", GIVES_ANSWER),
        ("What is Montreal's largest park?", GIVES_ANSWER),
        ("who directed Zone ?", REPEATED),
        ("Where was #1 born?", REFERENCE),
        ("Zone >> which director?", REFERENCE),
        ("[SUBQ] Where was Roe born?", REFERENCE),
    ],
)
def test_what_is_no_good_sub_query(text: str, problem: str) -> None:
    assert checked(text, earlier=(DIRECTOR,))[1] == problem
    assert problem in PROBLEMS


def test_good_sub_queries() -> None:
    for text in (
        BIRTHPLACE,
        "Is Denys Roe the director of Zone?",
        "In which city was the director of Mission: Impossible – Fallout born?",
        "Did J. R. R. Tolkien and St. Louis of France ever meet?",
        "What year saw the passage of the bill?",
        'Who wrote "千と千尋の神隠し" under the pen name of Roe?',
    ):
        assert checked(text) == (text, "")
    assert checked("which river is it on ?") == ("Which river is it on?", "")
    assert checked(BIRTHPLACE, reason="length")[1] == CUT
    question, answers = "Are Paris and Rome both older than Bonn?", ["Paris"]
    assert checked_subquery("Is Paris older?", "stop", question, answers, ())[1] == ""


@given(st.text(max_size=80))
def test_checks_never_raise(text: str) -> None:
    subquery, problem = checked(text)
    if not problem:
        assert parse_plan(f"[SUBQ] {subquery}").plan.subquery == subquery


FILTERED = filtered(ScriptedAsker("1,2")).record
WRITING = SubqueryWriting(LIMIT)


def written(asker: ScriptedAsker, stage: SubqueryWriting = WRITING) -> Decision:
    return asyncio.run(stage.decide(FILTERED, asker))


def test_each_document_gets_a_sub_query_given_those_before() -> None:
    asker = ScriptedAsker("Sub-query: who directed Zone ?", BIRTHPLACE)
    decision = written(asker)
    assert (decision.kept, decision.outcome) == (True, "2 sub-queries")
    assert decision.record.question_decomposition == [
        DecompositionStep(DIRECTOR, "", 0),
        DecompositionStep(BIRTHPLACE, "", 1),
    ]
    first, second = (call.request.prompt for call in asker.calls)
    assert "Current Document (Zone):" in first
    assert "Previously generated sub-queries" not in first.rpartition("Main Question")[2]
    assert f"- {DIRECTOR}\n" in second.rpartition("Main Question")[2]
    assert not decision.notes
    assert written(ScriptedAsker(DIRECTOR, "Where was Ann Poe born?")).notes == (ELSEWHERE,)


def test_a_refused_text_is_asked_for_once_more_then_the_question_is_left_out() -> None:
    asker = ScriptedAsker("", DIRECTOR, BIRTHPLACE)
    assert written(asker).notes == ("refused: empty",)
    assert asker.calls[1].request.sampling.temperature > 0
    asker = ScriptedAsker(DIRECTOR, "Prose.", "")
    decision = written(asker)
    assert (decision.kept, decision.outcome) == (False, f"sub-query: {EMPTY}")
    assert decision.notes == (f"refused: {PROSE}", f"refused: {EMPTY}")


def test_the_steps_are_those_that_build_subq_takes() -> None:
    record = written(ScriptedAsker(DIRECTOR, BIRTHPLACE)).record
    steps = solving_steps(record, {})
    assert [(step.subquery, step.passage.title) for step in steps] == [
        (DIRECTOR, "Zone"),
        (BIRTHPLACE, "Denys Roe"),
    ]


def test_a_trained_writer_gets_the_prompt_of_its_training() -> None:
    asker = ScriptedAsker(DIRECTOR, BIRTHPLACE)
    written(asker, replace(WRITING, adapter="writer"))
    given_ = SubqueryInput(QUESTION.question, "Denys Roe", PERSON[1][0], (DIRECTOR,))
    assert asker.calls[1].request.prompt == subquery_writer_prompt(given_)
    assert asker.calls[1].request.adapter == "writer"


def test_an_estimate_walks_to_the_end() -> None:
    class StandIns(ScriptedAsker):
        async def ask(self, call: TeacherCall) -> Answer:
            self.calls.append(call)
            return Answer(call.stand_in, "stop", 1, 1)

    asker = StandIns()
    assert written(asker).kept
    assert len(asker.calls) == 2
    assert len(asker.calls[0].stand_in) >= 4 * WRITING.max_new_tokens * 0.9


def test_direct_answers_are_compared_after_normalisation() -> None:
    stage = DirectAnswering(LIMIT)
    for text, outcome in ((" the montreal.", RIGHT), ("in Montreal", WRONG), ("", WRONG)):
        decision = asyncio.run(stage.decide(QUESTION, ScriptedAsker(text)))
        assert (decision.outcome, decision.kept) == (outcome, outcome == RIGHT)


SUBQUERIES = written(ScriptedAsker(DIRECTOR, BIRTHPLACE)).record
TRIPLES = {"Zone": Triple("Zone", "director", "Denys Roe"), "Denys Roe": Triple("Roe", "b", "M")}


def samples(right: bool, **options: object) -> list[tuple[str, int, str]]:
    chosen = AlgorithmOptions(**options)
    steps = document_steps(SUBQUERIES, lambda p: [TRIPLES[p.title]] * 2, chosen)
    made = algorithm_samples(SUBQUERIES, steps, right, chosen)
    assert all(len(step.triples) == 1 for sample in made for step in sample.history)
    return [(sample.task, len(sample.history), sample.label) for sample in made]


def test_algorithm_one_line_by_line() -> None:
    printed = [
        ("plan", 1, f"[SUBQ] {BIRTHPLACE}"),
        ("plan", 2, "[SUFFICIENT]"),
        ("answer", 2, "Montreal"),
    ]
    assert samples(False, first_plan="none") == printed
    assert samples(False) == [("plan", 0, f"[SUBQ] {QUESTION.question}"), *printed]
    first = ("plan", 0, f"[SUBQ] {DIRECTOR}")
    assert samples(False, first_plan="subquery") == [first, *printed]
    assert samples(True) == [("plan", 0, "[NO_RETRIEVAL]"), ("answer", 0, "Montreal")]


def question_file(path: Path, records: list[QuestionRecord]) -> NamedPath:
    write_records(path, records)
    return NamedPath("contract", str(path))


def test_labelling_counts_every_question(tmp_path: Path) -> None:
    other = replace(SUBQUERIES, id="q2", question="Other?")
    bare = replace(SUBQUERIES, id="q3", question_decomposition=[])
    records = [SUBQUERIES, SUBQUERIES, other, bare]
    files = QuestionFiles([question_file(tmp_path / "q.jsonl", records)])
    labelling = Labelling(PassageTriples(), {"q2"}, AlgorithmOptions())
    made = list(labelling.questions(files))
    assert labelling.counts["questions"] == {
        "2 sub-queries": 1, SAME_ID: 1, "no retrieval": 1, "no sub-queries": 1,
    }  # fmt: skip
    assert {sample.question_id for sample in made} == {"q1", "q2"}
    left = labelling.left_out(QuestionFiles([question_file(tmp_path / "l.jsonl", [other, bare])]))
    assert [(sample.id, sample.history) for sample in left] == [("q2/answer", [])]


def test_files_count_repeated_broken_and_test_questions(tmp_path: Path) -> None:
    other = replace(QUESTION, id="q2", question="Whose?", question_decomposition=[])
    file = question_file(tmp_path / "q.jsonl", [QUESTION, QUESTION, other])
    with open(file.path, "a", encoding="utf-8") as handle:
        handle.write("{broken\n")
    files = QuestionFiles([file], skip_bad=True, held_out=HeldOutQuestions([other]))
    for _ in range(2):
        assert [record.id for record in files] == ["q1"]
        assert files.left_out == {SAME_ID: 1, Leak.ID: 1, BROKEN: 1}
        assert files.read == 4


@given(st.lists(st.sampled_from(["kept", "left", "failed"]), max_size=40), st.integers(1, 5))
def test_counts_add_up_to_the_input(outcomes: list[str], concurrency: int) -> None:
    async def decide(record: QuestionRecord, asker: object) -> Decision:
        outcome = outcomes[int(record.id)]
        if outcome == "failed":
            call = TeacherCall(None, "v", "s", record.id, "")
            raise CallFailedError(call, TransientError("busy"))
        return Decision(record, outcome, kept=outcome == "kept")

    seen: list[str] = []
    take: Callable[[Decision], None] = lambda decision: seen.append(decision.record.id)  # noqa: E731
    records = [replace(QUESTION, id=str(n)) for n in range(len(outcomes))]
    counts = asyncio.run(decide_all(records, decide, ScriptedAsker(), concurrency, take))
    counts.check(len(outcomes))
    assert seen == [record.id for record in records]
    assert counts.failed.total() == outcomes.count("failed")
    with pytest.raises(ValueError, match="have an outcome"):
        counts.check(len(outcomes) + 1)


def test_questions_of_several_calls_end_in_turn() -> None:
    """Not all first calls of all questions before the first question's second."""
    begun: list[str] = []
    ended_after: dict[str, int] = {}

    async def decide(record: QuestionRecord, asker: object) -> Decision:
        begun.append(record.id)
        for _ in range(3):
            await asyncio.sleep(0)
        return Decision(record, "kept", kept=True)

    def take(decision: Decision) -> None:
        ended_after[decision.record.id] = len(begun)

    records = [replace(QUESTION, id=str(n)) for n in range(30)]
    asyncio.run(decide_all(records, decide, ScriptedAsker(), 2, take))
    assert ended_after["0"] <= 8 and len(begun) == 30
