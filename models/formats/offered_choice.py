"""A choice that TH-RAG offers a question, with what leads to its supporting facts marked."""

import json
from dataclasses import dataclass
from typing import Any, Self, get_args

from models.formats.fields import FieldReader
from models.formats.topic_choice import BOUNDS, Choice, ChoiceLevel, choice_prompt, format_choice


@dataclass(frozen=True)
class OfferedChoice:
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

    def to_json(self) -> dict[str, Any]:
        """The JSON object of the contract."""
        return dict(vars(self))


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
