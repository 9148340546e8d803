"""What Self-Ask reads and writes: follow-up questions and their answers (Press et al. 2023)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from models.formats.planning import one_line

INSTRUCTION = """\
Answer the question as in the examples: ask a follow up question, wait for its intermediate \
answer, go on until no more are needed, and then give the final answer, a name, a date or yes or \
no, without a sentence around it. Write the next follow up question or the final answer, and no \
more.

Question: Who lived longer, Muhammad Ali or Alan Turing?
Are follow up questions needed here: Yes.
Follow up: How old was Muhammad Ali when he died?
Intermediate answer: Muhammad Ali was 74 years old when he died.
Follow up: How old was Alan Turing when he died?
Intermediate answer: Alan Turing was 41 years old when he died.
So the final answer is: Muhammad Ali

Question: Who was the maternal grandfather of George Washington?
Are follow up questions needed here: Yes.
Follow up: Who was the mother of George Washington?
Intermediate answer: The mother of George Washington was Mary Ball Washington.
Follow up: Who was the father of Mary Ball Washington?
Intermediate answer: The father of Mary Ball Washington was Joseph Ball.
So the final answer is: Joseph Ball"""
"""Two of the paper's demonstrations, with an instruction for models that chat."""

STOP_SELF_ASK = ("\nIntermediate answer", "\nQuestion:")
_NEXT = re.compile(
    r"(?P<name>follow[\s-]*up(?:\s+question)?|final\s+answer(?:\s+is)?)\s*:\s*(?P<text>\S[^\n]*)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class NextStep:
    """A follow-up question, or the final answer."""

    is_final: bool
    text: str


def self_ask_prompt(question: str, answered: Iterable[tuple[str, str]]) -> str:
    """The prompt for the next follow-up or the final answer.

    answered: follow-up questions with their intermediate answers, in order.
    """
    lines = [
        f"{INSTRUCTION}\n",
        f"Question: {one_line(question)}",
        "Are follow up questions needed here:",
    ]
    for number, (follow_up, answer) in enumerate(answered):
        lines[-1] += " Yes." if not number else ""
        lines.append(f"Follow up: {one_line(follow_up)}")
        lines.append(f"Intermediate answer: {one_line(answer)}")
    return "\n".join(lines) + "\n"


def parse_self_ask(text: str) -> NextStep | None:
    """The first follow-up or final answer of a model's text; None without one, never raises."""
    match = _NEXT.search(text)
    if match is None:
        return None
    return NextStep(match["name"].lower().startswith("final"), match["text"].strip())
