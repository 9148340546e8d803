"""Trig-Nav's prompts and parsers, and the shapes of triples by eq. 2 to 4."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.loops.triple_chains import (
    Knowledge,
    associative_score,
    causal_score,
    classify,
    factual_score,
    in_solving_order,
    segment_question,
    segments,
    unknowns,
)
from models.formats.evidence_answer import is_insufficient
from models.formats.query_triplets import QueryTriplet, parse_query_triplets
from models.formats.subquestions import (
    DECOMPOSE_INSTRUCTION,
    RECALL_INSTRUCTION,
    SubAnswer,
    parse_recall,
    parse_subquestions,
    recall_prompt,
    sub_answers_prompt,
    subquestions_prompt,
)
from models.formats.triples import Triple

FIELDS = st.sampled_from(["Dawn", "Ana", "dawn", "?", "?a", "?b", "?c"])
TRIPLETS = st.lists(st.builds(QueryTriplet, FIELDS, st.just("r"), FIELDS), max_size=6, unique=True)


def read(*lines: str) -> list[QueryTriplet]:
    return parse_query_triplets("\n".join(lines)).triplets


@pytest.mark.parametrize(
    ("lines", "fact", "chain", "star", "kind"),
    [
        (["A | p | ?"], 1, 0, 1, Knowledge.FACTUAL),
        (["A | p | ?x", "?x | q | ?"], 0, 1, 1 / 2, Knowledge.ASSOCIATIVE),
        (["A | p | ?x", "?x | q | ?y", "?y | r | ?"], 0, 1, 1 / 3, Knowledge.ASSOCIATIVE),
        (["A | p | ?x", "B | p | ?x", "C | q | ?x"], 0, 0, 1, Knowledge.CAUSAL),
        (["A | p | ?x", "B | p | ?X ", "?x | q | ?"], 0, 1 / 2, 2 / 3, Knowledge.CAUSAL),
        (["?x | director | A", "?x | genre | B"], 0, 0, 1 / 2, Knowledge.CAUSAL),
        # Two nameless unknowns are two things.
        (["A | p | ?", "? | q | B"], 0, 0, 1 / 2, Knowledge.CAUSAL),
        (["A | p | ?", "B | p | ?"], 0, 0, 1 / 2, Knowledge.CAUSAL),
        (["A | p | b ", "B | q | ?"], 0, 1, 1 / 2, Knowledge.ASSOCIATIVE),
    ],
)
def test_kinds_of_knowledge_by_the_equations(
    lines: list[str], fact: float, chain: float, star: float, kind: Knowledge
) -> None:
    segment = read(*lines)
    assert factual_score(segment) == fact
    assert associative_score(segment) == pytest.approx(chain)
    assert causal_score(segment) == pytest.approx(star)
    assert classify(segment) is kind


def test_an_empty_segment_has_no_shape() -> None:
    assert (factual_score([]), associative_score([]), causal_score([])) == (0, 0, 0)


def test_triples_come_in_the_order_in_which_they_can_be_solved() -> None:
    chain = read("?b | r | ?", "?a | q | ?b", "A | p | ?a")
    assert in_solving_order(chain) == chain[::-1]
    circle = read("?a | p | ?b", "?b | q | ?a", "A | p | ?")
    assert in_solving_order(circle) == [circle[2], circle[0], circle[1]]


@given(TRIPLETS)
def test_every_triple_keeps_a_place_and_needs_one_unknown_at_most(
    triplets: list[QueryTriplet],
) -> None:
    ordered = in_solving_order(triplets)
    assert sorted(ordered) == sorted(triplets)
    found: set[str] = set()
    solvable = True
    for triplet in ordered:
        solvable = solvable and len(unknowns(triplet, found)) <= 1
        if solvable:
            found.update(name for name in triplet.placeholders if name != "?")
        else:  # nothing behind the first that cannot be solved can be
            assert len(unknowns(triplet, found)) > 1


@given(TRIPLETS)
def test_segments_share_no_unknown_and_lose_no_triple(triplets: list[QueryTriplet]) -> None:
    groups = segments(triplets)
    assert sorted(t for group in groups for t in group) == sorted(triplets)
    assert all(group == [t for t in triplets if t in group] for group in groups)
    names = [{n for t in group for n in unknowns(t) if n != "?"} for group in groups]
    assert sum(map(len, names)) == len(set().union(*names))


def test_a_segment_in_words() -> None:
    assert segment_question(read("Dawn | director | ?a", "?a | place of birth | ?")) == (
        "What is the director of Dawn? What is the place of birth of ?a?"
    )
    assert segment_question(read("?a | genre | comedy")) == "What has comedy as its genre?"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("enough", []),
        ("Enough.", []),
        ("- Who directed Dawn?\n2. Who wrote it?\n\nThat is all.",
         ["Who directed Dawn?", "Who wrote it?"]),
        ("Sub-question: Who directed Dawn?\nWho directed Dawn?", ["Who directed Dawn?"]),
        ("誰が監督しましたか？", ["誰が監督しましたか？"]),
        ("enough? Who directed Dawn?", ["enough? Who directed Dawn?"]),
        ("not enough", None),
        ("", None),
        ("???", None),
        ("Where was he born", None),
        (f"{'very ' * 100}long?", None),
    ],
)  # fmt: skip
def test_judgements_as_models_write_them(text: str, missing: list[str] | None) -> None:
    assert parse_subquestions(text).missing == missing


@given(st.text())
def test_no_text_raises(text: str) -> None:
    parse_subquestions(text)
    parse_recall(text)
    is_insufficient(text)


def test_prompts_as_a_model_reads_them() -> None:
    fact = Triple("Dawn", "director", "Ana Lis")
    assert recall_prompt("Who\ndirected?") == "Question: Who directed?\nKnown facts:\n"
    assert parse_recall("Dawn | director | Ana Lis\n? | x | y\nDawn | director | Ana Lis") == [fact]
    assert subquestions_prompt("Who?", [fact], ["Dawn: A film."]) == (
        "Passage: Dawn: A film.\nClaimed: Dawn | director | Ana Lis\nQuestion: Who?\n"
        "Sub-questions:\n"
    )
    answers = [SubAnswer("Who directed Dawn?", (fact,)), SubAnswer("Where?", text="in Brill")]
    assert sub_answers_prompt("Who?", answers, [fact]) == (
        "Known:\nDawn | director | Ana Lis\nSub-question: Who directed Dawn?\n"
        "Dawn | director | Ana Lis\nSub-question: Where?\nFound: in Brill\nQuestion: Who?\n"
        "Answer:\n"
    )


def test_the_examples_of_the_instructions_parse() -> None:
    for instruction, count in ((RECALL_INSTRUCTION, 2), (DECOMPOSE_INSTRUCTION, 4)):
        lines = [line for line in instruction.splitlines() if "subject |" not in line]
        assert len(parse_query_triplets("\n".join(lines)).triplets) == count
    first = DECOMPOSE_INSTRUCTION.split("Triplets:\n")[1].split("\n\n")[0]
    assert classify(read(*first.splitlines())) is Knowledge.ASSOCIATIVE


@pytest.mark.parametrize(
    ("answer", "says_so"),
    [("", True), (" insufficient information", True), ("Insufficient information.", True),
     ("Insufficient", False), ("Brill", False)],
)  # fmt: skip
def test_what_says_that_nothing_is_told(answer: str, says_so: bool) -> None:
    assert is_insufficient(answer) is says_so
