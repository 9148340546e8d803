"""What the helpers read and write: prompts on their lines, and parsers that never raise."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats.helpers import (
    ENOUGH,
    NOTHING,
    ParsedGap,
    SubqueryInput,
    decompose_prompt,
    format_gap,
    format_resolution,
    gap_prompt,
    parse_gap,
    parse_resolution,
    parse_subquery,
    resolve_prompt,
    subquery_writer_prompt,
)
from models.formats.prompts import passage_text
from models.formats.query_triplets import QueryTriplet, format_query_triplet, format_query_triplets
from models.formats.reading import Reading, format_reading, reading_prompt
from models.formats.records import InstructionSample
from models.formats.topics import OfferedChoice, Topic, format_topic, parse_topic, topic_prompt
from models.formats.triples import Triple

TEXT = st.text()
WORDS = st.text("abc de", min_size=1).map(str.strip).filter(bool)
FACTS = st.lists(st.builds(Triple, WORDS, WORDS, WORDS), max_size=3)
OPEN = QueryTriplet("Dawn", "director", "?a")
TRIPLETS = st.builds(QueryTriplet, WORDS, WORDS, WORDS | st.just("?"))


@given(TEXT, TEXT, TEXT, st.lists(TEXT, max_size=3))
def test_every_part_of_a_subquery_prompt_is_one_line(
    question: str, title: str, text: str, earlier: list[str]
) -> None:
    prompt = subquery_writer_prompt(SubqueryInput(question, title, text, tuple(earlier)))
    assert prompt.endswith("Sub-query:\n")
    assert prompt.count("\n") == 3 + len(earlier)


def test_a_subquery_prompt_as_a_model_reads_it() -> None:
    prompt = subquery_writer_prompt(
        SubqueryInput("Where was\nhe born?", "Dawn", "Dawn is a film.", ("Who directed it?",))
    )
    assert prompt == (
        "Document: Dawn: Dawn is a film.\nQuestion: Where was he born?\n"
        "Asked: Who directed it?\nSub-query:\n"
    )


@pytest.mark.parametrize(
    ("text", "subquery"),
    [
        ("Who directed Dawn?", "Who directed Dawn?"),
        ("\n  Who directed Dawn?\nAnd more.", "Who directed Dawn?"),
        ("[SUBQ] Who directed Dawn?", "Who directed Dawn?"),
        ("Sub-query: Who directed Dawn?", "Who directed Dawn?"),
        ("- Subquery: Who directed Dawn?", "Who directed Dawn?"),
        ('"Who directed Dawn?"', "Who directed Dawn?"),
        ("**Who directed Dawn?**", "Who directed Dawn?"),
        ('Who sang "Dawn"', 'Who sang "Dawn"'),
        ('"Dawn" is a film by whom?', '"Dawn" is a film by whom?'),
        ("", None),
        (" \n\t", None),
        ("[SUBQ]", None),
        ("Sub-query:", None),
    ],
)
def test_the_subquery_of_a_text(text: str, subquery: str | None) -> None:
    assert parse_subquery(text) == subquery


NO_TRIPLET = st.text(st.characters(exclude_characters="|", exclude_categories=["Cs"]))
OPENINGS = st.sampled_from(
    ["[SUBQ]", '"', "- - -", "Question: \n", "Enough", "* enough ", "enough?"]
)


@given(NO_TRIPLET | OPENINGS | st.builds("{}{}".format, OPENINGS, NO_TRIPLET))
def test_no_text_is_too_much_for_the_parsers(text: str) -> None:
    found = parse_subquery(text)
    assert found is None or (found and found == found.strip())
    assert parse_resolution(text, OPEN) is None
    assert parse_gap(text) in (ParsedGap(None, 1), ParsedGap([], 0))
    assert (parse_gap(text).missing == []) == bool(re.match(r"\W*enough\b", text, re.IGNORECASE))
    assert parse_topic(text) is None


@given(st.lists(TRIPLETS | st.sampled_from(["a | b", "a | | c", "| b | c"]), min_size=1))
def test_every_line_of_a_judgement_is_read_or_counted(pieces: list[QueryTriplet | str]) -> None:
    missing = [piece for piece in pieces if isinstance(piece, QueryTriplet)]
    text = "\n".join(p if isinstance(p, str) else format_query_triplet(p) for p in pieces)
    assert parse_gap(text) == ParsedGap(missing or None, len(pieces) - len(missing))


def test_prompts_of_the_other_helpers() -> None:
    assert decompose_prompt("Who\nis it?") == "Question: Who is it?\nTriplets:\n"
    assert resolve_prompt(OPEN, ["Dawn: a\nfilm.", "Dusk: another."]) == (
        "Passage: Dawn: a film.\nPassage: Dusk: another.\nOpen: Dawn | director | ?a\nFilled:\n"
    )
    assert gap_prompt("Who?", []) == "Question: Who?\nMissing:\n"
    assert gap_prompt("Who?", [Triple("a|b", "is", "c")]) == (
        "Question: Who?\nKnown: a\\|b | is | c\nMissing:\n"
    )
    assert topic_prompt("Dawn", "Dawn is a film.") == (
        "Sentence: Dawn is a film.\nEntity: Dawn\nTopic:\n"
    )


@given(st.builds(QueryTriplet, WORDS, WORDS, WORDS))
def test_resolutions_round_trip(filled: QueryTriplet) -> None:
    open_triplet = QueryTriplet(filled.subject, filled.predicate, "?")
    assert parse_resolution(format_resolution(filled), open_triplet) == filled
    assert parse_resolution(format_resolution(None), open_triplet) is None


def test_a_resolution_of_another_triplet_is_none() -> None:
    assert parse_resolution("Dusk | director | Ana Lis", OPEN) is None
    assert parse_resolution(f"{NOTHING}\n", OPEN) is None
    both = "Dusk | director | Bo\nDawn | directed by | Ana Lis"
    assert parse_resolution(both, OPEN) == QueryTriplet("Dawn", "director", "Ana Lis")


@given(st.lists(TRIPLETS, max_size=4))
def test_judgements_round_trip(missing: list[QueryTriplet]) -> None:
    parsed = parse_gap(format_gap(missing))
    assert (parsed.missing, parsed.malformed) == (missing, 0)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (ENOUGH, []),
        ("Enough.", []),
        ("not enough", None),
        ("enoughness", None),
        ("The director is missing.", None),
        ("", None),
    ],
)
def test_only_the_word_itself_is_enough(text: str, missing: list[QueryTriplet] | None) -> None:
    assert parse_gap(text).missing == missing


@given(WORDS, WORDS)
def test_topics_round_trip(topic: str, subtopic: str) -> None:
    assert parse_topic(format_topic(Topic(topic, subtopic))) == Topic(
        *(" ".join(part.split()) for part in (topic, subtopic))
    )


@pytest.mark.parametrize("topic", [Topic("", "film"), Topic("Arts", " "), Topic("a|b", "film")])
def test_a_topic_without_words_is_not_written(topic: Topic) -> None:
    with pytest.raises(ValueError, match="words without"):
        format_topic(topic)


def test_the_documentation_shows_the_prompts_as_they_are() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "data_formats.md"
    records = [json.loads(line) for line in page.read_text().splitlines() if '"prompt"' in line]
    samples = {s.task: s for s in map(InstructionSample.from_json, records)}
    question, text = "Where was the director of Dawn born?", "Ana Lis was born in Brill."
    film = "Dawn: Dawn is a film by Ana Lis."
    born = QueryTriplet("Ana Lis", "place of birth", "?")
    names = ["Biography", "Cinema", "Geography", "Music"]
    offered = OfferedChoice("a1/0", question, "topics", "", names, ["Biography", "Cinema"])
    assert {task: (s.prompt, s.label) for task, s in samples.items()} == {
        "subquery": (
            subquery_writer_prompt(
                SubqueryInput(question, "Ana Lis", text, ("Who directed Dawn?",))
            ),
            "Where was Ana Lis born?",
        ),
        "decompose": (
            decompose_prompt(question),
            format_query_triplets([OPEN, QueryTriplet("?a", "place of birth", "?")]),
        ),
        "resolve": (
            resolve_prompt(OPEN, [film]),
            format_resolution(QueryTriplet("Dawn", "director", "Ana Lis")),
        ),
        "judge_gap": (
            gap_prompt(question, [Triple("Dawn", "director", "Ana Lis")]),
            format_gap([born]),
        ),
        "topic": (topic_prompt("Ana Lis", film), format_topic(Topic("Biography", "Person"))),
        "choose_topics": (offered.prompt, offered.label),
        "read": (
            reading_prompt("Where was Ana Lis born?", passage_text("Ana Lis", text)),
            format_reading(Reading(answers=("Brill",))),
        ),
    }
    assert set(samples) == set(InstructionSample.tasks)
