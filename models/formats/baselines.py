"""What Self-Ask, ReAct and IRCoT read and write (Press 2023; Yao 2023, App. C.1; Trivedi 2023)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from models.formats.planning import one_line

SELF_ASK_INSTRUCTION = """\
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
        f"{SELF_ASK_INSTRUCTION}\n",
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


REACT_INSTRUCTION = """\
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

_TURN_LABEL = re.compile(r"thought(?:\s*\d+)?\s*:\s*", re.IGNORECASE)


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
    lines = [f"{REACT_INSTRUCTION}\n", f"Question: {one_line(question)}"]
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
            written = _TURN_LABEL.sub("", "\n".join(lines[:number]).strip(), count=1)
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


THOUGHT_INSTRUCTION = """\
You serve as an intelligent assistant, adept at facilitating users through complex, multi-hop \
reasoning across multiple documents. This task is illustrated through demonstrations, each \
consisting of a document set paired with a relevant question and its multi-hop reasoning thoughts. \
Your task is to generate one thought for current step, DON'T generate the whole thoughts at once! \
If you reach what you believe to be the final step, start with "So the answer is:".

Document: The Long Pier: The Long Pier is a 1954 drama film directed by Ada Brandt.
Document: Ada Brandt: Ada Brandt (1921 - 1990) was a film director from Odense in Denmark.
Question: In which town was the director of The Long Pier born?
Thought: The Long Pier was directed by Ada Brandt.
Thought: Ada Brandt was from Odense in Denmark.
Next thought: So the answer is: Odense."""
"""The paper's prompt with a demonstration of ours."""

_THOUGHT_LABEL = re.compile(r"(?:next\s+)?thought(?:\s*\d+)?\s*:\s*", re.IGNORECASE)
_FINAL = re.compile(r"\banswer\s+is\s*:?\s*(?P<answer>\S.*)", re.IGNORECASE)


def thought_prompt(question: str, passages: Iterable[str], thoughts: Sequence[str]) -> str:
    """The prompt for the next thought, which follows on the last line.

    passages: as `passage_text` gives them, the first ones first.
    """
    lines = [
        f"{THOUGHT_INSTRUCTION}\n",
        *(f"Document: {one_line(passage)}" for passage in passages),
        f"Question: {one_line(question)}",
        *(f"Thought: {one_line(thought)}" for thought in thoughts),
        "Next thought:",
    ]
    return "\n".join(lines) + "\n"


def parse_thought(text: str) -> str | None:
    """The first line with text, without a label; None where there is none, never raises."""
    lines = (_THOUGHT_LABEL.sub("", line.strip(), count=1).strip() for line in text.splitlines())
    return next(filter(None, lines), None)


def final_answer(thought: str) -> str | None:
    """What a thought says that the answer is; None for a thought on the way."""
    match = _FINAL.search(thought)
    return match["answer"].strip().rstrip(".") if match else None
