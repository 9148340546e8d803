"""What the indexing model of TH-RAG reads and writes: triplets with their sentence and topics
(TH-RAG App. A.3, Tables 11 and 17)."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from models.formats.planning import one_line
from models.formats.topics import Topic
from models.formats.triples import Triple

MOST_LABEL_CHARACTERS = 100
"""A longer topic is a sentence that the model took for one."""
MOST_DEPTH = 6

TOPIC_TRIPLETS_INSTRUCTION = """\
You extract facts from a document: (subject, relation, object) triplets, each with the sentence \
that states it and with topics for its subject and its object.
1. Extract every fact that the document states. Each triplet is grounded in one sentence, which \
you copy as it stands.
2. Paraphrase only where the sentence clearly implies the relation.
3. Replace every pronoun ("it", "he", "she", "they") by the full name that it stands for.
4. Give each subject and object a subtopic (what kind of thing it is, such as "Record label") and \
a main topic (the field above it, such as "Music"). Both fit the entity and the whole document.
5. Return valid JSON of the form below and nothing else. A document without a fact gives \
{"triplets": []}.

Example document: Lomonosov Moscow State University: Moscow State University is a public research \
university. MSU was renamed after Lomonosov in 1940.
Example output: {"triplets": [{"triplet": ["Lomonosov Moscow State University", "was renamed \
after", "Mikhail Lomonosov"], "sentence": "MSU was renamed after Lomonosov in 1940.", "subject": \
{"subtopic": "University", "main_topic": "Education"}, "object": {"subtopic": "Person", \
"main_topic": "Biography"}}]}"""
"""Table 11 with the first example of Table 17."""


@dataclass(frozen=True)
class TopicTriplet:
    """One fact, the sentence that states it ('' where the model named none), and topics.

    A topic is None where the model gave none that can be used.
    """

    triple: Triple
    sentence: str = ""
    subject: Topic | None = None
    object: Topic | None = None


@dataclass(frozen=True)
class ParsedTopicTriplets:
    """What a text held: its well-formed triplets, and how many were not."""

    triplets: list[TopicTriplet]
    malformed: int


def topic_triplets_prompt(text: str) -> str:
    """The input of Table 11 without its instruction; ends in a line break, the JSON follows.

    text: the chunk as `passage_text` gives it.
    """
    return f"Document: {one_line(text)}\nTriplets with topics:\n"


def format_topic_triplets(triplets: Iterable[TopicTriplet]) -> str:
    """Write triplets as one line of JSON, in the form of Table 17. Topics must be set."""
    items = [
        {
            "triplet": [t.triple.subject, t.triple.predicate, t.triple.object],
            "sentence": t.sentence,
            "subject": _topic_json(t.subject),
            "object": _topic_json(t.object),
        }
        for t in triplets
    ]
    return json.dumps({"triplets": items}, ensure_ascii=False)


def topic_triplets_schema(most: int = 40) -> str:
    """The JSON schema of what `format_topic_triplets` writes, at most `most` triplets."""
    text = {"type": "string"}
    topic = _closed(subtopic=text, main_topic=text)
    fact = {"type": "array", "items": text, "minItems": 3, "maxItems": 3}
    item = _closed(triplet=fact, sentence=text, subject=topic, object=topic)
    return json.dumps(_closed(triplets={"type": "array", "items": item, "maxItems": most}))


def parse_topic_triplets(text: str) -> ParsedTopicTriplets:
    """Read every triplet of a model's text; never raises.

    What stands around the JSON is passed over, one object a line is read too, and of a text that
    was cut off every whole triplet counts. Text without a triplet is one malformed piece unless
    it is blank or says that there is none.
    """
    values = list(_json_values(text))
    items = [item for value in values for item in _items(value)]
    triplets = [triplet for item in items if (triplet := _triplet(item)) is not None]
    meant = max(len(items), text.count('"triplet"'))
    if not meant and text.strip() and not values:
        return ParsedTopicTriplets([], 1)
    return ParsedTopicTriplets(triplets, meant - len(triplets))


def _json_values(text: str) -> Iterator[Any]:
    """Every JSON object or list that begins at a bracket and can be read, from left to right."""
    decoder, position = json.JSONDecoder(), 0
    while (start := _next_bracket(text, position)) >= 0:
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            position = start + 1
        else:
            yield value


def _next_bracket(text: str, position: int) -> int:
    found = [place for mark in "{[" if (place := text.find(mark, position)) >= 0]
    return min(found, default=-1)


def _items(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """The objects with a `triplet`, in lists and objects around them."""
    if isinstance(value, dict) and "triplet" in value:
        yield value
    elif isinstance(value, dict | list) and depth < MOST_DEPTH:
        for part in value.values() if isinstance(value, dict) else value:
            yield from _items(part, depth + 1)


def _triplet(item: dict[str, Any]) -> TopicTriplet | None:
    fields = item["triplet"]
    if not isinstance(fields, list) or len(fields) != 3:
        return None
    subject, predicate, object_ = map(_text, fields)
    if not (subject and predicate and object_):
        return None
    return TopicTriplet(
        Triple(subject, predicate, object_),
        _text(item.get("sentence")),
        _topic(item.get("subject")),
        _topic(item.get("object")),
    )


def _topic(value: Any) -> Topic | None:
    if not isinstance(value, dict):
        return None
    topic, subtopic = (
        _text(value.get("main_topic", value.get("topic"))),
        _text(value.get("subtopic")),
    )
    usable = topic and subtopic and max(len(topic), len(subtopic)) <= MOST_LABEL_CHARACTERS
    return Topic(topic, subtopic) if usable else None


def _text(value: Any) -> str:
    """A JSON string or number on one line; '' for anything else."""
    is_text = isinstance(value, str | int | float) and not isinstance(value, bool)
    return one_line(str(value)) if is_text else ""


def _topic_json(topic: Topic | None) -> dict[str, str]:
    if topic is None:
        raise ValueError("a triplet's topic is not set")
    return {"subtopic": topic.subtopic, "main_topic": topic.topic}


def _closed(**properties: Any) -> dict[str, Any]:
    """An object with these properties and no other, as strict endpoints want it."""
    names: Sequence[str] = list(properties)
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }
