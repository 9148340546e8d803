"""Questions whose passage no longer answers them, since a name or a number was exchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_gen.facts.entities import mentions
from data_gen.samples.altered_questions import AlteredQuestions
from models.formats.reading import ReadingRecord

PASSAGE = "In 1066 Harold fell at Hastings. Later, in 1087, the crown went to Rufus."


def record(question: str, answer: str = "Harold", id_: str = "1") -> ReadingRecord:
    return ReadingRecord(id_, question, answer, PASSAGE, "England")


def test_a_year_takes_the_place_of_a_year_from_a_sentence_without_the_answer() -> None:
    assert AlteredQuestions(0).altered("p", record("Who fell in 1066?")) == "Who fell in 1087?"


def test_a_name_comes_from_elsewhere_on_the_page() -> None:
    questions = AlteredQuestions(0)
    for other in ("Who won at Stamford Bridge?", "Who won at Hastings?", "Who won at Rufus?"):
        questions.add("p", other)
    made = {questions.altered("p", record("Who fell at Hastings?", id_=str(n))) for n in range(30)}
    assert made == {"Who fell at Stamford Bridge?", "Who fell at Rufus?"}


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("who fell there?", "Harold"),
        ("Who fell at Agincourt?", "Harold"),
        ("What happened at Hastings?", "Harold fell at Hastings"),
        ("Who were 12 men in 1066, or 13?", "In 1066"),
    ],
)
def test_a_question_without_a_part_that_can_be_exchanged_stays(question: str, answer: str) -> None:
    assert AlteredQuestions(0).altered("p", record(question, answer)) is None


@given(st.integers(0, 1000), st.sampled_from(["Who fell at Hastings in 1066?", "Who got 1087?"]))
def test_what_is_exchanged_depends_on_seed_and_record_alone(seed: int, question: str) -> None:
    first, second = AlteredQuestions(seed), AlteredQuestions(seed)
    second.add("another page", "Who won at Crecy in 1346?")
    made = [one.altered("p", record(question)) for one in (first, second)]
    assert made[0] == made[1] != question
    assert made[0] is None or not mentions(made[0], "Harold")
