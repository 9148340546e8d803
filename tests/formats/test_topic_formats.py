"""TH-RAG's formats: what is written reads back, and no text of a model raises."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats.prompts import INSUFFICIENT, evidence_answer_prompt
from models.formats.topic_triplets import (
    TOPIC_TRIPLETS_INSTRUCTION,
    TopicTriplet,
    format_topic_triplets,
    parse_topic_triplets,
    topic_triplets_prompt,
    topic_triplets_schema,
)
from models.formats.topics import (
    Choice,
    Topic,
    choice_prompt,
    choice_schema,
    format_choice,
    parse_choice,
)
from models.formats.triples import Triple

WORDS = st.text('abc "{}[]\\é東,', min_size=1, max_size=12).map(lambda text: " ".join(text.split()))
FILLED = WORDS.filter(bool)
TOPICS = st.builds(Topic, FILLED, FILLED)
TRIPLETS = st.builds(TopicTriplet, st.builds(Triple, FILLED, FILLED, FILLED), WORDS, TOPICS, TOPICS)
DAWN = TopicTriplet(
    Triple("Dawn", "director", "Ana Lis"),
    "Ana Lis directed it.",
    Topic("Cinema", "Film"),
    Topic("Biography", "Person"),
)


@given(st.lists(TRIPLETS, max_size=4))
def test_triplets_read_back(triplets: list[TopicTriplet]) -> None:
    parsed = parse_topic_triplets(format_topic_triplets(triplets))
    assert (parsed.triplets, parsed.malformed) == (triplets, 0)


@given(st.lists(TRIPLETS, min_size=1, max_size=3), st.integers(0, 400))
def test_what_was_whole_before_a_cut_is_read(triplets: list[TopicTriplet], length: int) -> None:
    parsed = parse_topic_triplets(format_topic_triplets(triplets)[:length])
    assert parsed.triplets == triplets[: len(parsed.triplets)]


@pytest.mark.parametrize(
    ("text", "count", "malformed"),
    [
        ("", 0, 0),
        ('{"triplets": []}', 0, 0),
        ("[]", 0, 0),
        ("There is no fact.", 0, 1),
        ("null", 0, 1),
        (f"```json\n{format_topic_triplets([DAWN])}\n```", 1, 0),
        ('{"triplet": ["a", "b", "c"]}\n{"triplet": ["d", "e", "f"]}', 2, 0),
        ('[{"triplet": ["a", "b"]}, {"triplet": ["a", "", "c"]}]', 0, 2),
        ('{"triplet": "a b c"}', 0, 1),
        ('{"triplets": [{"triplet": ["a", "b", "c"]}, {"triplet": ["d", "e', 1, 1),
        ('{"triplet": ["a", 3, 1.5], "subject": [], "object": {"subtopic": "x"}}', 1, 0),
        ('{"triplet": ["a", true, "c"]}', 0, 1),
        ('{"a":' * 2000, 0, 1),
        ("[" * 2000 + "]" * 2000, 0, 0),
    ],
)
def test_text_of_models(text: str, count: int, malformed: int) -> None:
    parsed = parse_topic_triplets(text)
    assert (len(parsed.triplets), parsed.malformed) == (count, malformed)


def test_a_topic_that_cannot_be_used_is_none() -> None:
    sentence = "word " * 40
    written = {"triplet": ["a", "b", "c"], "subject": {"subtopic": "x", "main_topic": sentence},
               "object": {"subtopic": "Film", "topic": "Cinema"}}  # fmt: skip
    [triplet] = parse_topic_triplets(json.dumps(written)).triplets
    assert (triplet.subject, triplet.object) == (None, Topic("Cinema", "Film"))
    with pytest.raises(ValueError, match="topic is not set"):
        format_topic_triplets([triplet])


@given(st.text() | st.text('{}[]":,triplets ', max_size=80))
def test_no_text_raises(text: str) -> None:
    parse_topic_triplets(text)
    parse_choice(text, ["Cinema", "Music"])


def test_the_example_of_the_instruction_parses() -> None:
    example = TOPIC_TRIPLETS_INSTRUCTION.split("Example output: ")[1]
    parsed = parse_topic_triplets(example)
    assert (len(parsed.triplets), parsed.malformed) == (1, 0)
    assert format_topic_triplets(parsed.triplets) == example
    assert topic_triplets_prompt("A\nb") == "Document: A b\nTriplets with topics:\n"
    assert json.loads(topic_triplets_schema(3))["properties"]["triplets"]["maxItems"] == 3


@pytest.mark.parametrize(
    ("text", "chosen", "invented"),
    [
        ('{"topics": ["Cinema", "Music"]}', ["Cinema", "Music"], 0),
        ('Sure! {"topics": ["music", "MUSIC", "Alchemy"]} Good luck.', ["Music"], 1),
        ('{"topics": ["Cinema", "Mus', ["Cinema"], 0),
        ('["Cinema"]', ["Cinema"], 0),
        ('{"topics": ["Cine', [], 0),
        ("- Cinema\n2. Music, and more\n", ["Cinema"], 1),
        ("", [], 0),
        ('{"topics": []}', [], 0),
        ("[" * 3000, [], 1),
    ],
)
def test_choices_as_models_write_them(text: str, chosen: list[str], invented: int) -> None:
    parsed = parse_choice(text, ["Cinema", "Music", "Music, and so on"])
    assert (parsed.chosen, parsed.invented) == (chosen, invented)


@given(st.lists(FILLED, min_size=1, max_size=6, unique_by=str.casefold))
def test_a_choice_reads_back(names: list[str]) -> None:
    assert parse_choice(format_choice("topics", names), names).chosen == names


def test_a_choice_as_a_model_reads_it() -> None:
    choice = Choice("subtopics", ("Film", "Series"), 1, 2, "Cinema")
    assert choice_prompt("Who\ndirected it?", choice) == (
        'Allowed subtopics of Cinema: ["Film", "Series"]\nQuestion: Who directed it?\n'
        "Chosen subtopics:\n"
    )
    schema = json.loads(choice_schema(Choice("topics", ("Film",), 5, 10)))
    assert schema["properties"]["topics"]["minItems"] == 1


def test_an_answer_prompt_ends_with_its_question() -> None:
    prompt = evidence_answer_prompt("Who?", "A line.")
    assert prompt.endswith("\n\nA line.\n\nQuestion: Who?\nAnswer:\n")
    assert INSUFFICIENT in prompt and "Yes or No" in prompt
    assert "several paragraphs" in evidence_answer_prompt("Who?", "A line.", long_form=True)
