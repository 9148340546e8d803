"""What a journal's lines say, read by its writer and by a dry run beside it."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_gen.teacher.calls import Answer
from data_gen.teacher.spending import Amount
from models.formats.fields import RecordError

_REMEDY = "Remove the line; its call is then made again"
_START = b'{"event": "begin"'


@dataclass
class JournalContents:
    """Everything that a journal tells.

    answers: by key. confirmed: what these cost. lost: the most that attempts without an answer
    may have cost. open: the upper bounds of attempts that have not ended, by key. failures: how
    many attempts ended so, by kind. whole_bytes: the length up to the last whole line. torn: what
    stands behind it.
    """

    answers: dict[str, Answer] = field(default_factory=dict)
    confirmed: Amount = field(default_factory=Amount)
    lost: Amount = field(default_factory=Amount)
    open: dict[str, Amount] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    whole_bytes: int = 0
    torn: bytes = b""

    def committed(self) -> Amount:
        """What was paid, what may have been paid for nothing, and what is under way."""
        return self.confirmed + self.lost_at_most()

    def lost_at_most(self) -> Amount:
        """What may have been paid for nothing, or is under way."""
        return sum(self.open.values(), self.lost)

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in one line's object. Raises KeyError, TypeError or ValueError on another form."""
        kind, key = event["event"], event["key"]
        if kind == "begin":
            # The attempt before it was cut off by a kill.
            self.lost += self.open.pop(key, Amount())
            self.open[key] = Amount(int(event["most_tokens"]), float(event["most_cost"]))
        elif kind == "answer":
            answer = _read_answer(event)
            self.answers[key] = answer
            self.confirmed += Amount(answer.input_tokens + answer.output_tokens, answer.cost)
            self.open.pop(key, None)
        elif kind == "failure":
            self.failures[str(event["error"])] += 1
            most = self.open.pop(key, Amount())
            self.lost += most if event["may_be_billed"] else Amount()
        else:
            raise ValueError(f"event {kind!r}")


def _read_answer(event: Mapping[str, Any]) -> Answer:
    return Answer(
        str(event["text"]),
        str(event["finish_reason"]),
        int(event["input_tokens"]),
        int(event["output_tokens"]),
        float(event["cost"]),
    )


def read_journal(path: Path) -> JournalContents:
    """Read a journal, also while another process writes it; half a line at the end is left out.

    Raises:
        RecordError: a line in its midst that is no event of a journal.
    """
    contents = JournalContents()
    if not path.is_file():
        return contents
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            problem = _take_line(contents, line)
            if not problem:
                contents.whole_bytes += len(line)
                continue
            # Of the last line a kill or a power cut may have left anything.
            if number == 1 and not line.startswith(_START[: len(line)]):
                remedy = "Name another file for the journal"
                raise RecordError(str(path), "(file)", "is there and is no journal", remedy)
            if lines.read(1):
                raise RecordError(f"{path}:{number}", "(line)", problem, _REMEDY)
            contents.torn = line
    return contents


def _take_line(contents: JournalContents, line: bytes) -> str:
    """Take one line in; what is wrong with it, or nothing."""
    if not line.endswith(b"\n"):
        return "cut short"
    try:
        contents.take(json.loads(line))
    except (ValueError, KeyError, TypeError) as error:
        return f"no event of a journal ({type(error).__name__}: {error})"
    return ""
