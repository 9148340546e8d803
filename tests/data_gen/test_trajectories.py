"""RAS Algorithm 1: the states of hand-made questions step by step, and what holds for all."""

from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_gen.builds.questions import prepare_questions
from data_gen.facts.passage_triples import PassageTriples
from data_gen.facts.solving_steps import (
    aligned_titles,
    decomposition_steps,
    evidence_steps,
    passage_origin,
    solving_order,
    solving_steps,
)
from data_gen.samples.evidence import Form, drawn_form, in_form
from data_gen.samples.labels import ContradictoryLabelsError
from data_gen.samples.material import PassageSearch
from data_gen.samples.sampling import PlanSampling
from data_gen.samples.trajectories import (
    OracleOptions,
    has_one_end,
    supported_label,
    trajectory_samples,
    with_gold,
)
from data_gen.sources.splits import split_of
from models.formats.passages import context_passages
from models.formats.planning import HistoryStep
from models.formats.records import DecompositionStep, PassageRecord, QuestionRecord, RasSample
from models.formats.triples import Triple
from tests.data_gen.whole_lists import checked_samples, choose_plan_samples, plan_kinds

ZONE = PassageRecord("1", "The Zone (2017 film)", "The Zone is a 2017 film directed by Denys Roe.")
ROE = PassageRecord("2", "Denys Roe", "Denys Roe (born 3 May 1967 in Montreal) is a filmmaker.")
OTHER = PassageRecord("3", "Lake", "Lake is a lake in Poland.")
DIRECTOR = Triple("The Zone (2017 film)", "director", "Denys Roe")
BIRTHPLACE = Triple("Denys Roe", "place of birth", "Montreal")
FACTS = {"1": [DIRECTOR], "2": [BIRTHPLACE], "3": [Triple("Lake", "country", "Poland")]}
ASKED_DIRECTOR = "Who directed The Zone (2017 Film)?"
ASKED_BIRTHPLACE = "Where was Denys Roe born?"
SURE = OracleOptions(gold_rate=1.0)
NEVER = OracleOptions(gold_rate=0.0)
PLANNED = OracleOptions(gold_rate=1.0, planned_first=1.0)


def zone_question() -> QuestionRecord:
    return QuestionRecord(
        "q1",
        "Where was the director of The Zone (2017 Film) born?",
        "Montreal",
        context=[(p.title, [p.text]) for p in (ZONE, ROE, OTHER)],
        supporting_facts=[(ZONE.title, 0), (ROE.title, 0)],
        evidences=[Triple("The Zone", "director", "Denys Roe"), BIRTHPLACE],
    )


def walk(
    retrieved: dict[str, list[PassageRecord]], options: OracleOptions = SURE
) -> list[RasSample]:
    record = zone_question()
    found = {record.question: [], ASKED_DIRECTOR: [], ASKED_BIRTHPLACE: [], **retrieved}
    passages = {p.text: p.id for p in (ZONE, ROE, OTHER)}
    steps = solving_steps(record, {})
    return trajectory_samples(record, steps, found, lambda p, _: FACTS[passages[p.text]], options)


def labels(samples: list[RasSample]) -> list[str]:
    return [sample.label for sample in samples]


def test_first_query_is_the_question_then_each_missing_fact_then_sufficient() -> None:
    question = zone_question().question
    samples = walk({question: [OTHER]})
    assert labels(samples) == [
        f"[SUBQ] {question}",
        f"[SUBQ] {ASKED_DIRECTOR}",
        f"[SUBQ] {ASKED_BIRTHPLACE}",
        "[SUFFICIENT]",
        "Montreal",
    ]
    assert [sample.id for sample in samples] == [
        "q1/plan/0",
        "q1/plan/1",
        "q1/plan/2",
        "q1/plan/3",
        "q1/answer",
    ]
    assert samples[-1].history == [
        HistoryStep(question, (FACTS["3"][0],)),
        HistoryStep(ASKED_DIRECTOR, (DIRECTOR,)),
        HistoryStep(ASKED_BIRTHPLACE, (BIRTHPLACE,)),
    ]
    assert [sample.history for sample in samples[:4]] == [samples[-1].history[:k] for k in range(4)]


def test_a_fact_that_came_with_the_question_is_not_asked_for() -> None:
    question = zone_question().question
    assert labels(walk({question: [ZONE]}))[1:3] == [f"[SUBQ] {ASKED_BIRTHPLACE}", "[SUFFICIENT]"]
    assert labels(walk({question: [ZONE, ROE]}))[1:] == ["[SUFFICIENT]", "Montreal"]
    assert labels(walk({question: [ROE]}))[1:3] == [f"[SUBQ] {ASKED_DIRECTOR}", "[SUFFICIENT]"]


def test_a_missed_bridge_is_not_named_by_a_later_question() -> None:
    samples = walk({}, NEVER)
    assert labels(samples)[1:] == [f"[SUBQ] {ASKED_DIRECTOR}", "[SUFFICIENT]", "Montreal"]


def test_a_planned_question_begins_with_its_first_step() -> None:
    assert labels(walk({}, PLANNED)) == [
        f"[SUBQ] {ASKED_DIRECTOR}",
        f"[SUBQ] {ASKED_BIRTHPLACE}",
        "[SUFFICIENT]",
        "Montreal",
    ]


def test_a_planned_question_is_asked_itself_once_where_a_step_found_nothing() -> None:
    question = zone_question().question
    missed = replace(PLANNED, gold_rate=0.0)
    assert labels(walk({}, missed))[:3] == [
        f"[SUBQ] {ASKED_DIRECTOR}",
        f"[SUBQ] {question}",
        "[SUFFICIENT]",
    ]
    found = labels(walk({question: [ZONE], ASKED_BIRTHPLACE: [ROE]}, missed))
    assert found[:4] == [
        f"[SUBQ] {ASKED_DIRECTOR}",
        f"[SUBQ] {question}",
        f"[SUBQ] {ASKED_BIRTHPLACE}",
        "[SUFFICIENT]",
    ]


def test_of_a_share_that_begins_with_the_question_no_first_plan_is_learned() -> None:
    question = zone_question().question
    hardly = replace(PLANNED, planned_first=1e-9)
    samples = walk({question: [OTHER]}, hardly)
    assert labels(samples)[:2] == [f"[SUBQ] {ASKED_DIRECTOR}", f"[SUBQ] {ASKED_BIRTHPLACE}"]
    assert samples[0].id == "q1/plan/1"
    assert samples[0].history[0].subquery == question


def test_a_comparison_begins_with_the_question_itself() -> None:
    question = "Who was born first, Denys Roe or Ana Lis?"
    born = [
        Triple("Denys Roe", "date of birth", "1967"),
        Triple("Ana Lis", "date of birth", "1970"),
    ]
    record = replace(zone_question(), question=question, evidences=born)
    steps = solving_steps(record, {})
    assert not has_one_end(steps)
    retrieved: dict[str, list[PassageRecord]] = {question: []}
    retrieved |= {step.subquery: [] for step in steps}
    samples = trajectory_samples(record, steps, retrieved, lambda p, _: [], PLANNED)
    assert samples[0].label == f"[SUBQ] {question}"


def test_a_question_without_facts_needs_no_retrieval() -> None:
    record = QuestionRecord("q2", "Is two more than one?", "yes")
    samples = trajectory_samples(record, [], {}, lambda passage, _: [], SURE)
    assert labels(samples) == ["[NO_RETRIEVAL]", "yes"]
    assert [sample.task for sample in samples] == ["plan", "answer"]
    assert all(sample.history == [] for sample in samples)


def test_gold_passage_goes_first_where_retrieval_missed_it() -> None:
    step = solving_steps(zone_question(), {})[0]
    assert with_gold([OTHER, ROE, OTHER], step, "k", SURE)[0].title == ZONE.title
    assert with_gold([OTHER, ZONE], step, "k", SURE) == [OTHER, ZONE]
    assert with_gold([OTHER], step, "k", NEVER) == [OTHER]
    rate = sum(with_gold([OTHER], step, str(i), OracleOptions())[0] != OTHER for i in range(2000))
    assert 0.87 < rate / 2000 < 0.93


def test_a_step_in_the_question_s_words_is_asked_once() -> None:
    record = replace(zone_question(), question="who directed The Zone (2017 Film)")
    steps = solving_steps(record, {})[:1]
    assert steps[0].subquery == ASKED_DIRECTOR
    retrieved = {record.question: [OTHER], ASKED_DIRECTOR: []}
    facts = {ZONE.text: [DIRECTOR], OTHER.text: FACTS["3"]}
    samples = trajectory_samples(record, steps, retrieved, lambda p, _: facts[p.text], SURE)
    assert labels(samples)[:2] == [f"[SUBQ] {record.question}", "[SUFFICIENT]"]
    assert DIRECTOR in samples[-1].history[0].triples


def test_musique_steps_fill_references_and_know_by_the_supporting_passage() -> None:
    record = QuestionRecord(
        "m1",
        "When was the school of the mayor founded?",
        "1963",
        context=[
            ("Mayor Roe", ["Roe went to Yale School."]),
            ("Yale School", ["Founded in 1963."]),
        ],
        question_decomposition=[
            DecompositionStep("mayor roe >> educated at", "Yale School", 0),
            DecompositionStep("when was #1 founded", "1963", 1),
        ],
    )
    first, second = decomposition_steps(record, {})
    assert (first.subquery, second.subquery) == (
        "Where was mayor roe educated?",
        "When was Yale School founded?",
    )
    assert second.needs == (0,)
    assert first.fact == Triple("mayor roe", "educated at", "Yale School")
    prepared = next(prepare_questions([record], None, triples := PassageTriples(), 1))
    samples = trajectory_samples(
        record, prepared.steps, prepared.retrieved, triples.of, OracleOptions(1, gold_rate=1.0)
    )
    assert samples[-2].label == "[SUFFICIENT]"
    assert samples[-1].label == "1963"


def test_a_who_question_s_triple_has_the_answer_once() -> None:
    record = QuestionRecord(
        "m2",
        "Where was the one who led the siege born?",
        "Riga",
        context=[("Siege", ["Ann Roe led the siege of Brill."]), ("Ann Roe", ["Born in Riga."])],
        question_decomposition=[
            DecompositionStep("who led the siege", "Ann Roe", 0),
            DecompositionStep("#1 >> place of birth", "Riga", 1),
        ],
    )
    first, _ = decomposition_steps(record, {})
    assert (first.fact, first.answer) == (Triple("Ann Roe", "led", "the siege"), "Ann Roe")
    origin = passage_origin(context_passages(record)[0])
    assert first.known([(origin, first.fact)])
    assert not first.known([(origin, Triple("Siege", "place", "Brill"))])
    prepared = next(prepare_questions([record], None, triples := PassageTriples(), 2))
    samples = trajectory_samples(record, prepared.steps, prepared.retrieved, triples.of, SURE)
    shown = [triple for step in samples[-1].history for triple in step.triples]
    assert first.fact in shown
    assert not [triple for triple in shown if triple.subject == triple.object]


def test_world_decompositions_are_the_subqueries() -> None:
    record = QuestionRecord(
        "w1",
        "Where was the maker of X born?",
        "Y",
        evidences=[Triple("X", "maker", "M"), Triple("M", "birthplace", "Y")],
        question_decomposition=[
            DecompositionStep("Who made X?", "M"),
            DecompositionStep("Where was M born?", "Y"),
        ],
    )
    assert [s.subquery for s in evidence_steps(record, {})] == ["Who made X?", "Where was M born?"]


def test_evidence_without_text_stands_for_its_passage() -> None:
    record = QuestionRecord(
        "e1", "Who directed Xanadu?", "May", evidences=[Triple("Xanadu", "director", "May")]
    )
    triples = PassageTriples()
    prepared = next(prepare_questions([record], [OTHER], triples, 2))
    samples = trajectory_samples(record, prepared.steps, prepared.retrieved, triples.of, SURE)
    assert Triple("Xanadu", "director", "May") in samples[-1].history[0].triples


@pytest.mark.parametrize("corpus", [None, [OTHER]])
def test_a_subject_under_another_name_is_known_by_its_title(
    corpus: list[PassageRecord] | None,
) -> None:
    record = QuestionRecord(
        "e2",
        "Where was the husband of Ann Roe born?",
        "Riga",
        supporting_facts=[("Ann Roe", 1), ("Max Roe", 0)],
        evidences=[
            Triple('Anna "Ann" Mary Roe', "spouse", "Max Roe"),
            Triple("Max Roe", "place of birth", "Riga"),
        ],
    )
    triples = PassageTriples()
    prepared = next(prepare_questions([record], corpus, triples, 2))
    samples = trajectory_samples(record, prepared.steps, prepared.retrieved, triples.of, SURE)
    # Both facts came with the question, so that nothing is left to be asked.
    assert labels(samples)[1:] == ["[SUFFICIENT]", "Riga"]
    assert Triple("Ann Roe", "spouse", "Max Roe") in samples[-1].history[0].triples


def test_a_fact_that_the_passage_of_its_object_tells_keeps_its_subject() -> None:
    fact = Triple("Dawn", "director", "Ana Lis")
    record = QuestionRecord(
        "e3",
        "Who is the director of the film Dawn?",
        "Ana Lis",
        context=[("Ana Lis", ["Ana Lis is the director of the film Dawn."])],
        supporting_facts=[("Ana Lis", 0)],
        evidences=[fact],
    )
    [step] = evidence_steps(record, {})
    assert (step.fact, step.subquery) == (fact, "Who directed Dawn?")
    assert step.passage is not None and step.passage.title == "Ana Lis"


def test_subjects_under_another_name_take_the_supporting_titles_left() -> None:
    record = QuestionRecord(
        "t",
        "?",
        "Henry I",
        supporting_facts=[
            ("Margaret of Holland, Countess of Henneberg", 1),
            ("Matilda, Duchess", 0),
        ],
        evidences=[
            Triple("Margaret of Henneberg", "mother", "Matilda"),
            Triple("Matilda", "father", "Henry I"),
        ],
    )
    titles = [title for title, _ in record.supporting_facts]
    assert aligned_titles(record.evidences, titles, record) == {
        "Margaret of Henneberg": "Margaret of Holland, Countess of Henneberg",
        "Matilda": "Matilda, Duchess",
    }


@given(st.permutations(range(4)))
def test_solving_order_puts_a_bridge_before_what_needs_it(order: list[int]) -> None:
    chain = [Triple(f"e{i}", "p", f"e{i + 1}") for i in range(4)]
    shuffled = [chain[i] for i in order]
    assert [shuffled[i] for i in solving_order(shuffled)] == chain


def test_solving_order_survives_a_circle() -> None:
    assert sorted(solving_order([Triple("a", "p", "b"), Triple("b", "p", "a")])) == [0, 1]


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(0, 3)), st.lists(st.integers(0, 3), max_size=4), st.integers(0, 5))
def test_every_walk_ends_sufficient_and_follows_the_solving_order(
    missed: set[int], with_question: list[int], seed: int
) -> None:
    chain = [Triple(f"Entity {i}", "director", f"Entity {i + 1}") for i in range(4)]
    passages = [PassageRecord(str(i), t.subject, f"text {i}") for i, t in enumerate(chain)]
    record = QuestionRecord("c", "Which entity?", "Entity 4", evidences=chain)
    steps = evidence_steps(record, {passage.title: passage for passage in passages})
    retrieved = {record.question: [passages[i] for i in with_question]}
    retrieved |= {s.subquery: [] if i in missed else [passages[i]] for i, s in enumerate(steps)}
    options = OracleOptions(top_k=4, gold_rate=0.5, seed=seed)
    samples = trajectory_samples(
        record, steps, retrieved, lambda passage, _: [chain[int(passage.id)]], options
    )
    asked = [s.label.removeprefix("[SUBQ] ") for s in samples[1:-2]]
    order = [step.subquery for step in steps]
    assert [order.index(query) for query in asked] == sorted(order.index(query) for query in asked)
    assert samples[-2].label == "[SUFFICIENT]"
    assert samples[-1].task == "answer"
    assert len({split_of(sample.question_id, seed) for sample in samples}) == 1
    assert checked_samples(samples).samples == samples


def plan(sample_id: str, label: str, question: str = "Q?") -> RasSample:
    return RasSample(sample_id, "plan", question, [HistoryStep("Q?", (DIRECTOR,))], label)


def test_one_prompt_with_two_labels_is_refused_with_both_ids() -> None:
    samples = [plan("a/plan/1", "[SUFFICIENT]"), plan("b/plan/1", "[SUBQ] Who?")]
    with pytest.raises(ContradictoryLabelsError, match=r"a/plan/1.*b/plan/1"):
        checked_samples(samples)
    checked = checked_samples(samples, drop_contradictions=True)
    assert ([s.id for s in checked.samples], checked.contradictions) == (["a/plan/1"], 1)


def test_a_prompt_that_comes_again_with_its_label_is_dropped() -> None:
    checked = checked_samples([plan("a/plan/1", "[SUFFICIENT]"), plan("b/plan/1", "[SUFFICIENT]")])
    assert (len(checked.samples), checked.repeats) == (1, 1)


def test_sampling_keeps_answers_and_the_asked_share_of_states() -> None:
    samples = []
    for number in range(400):
        steps = [HistoryStep("Q?", (DIRECTOR,))] * 3
        for k in range(4):
            samples.append(
                RasSample(f"q{number}/plan/{k}", "plan", "Q?", steps[:k], "[SUFFICIENT]")
            )
        samples.append(RasSample(f"q{number}/answer", "answer", "Q?", steps, "A"))
    kept = choose_plan_samples(samples, PlanSampling(1.3, first_fraction=0.25, seed=1))
    states = [s for s in kept if s.task == "plan" and s.history]
    first = [s for s in kept if s.task == "plan" and not s.history]
    assert sum(s.task == "answer" for s in kept) == 400
    assert 480 < len(states) < 560
    assert 70 < len(first) < 130
    assert kept == choose_plan_samples(samples, PlanSampling(1.3, first_fraction=0.25, seed=1))


def test_sampling_leaves_the_labels_their_shares() -> None:
    step = HistoryStep("Q?", (DIRECTOR,))
    samples = []
    for number in range(600):
        rounds = 1 if number % 2 else 3
        for k in range(1, rounds + 1):
            label = "[SUFFICIENT]" if k == rounds else "[SUBQ] Who?"
            samples.append(RasSample(f"q{number}/plan/{k}", "plan", "Q?", [step] * k, label))
    kept = choose_plan_samples(samples, PlanSampling(1.0))
    asked = sum(s.label != "[SUFFICIENT]" for s in kept)
    assert 540 < len(kept) < 660
    assert 0.45 < asked / len(kept) < 0.55


def test_balanced_plans_cannot_be_told_by_counting_steps() -> None:
    step = HistoryStep("Q?", (DIRECTOR,))
    samples = []
    for number in range(600):
        rounds = 1 if number % 5 == 0 else 2
        for k in range(1, rounds + 1):
            label = "[SUFFICIENT]" if k == rounds else "[SUBQ] Who?"
            samples.append(RasSample(f"q{number}/plan/{k}", "plan", "Q?", [step] * k, label))
        samples.append(RasSample(f"q{number}/answer", "answer", "Q?", [step], "A"))
    assert plan_kinds(samples).label_by_steps_alone() == pytest.approx(960 / 1080)
    kept = choose_plan_samples(samples, PlanSampling(balanced=True, answer_fraction=0.5))
    counts = Counter((len(s.history), s.label) for s in kept if s.task == "plan")
    # No plan asks on after two steps here, so none with two steps can be kept.
    assert counts == {(1, "[SUFFICIENT]"): 120, (1, "[SUBQ] Who?"): 120}
    assert plan_kinds(kept).label_by_steps_alone() == 0.5
    assert 250 < sum(s.task == "answer" for s in kept) < 350


def test_mostly_no_retrieval_at_the_start_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    asks = RasSample("a/plan/0", "plan", "A?", [], "[SUBQ] A?")
    nothing = RasSample("b/plan/0", "plan", "B?", [], "[NO_RETRIEVAL]")
    later = RasSample("c/plan/1", "plan", "C?", [HistoryStep("C?", (DIRECTOR,))], "[SUFFICIENT]")
    counts = plan_kinds([asks, nothing, later]).first_plan_counts()
    assert list(counts.values()) == [1, 1] and not caplog.records
    assert (
        list(plan_kinds([nothing, later]).first_plan_counts().values()) == [0, 1]
        and not caplog.records
    )
    plan_kinds([asks, nothing, nothing]).first_plan_counts()
    assert "2 of 3" in caplog.text and "--first-plan-fraction" in caplog.text


def test_search_finds_by_title_and_drops_what_shares_no_word() -> None:
    search = PassageSearch([ZONE, ROE, OTHER])
    assert search.search(["Denys Roe", "zzz"], 2)[0][0] == ROE
    assert search.search(["zzz"], 2) == [[]]
    with pytest.raises(ValueError, match="empty"):
        PassageSearch([])


@pytest.mark.parametrize(
    ("found", "label"),
    [
        ([DIRECTOR, BIRTHPLACE], "Montreal"),
        ([DIRECTOR, Triple("Denys Roe", "employer", "CBC")], None),
        ([DIRECTOR], None),
        ([], "nothing"),
    ],
)
def test_an_answer_that_nothing_found_holds_is_not_learned(
    found: list[Triple], label: str | None
) -> None:
    record = zone_question()
    steps = solving_steps(record, {})
    retrieved = {record.question: [], ASKED_DIRECTOR: [ZONE], ASKED_BIRTHPLACE: [ROE]}

    def read(passage: PassageRecord, subquery: str) -> list[Triple]:
        told = {ASKED_DIRECTOR: found[:1], ASKED_BIRTHPLACE: found[1:]}
        return told.get(subquery, [])

    options = replace(NEVER, supported_answers=True)
    samples = trajectory_samples(record, steps, retrieved, read, options)
    assert [s.label for s in samples if s.task == "answer"] == ([label] if label else [])
    # The plans are the same: whoever asks does not know what was to be found.
    assert [s.label for s in samples if s.task == "plan"][-1] == "[SUFFICIENT]"


def test_declining_is_learned_where_nothing_was_found_alone() -> None:
    # Facts beside an unanswerable question cannot be told from right ones.
    unanswerable = replace(zone_question(), answer="nothing")
    assert supported_label(unanswerable, [HistoryStep(ASKED_DIRECTOR, ())]) == "nothing"
    assert supported_label(unanswerable, [HistoryStep(ASKED_DIRECTOR, (DIRECTOR,))]) is None


BORN = HistoryStep("Where was Denys Roe born?", (BIRTHPLACE,))
ROE_SENTENCE = "Denys Roe: Denys Roe (born 3 May 1967 in Montreal) is a filmmaker."


@pytest.mark.parametrize(
    ("form", "triples", "texts"),
    [
        ("facts", (BIRTHPLACE,), ()),
        (
            "triplets",
            (),
            (
                "[C] Denys Roe; place of birth [P] Denys Roe (born 3 May 1967 in Montreal) is a "
                "filmmaker. [R] Denys Roe was born in Montreal.",
            ),
        ),
        ("sentences", (BIRTHPLACE,), (ROE_SENTENCE,)),
        ("passages", (), (f"Lake: {OTHER.text}", ROE_SENTENCE)),
        ("full", (BIRTHPLACE,), (ROE_SENTENCE, f"Lake: {OTHER.text}", ROE_SENTENCE)),
    ],
)
def test_a_step_in_each_form_of_evidence(
    form: Form, triples: tuple[Triple, ...], texts: tuple[str, ...]
) -> None:
    assert in_form(BORN, [OTHER, ROE], form) == HistoryStep(BORN.subquery, triples, texts)


def test_a_step_shows_the_sentence_that_holds_what_was_asked_for() -> None:
    about = PassageRecord("a", "About us", "Halden was founded in 1987. Jonas Ek has led it since.")
    leads = HistoryStep("Who leads Halden?", (Triple("Jonas Ek", "leads", "Halden"),))
    shown = in_form(leads, [about], "sentences")
    assert shown.texts == ("About us: Jonas Ek has led it since.",)


def test_all_states_of_a_question_have_one_form_and_the_same_steps() -> None:
    plain = walk({})
    forms = get_args(Form)
    for form in forms:
        shown = walk({}, replace(SURE, forms=(form,)))
        assert [(s.id, s.label) for s in shown] == [(s.id, s.label) for s in plain]
        asked = [[step.subquery for step in sample.history] for sample in shown]
        assert asked == [[step.subquery for step in sample.history] for sample in plain]
        assert [RasSample.from_json(sample.to_json()) for sample in shown] == shown
    drawn = Counter(drawn_form(f"q{number}", forms, 0) for number in range(2000))
    assert all(300 < drawn[form] < 500 for form in forms)
    drawn = Counter(
        drawn_form(f"q{number}", ("facts", "facts", "full"), 0) for number in range(2000)
    )
    assert 1200 < drawn["facts"] < 1460
