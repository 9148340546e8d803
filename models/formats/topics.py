"""Topics of TH-RAG as a model reads and chooses them: of an entity, and for a question."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from models.formats.fields import FieldReader
from models.formats.planning import one_line
from models.formats.records import Record

ChoiceLevel = Literal["topics", "subtopics"]
BOUNDS: dict[ChoiceLevel, tuple[int, int]] = {"topics": (5, 10), "subtopics": (10, 25)}
"""Least and most chosen, N_T and N_ST for each topic (TH-RAG §4.4)."""
MOST_DEPTH = 6
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_BULLET = re.compile(r"^(?:[-*•]|\d+[.)])\s+")


@dataclass(frozen=True, order=True)
class Topic:
    """Where an entity belongs: `subtopic` is the kind of thing, `topic` the field above it."""

    topic: str
    subtopic: str


def topic_prompt(entity: str, sentence: str) -> str:
    """The prompt for an entity's topic; ends in a line break, the topic follows."""
    return f"Sentence: {one_line(sentence)}\nEntity: {one_line(entity)}\nTopic:\n"


def format_topic(topic: Topic) -> str:
    """Write `topic | subtopic`. Raises ValueError when one is empty or holds a `|`."""
    parts = [one_line(topic.topic), one_line(topic.subtopic)]
    if not all(parts) or any("|" in part for part in parts):
        raise ValueError(f"{topic}: a topic and a subtopic are words without |")
    return " | ".join(parts)


def parse_topic(text: str) -> Topic | None:
    """The first line of the form `topic | subtopic`; None without one, never raises."""
    for line in text.splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) == 2 and all(parts):
            return Topic(*parts)
    return None


@dataclass(frozen=True)
class Choice:
    """What is to be chosen from: `names`, between `least` and `most` of them.

    topic: whose subtopics they are; '' where they are topics.
    """

    level: ChoiceLevel
    names: tuple[str, ...]
    least: int
    most: int
    topic: str = ""


@dataclass(frozen=True)
class ParsedChoice:
    """The names chosen, as the list spells them, and how many the list does not hold."""

    chosen: list[str]
    invented: int


def choice_instruction(choice: Choice) -> str:
    """Tables 12 and 13 without the question and the list."""
    what = choice.level
    of_topic = f' of the topic "{choice.topic}"' if choice.topic else ""
    return f"""\
Given the user's question, choose all {what}{of_topic} from the list below that are directly \
relevant to answering it. Choose between {choice.least} and {choice.most}; if too few are \
relevant, take the nearest. Choose only from the list: do not invent or rephrase any. Return them \
exactly as they stand there, as JSON of the form {{"{what}": ["...", "..."]}} and nothing else."""


def choice_prompt(question: str, choice: Choice) -> str:
    """The list and the question; ends in a line break, the JSON follows.

    The list stands first: a server computes it once for all questions that see the same one.
    """
    listed = json.dumps(choice.names, ensure_ascii=False)
    label = f"Allowed {choice.level}" + (f" of {one_line(choice.topic)}" if choice.topic else "")
    return f"{label}: {listed}\nQuestion: {one_line(question)}\nChosen {choice.level}:\n"


def choice_schema(choice: Choice) -> str:
    """The JSON schema that lets nothing through but names of the list."""
    items = {
        "type": "array",
        "items": {"type": "string", "enum": list(choice.names)},
        "minItems": min(choice.least, len(choice.names)),
        "maxItems": choice.most,
    }
    return json.dumps(
        {
            "type": "object",
            "properties": {choice.level: items},
            "required": [choice.level],
            "additionalProperties": False,
        },
        ensure_ascii=False,
    )


def format_choice(level: ChoiceLevel, names: Sequence[str]) -> str:
    """Write chosen names as Tables 12 and 13 ask for."""
    return json.dumps({level: list(names)}, ensure_ascii=False)


def parse_choice(text: str, names: Sequence[str]) -> ParsedChoice:
    """Read a choice from what a model wrote; never raises.

    JSON is read first, then quoted names, then one name a line. Case and spacing do not matter. A
    name that the list does not hold is left out and counted.
    """
    known = {_key(name): name for name in reversed(names)}
    written = list(dict.fromkeys(_key(name) for name in _written(text) if name.strip()))
    chosen = [known[key] for key in written if key in known]
    return ParsedChoice(list(dict.fromkeys(chosen)), len(written) - len(chosen))


def written_keys(text: str) -> set[str]:
    """What `parse_choice` compares of the names that a model wrote, whatever the list holds."""
    return {_key(name) for name in _written(text) if name.strip()}


def _written(text: str) -> list[str]:
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        try:
            return list(_strings(json.loads(text[start : end + 1])))
        except (ValueError, RecursionError):
            pass
    quoted = [match[1] for match in _QUOTED.finditer(text)]
    if quoted and quoted[0] in ("topics", "subtopics"):  # the key of a list that was cut off
        return quoted[1:]
    return quoted or [_BULLET.sub("", line.strip()) for line in text.splitlines()]


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < MOST_DEPTH:
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part, depth + 1)


def _key(name: str) -> str:
    return one_line(name).casefold()


@dataclass(frozen=True)
class OfferedChoice(Record):
    """One line of what `inference/offer_topics.py` writes; `id` is `<question id>/<k>`.

    topic: whose subtopics the names are, '' for topics. names: as the loop shows them. chosen:
    those of them that lead to a supporting sentence, the one that leads to most first.
    """

    id: str
    question: str
    level: ChoiceLevel
    topic: str
    names: list[str]
    chosen: list[str]

    @property
    def question_id(self) -> str:
        """The id of the question that chooses."""
        return self.id.rpartition("/")[0]

    @property
    def number(self) -> int:
        """Which of the question's choices it is, from 0."""
        return int(self.id.rpartition("/")[2])

    @property
    def prompt(self) -> str:
        """What a trained chooser reads, the same as in the loop."""
        choice = Choice(self.level, tuple(self.names), *BOUNDS[self.level], self.topic)
        return choice_prompt(self.question, choice)

    @property
    def label(self) -> str:
        """What it is to write: the first of the chosen names, as many as may be chosen at most."""
        return format_choice(self.level, self.chosen[: BOUNDS[self.level][1]])

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one choice. Raises RecordError, which names `where`, the field and the remedy."""
        reader = FieldReader(record, where)
        level = reader.text("level")
        if level not in get_args(ChoiceLevel):
            raise reader.fail("level", f"is {level!r}", "Write 'topics' or 'subtopics'")
        topic = reader.text("topic", "")
        if (level == "subtopics") != bool(topic.strip()):
            remedy = "Name the topic of subtopics, and none of topics"
            raise reader.fail("topic", f"is {topic!r} for {level}", remedy)
        names, chosen = _names(reader, "names"), _names(reader, "chosen")
        if strange := [name for name in chosen if name not in set(names)]:
            problem = f"{json.dumps(strange[0])} is not among 'names'"
            raise reader.fail("chosen", problem, "Choose from the names alone")
        return cls(_id(reader), reader.text("question"), level, topic, names, chosen)  # type: ignore[arg-type]


def _id(reader: FieldReader) -> str:
    text = reader.text("id")
    question, _, number = text.rpartition("/")
    if not question or not (number.isascii() and number.isdecimal()):
        raise reader.fail("id", f"is {text!r}", "Write the question's id, '/' and a number")
    return text


def _names(reader: FieldReader, field: str) -> list[str]:
    names = reader.items(field, _text, "strings")
    if not names:
        raise reader.fail(field, "no name in it", "Write at least one")
    if len(set(names)) < len(names):
        raise reader.fail(field, "holds a name twice", "Write each name once")
    return names


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("no text")
    return value
