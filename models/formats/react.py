"""What ReAct reads and writes: thought, action, observation in turn (Yao et al. 2023, App. C.1)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from models.formats.planning import one_line

INSTRUCTION = """\
Solve a question answering task with interleaving Thought, Action, Observation steps. Thought can \
reason about the current situation, and Action can be two types:
(1) Search[query], which searches the documents for the query and returns the closest ones.
(2) Finish[answer], which returns the answer and finishes the task. The answer is a name, a date \
or yes or no, without a sentence around it.
Write one thought and one action.

Question: In which town was the director of The Long Pier born?
Thought: I need to search The Long Pier and find its director.
Action: Search[The Long Pier]
Observation: The Long Pier: The Long Pier is a 1954 drama film directed by Ada Brandt.
Thought: The director is Ada Brandt. I need to find the town where she was born.
Action: Search[Ada Brandt place of birth]
Observation: Ada Brandt: Ada Brandt (1921 - 1990) was a film director from Odense in Denmark.
Thought: Ada Brandt was from Odense, so the answer is Odense.
Action: Finish[Odense]"""
"""The paper's instruction, with a search of passages in place of Wikipedia's pages."""

STOP_REACT = ("\nObservation", "\nQuestion")
_ACTION = re.compile(
    r"\b(?P<name>search|retrieve|lookup|finish)\s*\[(?P<argument>.*)", re.IGNORECASE
)

_LABEL = re.compile(r"thought(?:\s*\d+)?\s*:\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Action:
    """What the model does next: search for a text, or finish with one.

    written: the thought with the action, as the model wrote them and no further.
    """

    finishes: bool
    argument: str
    written: str = ""


@dataclass(frozen=True)
class Turn:
    """A thought with its action (`Action.written`), and what the search gave."""

    written: str
    observation: Sequence[str]


def react_prompt(question: str, turns: Iterable[Turn]) -> str:
    """The prompt for the next thought and action, which follow on the last line."""
    lines = [f"{INSTRUCTION}\n", f"Question: {one_line(question)}"]
    for turn in turns:
        lines.append(f"Thought: {turn.written}")
        lines += [f"Observation: {one_line(passage)}" for passage in turn.observation]
    return "\n".join([*lines, "Thought:"]) + "\n"


def parse_action(text: str) -> Action | None:
    """The first action of a model's text; None where there is none, never raises.

    A bracket within the argument is part of it where it is closed on the line.
    """
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        match = _ACTION.search(line)
        argument = one_line(_closed(match["argument"])) if match else ""
        if match and argument:
            written = _LABEL.sub("", "\n".join(lines[:number]).strip(), count=1)
            return Action(match["name"].lower() == "finish", argument, written)
    return None


def _closed(text: str) -> str:
    """The text up to the bracket that closes it; all of it where none does."""
    depth = 1
    for place, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth == 0:
            return text[:place]
    return text
