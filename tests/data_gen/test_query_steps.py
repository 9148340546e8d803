"""Annotation as query triplets: what is open, what is asked in turn, and what is refused."""

import pytest

from data_gen.facts.query_steps import NoQueryTripletsError, placeholder, query_steps, step_query
from models.formats.query_triplets import QueryTriplet, TripletState, format_query_triplet
from models.formats.records import DecompositionStep, QuestionRecord
from models.formats.triples import Triple


def evidence_question(question: str, *evidences: tuple[str, str, str]) -> QuestionRecord:
    return QuestionRecord("q", question, "x", evidences=[Triple(*e) for e in evidences])


def decomposed(question: str, *steps: tuple[str, str]) -> QuestionRecord:
    decomposition = [DecompositionStep(*step) for step in steps]
    return QuestionRecord("q", question, "x", question_decomposition=decomposition)


def lines(record: QuestionRecord, which: str = "open") -> list[str]:
    return [format_query_triplet(getattr(step, which)) for step in query_steps(record, {})]


def test_a_chain_names_its_bridge_and_nothing_else() -> None:
    record = evidence_question(
        "Where was the director of The Zone (2017 Film) born?",
        ("The Zone", "director", "Denys Roe"),
        ("Denys Roe", "place of birth", "Montreal"),
    )
    assert lines(record) == ["The Zone | director | ?a", "?a | place of birth | ?"]
    assert lines(record, "asked") == ["The Zone | director | ?a", "Denys Roe | place of birth | ?"]
    assert lines(record, "found")[1] == "Denys Roe | place of birth | Montreal"
    steps = query_steps(record, {})
    assert [step.answer for step in steps] == ["Denys Roe", "Montreal"]
    assert all(step.found.state is TripletState.RESOLVED for step in steps)


def test_evidences_in_any_order_give_solving_order() -> None:
    record = evidence_question(
        "Where was the director of Dawn born?",
        ("Ana Lis", "place of birth", "Brill"),
        ("Dawn", "director", "Ana Lis"),
    )
    assert lines(record) == ["Dawn | director | ?a", "?a | place of birth | ?"]


def test_a_comparison_has_a_name_for_each_bridge() -> None:
    record = evidence_question(
        "Which film has the director born first, Dawn or Dusk?",
        ("Dawn", "director", "Ana Lis"),
        ("Ana Lis", "date of birth", "1901"),
        ("Dusk", "director", "Bo Roe"),
        ("Bo Roe", "date of birth", "1902"),
    )
    assert set(lines(record)) == {
        "Dawn | director | ?a",
        "?a | date of birth | ?",
        "Dusk | director | ?b",
        "?b | date of birth | ?",
    }


def test_a_yes_no_question_does_not_give_its_answer_away() -> None:
    record = evidence_question("Was Ana Lis born in Brill?", ("Ana Lis", "place of birth", "Brill"))
    assert lines(record) == ["Ana Lis | place of birth | ?"]


def test_an_intersection_looks_for_its_subject() -> None:
    record = evidence_question(
        "Which film was directed by Ana Lis and written by Bo Roe?",
        ("Dawn", "director", "Ana Lis"),
        ("Dawn", "screenwriter", "Bo Roe"),
    )
    assert lines(record) == ["?a | director | Ana Lis", "?a | screenwriter | Bo Roe"]
    assert lines(record, "asked")[1] == "Dawn | screenwriter | Bo Roe"


def test_a_decomposition_with_hops() -> None:
    record = decomposed(
        "When did the designer of the Peter Fortress die?",
        ("Who designed the Peter Fortress?", "Domenico Trezzini"),
        ("#1 >> date of death", "1734"),
    )
    assert lines(record) == ["?a | designed | Peter Fortress", "?a | date of death | ?"]
    assert lines(record, "asked")[1] == "Domenico Trezzini | date of death | ?"
    assert lines(record, "found")[0] == "Domenico Trezzini | designed | Peter Fortress"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (QuestionRecord("q", "How many?", "x"), "no facts annotated"),
        (evidence_question("Who directed it?", ("Dawn", "director", "Ana")), "does not name"),
        (decomposed("Who directed it?", ("Dawn >> director", "Ana")), "does not name"),
        (decomposed("Dawn?", ("the famous show Dawn", "Ana")), "no pattern reads"),
        (
            decomposed("Dawn?", ("Dawn >> show", "X"), ("the #1 show >> host", "Y")),
            "no pattern reads",
        ),
        (
            evidence_question(
                "Was the director of Dawn and Dusk born early?",
                ("Dawn", "director", "Ana"),
                ("Dusk", "director", "Ana"),
                ("Ana", "date of birth", "1901"),
            ),
            "found in two ways",
        ),
    ],
)
def test_what_gives_no_triplets_says_why(record: QuestionRecord, reason: str) -> None:
    with pytest.raises(NoQueryTripletsError, match=reason):
        query_steps(record, {})


@pytest.mark.parametrize(
    ("question", "triplet"),
    [
        ("Green >> performer", ("Green", "performer", "?")),
        ("#1 >> spouse", ("#1", "spouse", "?")),
        ("Who made Acura Legend?", ("?", "made", "Acura Legend")),
        ("Who published #1 ?", ("?", "published", "#1")),
        ("who is the president of #1", ("#1", "president", "?")),
        ("What is the capital of the Marshall Islands?", ("Marshall Islands", "capital", "?")),
        ("What is the date of birth of #2 ?", ("#2", "date of birth", "?")),
        ("When was #1 founded?", ("#1", "founded on", "?")),
        ("Where did Ana Lis die?", ("Ana Lis", "died in", "?")),
        ("What city was #1 formed in?", ("#1", "formed in city", "?")),
        ("What city is WWGC from?", ("WWGC", "from city", "?")),
        ("who was the first american president", None),
        ("Where did the Ottoman slave trade flourish?", None),
        ("when did #1 play in the world cup", None),
        ("who did #1 wrote the song thinking out loud for", None),
        ("In which state is Dell the sixth largest company?", None),
        ("", None),
        (">>", None),
    ],
)
def test_steps_in_words(question: str, triplet: tuple[str, str, str] | None) -> None:
    assert step_query(question) == (triplet and QueryTriplet(*triplet))


def test_there_is_a_placeholder_for_every_number() -> None:
    names = [placeholder(number) for number in range(60)]
    assert names[0] == "?a" and names[25] == "?z" and len(set(names)) == 60
