"""Reading one passage with a question in hand: the record, the prompt and what is written."""

import re
from dataclasses import dataclass, field
from typing import Any, Self

from models.formats.fields import FieldReader
from models.formats.helpers import NOTHING
from models.formats.planning import one_line
from models.formats.records import Record
from models.formats.triples import Triple, format_triples, parse_triples

SEPARATOR = "; "
_PASSAGE = "Passage: "
_QUESTION = "Question: "
# The end of a line ends an answer too, whatever it was cut before.
_SEPARATED = re.compile(r";(?:\s+|$)")
READING_INSTRUCTION = (
    "Read the passage and answer the question in its words, as briefly as possible. Write "
    f'"{NOTHING}" if the passage does not answer it.'
)
"""For a model that is prompted and not trained."""


@dataclass(frozen=True)
class ReadingRecord(Record):
    """A question, one passage, and the answer as the passage has it.

    answer: empty where the passage does not tell. answer_form: "" for a span; "yes/no" and
    "sentences" are other forms. source: the data set that it comes from.
    """

    id: str
    question: str
    answer: str
    passage: str
    title: str = ""
    answer_aliases: list[str] = field(default_factory=list)
    source: str = ""
    answer_form: str = ""

    @property
    def answers(self) -> list[str]:
        """Return the answer and its aliases, each once; none where the passage does not tell."""
        return list(dict.fromkeys(filter(None, [self.answer, *self.answer_aliases])))

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one record.

        Raises RecordError for a missing field, a blank question or a blank passage.
        """
        reader = FieldReader(record, where)
        return cls(
            question=reader.filled_text("question"),
            passage=reader.filled_text("passage"),
            id=reader.text("id"),
            answer=reader.text("answer", "").strip(),
            title=reader.text("title", ""),
            answer_aliases=reader.items("answer_aliases", str, "strings"),
            source=reader.text("source", ""),
            answer_form=reader.text("answer_form", ""),
        )


@dataclass(frozen=True)
class Reading:
    """Answers that a passage gives to a question, or facts of it that lead there.

    Both are empty where the passage has neither. malformed: pieces that were no triple.
    """

    answers: tuple[str, ...] = ()
    facts: tuple[Triple, ...] = ()
    malformed: int = 0


def reading_prompt(question: str, passage: str) -> str:
    """Return the prompt of a reader; it ends in a line break, what is found follows.

    The question stands before the passage, so that a causal model reads the passage knowing it,
    and again behind it, where the answer begins. passage: as `passage_text` gives it.
    """
    asked = f"{_QUESTION}{one_line(question)}"
    return f"{asked}\n{_PASSAGE}{one_line(passage)}\n{asked}\nAnswer:\n"


def question_of(prompt: str) -> str:
    """Return the question in a prompt that `reading_prompt` made."""
    return prompt.split("\n", 1)[0].removeprefix(_QUESTION)


def passage_of(prompt: str) -> str:
    """Return the passage in a prompt that `reading_prompt` made."""
    return prompt.split("\n", 2)[1].removeprefix(_PASSAGE)


def format_reading(reading: Reading) -> str:
    """Return the answers, else the facts, else the word for none."""
    if reading.answers:
        return SEPARATOR.join(map(one_line, reading.answers))
    return format_triples(reading.facts) if reading.facts else NOTHING


def parse_reading(text: str) -> Reading:
    """Read what `format_reading` wrote; never raises."""
    lines = text.strip().splitlines()
    if not lines or lines[0].strip().rstrip(".").lower() == NOTHING:
        return Reading()
    if "(S>" in text:
        parsed = parse_triples(text)
        return Reading(facts=tuple(dict.fromkeys(parsed.triples)), malformed=parsed.malformed)
    answers = (answer.strip() for answer in _SEPARATED.split(lines[0]))
    return Reading(answers=tuple(dict.fromkeys(filter(None, answers))))
