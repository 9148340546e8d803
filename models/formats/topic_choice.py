"""What a model reads and writes that chooses topics, and subtopics of one, for a question
(TH-RAG App. A.4 and A.5)."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from models.formats.history import one_line

ChoiceLevel = Literal["topics", "subtopics"]
BOUNDS: dict[ChoiceLevel, tuple[int, int]] = {"topics": (5, 10), "subtopics": (10, 25)}
"""Least and most chosen, N_T and N_ST for each topic (TH-RAG §4.4)."""
MOST_DEPTH = 6
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_BULLET = re.compile(r"^(?:[-*•]|\d+[.)])\s+")


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
