"""A conversation as what a loop answers: the last question, understood by what came before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from inference.engines.contract import Engine, PromptTooLongError, Request, Sampling
from inference.loops.model import write
from inference.loops.trace import Trace
from models.formats.planning import one_line

# How a client's own calls for titles, tags and follow-ups begin (Open WebUI's templates).
BACKGROUND_TASK = "### Task:"
MOST_TURNS = 3
# Of each question and answer before: names stand where a text begins, what it asks where it ends.
MOST_TURN_CHARACTERS = 400
MOST_NAME_WORDS, MOST_NAME_CHARACTERS = 6, 100
MAX_QUESTION_TOKENS = 64
_EXAMPLES = (
    ((("Who wrote Emma?", "Jane Austen"),), "When did she die?", "When did Jane Austen die?"),
    ((("Where is the Louvre?", "Paris"),), "Who designed it?", "Who designed the Louvre?"),
    (
        (("Who is the mayor of Oslo?", "Anne Lindboe"),),
        "What is the population of Rome?",
        "What is the population of Rome?",
    ),
)
_GAP = " … "
_WORD = re.compile(r"[^\W_]+")


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


# Words that stand for what was named before; any other must come again in the whole question.
_PRONOUNS = _words(
    "he him his she her hers it its they them their theirs there this that these those"
)
_PERSONS = re.compile(r"\b(he|him|she|her|they|them|his|hers|their|theirs)\b", re.IGNORECASE)
_POSSESSIVES = frozenset({"his", "her", "hers", "their", "theirs"})
_FUNCTION_WORDS = _words(
    "a an the of in on at to for from by with and or is are was were be been do does did has have "
    "had who whom whose what which when where why how"
)
Turn = tuple[str, str]


@dataclass(frozen=True)
class Asked:
    """A question to a loop.

    turns: what was asked and answered before it. evidence_only: write no answer.
    """

    question: str
    turns: tuple[Turn, ...] = ()
    evidence_only: bool = False
    deadline_seconds: float | None = None


def is_background_task(message: str) -> bool:
    """Return whether a message is a client's own call, such as for the title of a chat."""
    return message.lstrip().startswith(BACKGROUND_TASK)


def turns_of(messages: Sequence[tuple[str, str]]) -> list[Turn]:
    """Return the questions of (role, content) messages with the answer that follows each."""
    told = [message for message in messages if message[0] in ("user", "assistant")]
    return [
        (one_line(question), one_line(answer))
        for (asker, question), (teller, answer) in pairwise(told)
        if (asker, teller) == ("user", "assistant")
    ]


def shortened(text: str, most: int) -> str:
    """Return a text, or its beginning and end with "…" between them, `most` characters together.

    It is cut between words where it has any.
    """
    if len(text) <= most:
        return text
    half = (most - len(_GAP)) // 2
    start, end = text[:half], text[-half:]
    if text[half] != " ":
        start = start.rpartition(" ")[0] or start
    if text[-half - 1] != " ":
        end = end.partition(" ")[2] or end
    return f"{start.rstrip()}{_GAP}{end.lstrip()}"


async def standalone_question(
    engine: Engine, turns: Sequence[Turn], question: str, trace: Trace
) -> str:
    """Return a question so that it can be understood without the turns before it.

    The backbone writes it. What it writes is taken if it is a question, keeps every word of the one
    that was asked, pronouns aside, and adds none that was not said; else, and where the backbone
    has no room for the turns even shortened, a pronoun for a person gives way to the last name that
    was answered, by rule, and without either the question stays as it is. The trace notes what was
    asked in its place.
    """
    if not turns:
        return question
    recent = list(turns)[-MOST_TURNS:]
    shown = [(_shown(asked), _shown(answer)) for asked, answer in recent]
    request = Request(
        prompt=rewriting_prompt(shown, question),
        sampling=Sampling(max_new_tokens=MAX_QUESTION_TOKENS, stop=("\n",)),
    )
    try:
        written = one_line(await write(engine, request, "rewrite", trace))
    except PromptTooLongError:
        written = ""
        trace.notes.append("the conversation is too long for the backbone to read")
    whole, how = written, "the model"
    if not keeps_to(written, question, shown):
        whole, how = with_name(question, recent), "rule"
    if whole != question:
        trace.notes.append(f"asked, by {how}, as: {whole}")
    return whole


def _shown(text: str) -> str:
    return shortened(text, MOST_TURN_CHARACTERS)


def rewriting_prompt(turns: Sequence[Turn], question: str) -> str:
    """Return examples, the turns, and the question to be written in full."""
    blocks = [
        "\n".join([_block(earlier, asked), f"Next question in full: {whole}"])
        for earlier, asked, whole in _EXAMPLES
    ]
    return "\n\n".join([*blocks, f"{_block(turns, question)}\nNext question in full:"])


def _block(turns: Sequence[Turn], question: str) -> str:
    lines = [f"Question: {asked}\nAnswer: {answer}" for asked, answer in turns]
    return "\n".join([*lines, f"Next question: {question}"])


def keeps_to(written: str, question: str, turns: Sequence[Turn]) -> bool:
    """Return whether a rewriting asks what the question asks, in words of the conversation."""
    new, asked = _words(written), _words(question)
    said = asked.union(*(_words(text) for turn in turns for text in turn))
    kept = asked - _PRONOUNS - _FUNCTION_WORDS
    return written.endswith("?") and kept <= new and new - _FUNCTION_WORDS <= said


def with_name(question: str, turns: Sequence[Turn]) -> str:
    """Return the question with the last name that was answered for its first personal pronoun."""
    names = [answer for _, answer in turns if _is_name(answer)]
    pronoun = _PERSONS.search(question)
    if pronoun is None or not names:
        return question
    name = names[-1].rstrip(".")
    if pronoun[0].casefold() in _POSSESSIVES and pronoun.end() < len(question.rstrip("?! .")):
        name += "'s"
    return question[: pronoun.start()] + name + question[pronoun.end() :]


def _is_name(answer: str) -> bool:
    short = len(answer) <= MOST_NAME_CHARACTERS and len(answer.split()) <= MOST_NAME_WORDS
    return short and answer[:1].isupper()
