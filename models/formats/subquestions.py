"""What Trig-Nav's prompted steps read and write: what a model knows, what is missing as
sub-questions, and what was found for these (Trig-Nav §3.2 to 3.4)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from models.formats.helpers import ENOUGH, read_subquery
from models.formats.planning import one_line
from models.formats.query_triplets import (
    QueryTriplet,
    TripletState,
    format_query_triplet,
    parse_query_triplets,
)
from models.formats.triples import Triple

_ENOUGH = re.compile(rf"\W*{ENOUGH}\b", re.IGNORECASE)
_QUESTION_MARKS = ("?", "？", "؟")
MOST_SUBQUESTION_CHARACTERS = 300

RECALL_INSTRUCTION = """\
Write the facts that you know and that help to answer the question, one a line in the format \
subject | predicate | object, and nothing else. Write "nothing" if you know none.

Question: Where was the director of Jaws born?
Known facts:
Jaws | director | Steven Spielberg
Steven Spielberg | place of birth | Cincinnati"""

JUDGE_INSTRUCTION = f"""\
You are given passages that were found for a question, and facts that were claimed without \
looking them up. Judge what is still missing to answer the question: what the passages do not \
tell, and what was claimed but is not borne out by them. Write each missing piece as a question of \
its own that names what it is about and can be understood alone, one a line. If the passages tell \
all that is needed, write only "{ENOUGH}"."""

DECOMPOSE_INSTRUCTION = """\
Break the question down into the facts that are needed to answer it, one a line in the format \
subject | predicate | object, in the order in which they are found. Write ? for what is not known, \
and ?a, ?b where several facts mean the same unknown thing.

Question: When did Valentin The Good's director die?
Triplets:
Valentin The Good | director | ?a
?a | date of death | ?

Question: Which film by Ana Lis is a comedy?
Triplets:
?a | director | Ana Lis
?a | genre | comedy"""
"""The first example is the paper's (§3.3)."""

RESOLVE_INSTRUCTION = """\
Fill in what is open in the fact, from the facts and passages below and from nothing else. Write \
the whole fact in the format subject | predicate | object. If they do not tell, write "nothing"."""

SUB_ANSWERS_INSTRUCTION = """\
Answer the question from the facts that are known and the answers to its sub-questions. The \
answer is one word or the shortest phrase, a name or a date, or Yes or No, in the language of the \
question. If they do not tell, reply "Insufficient information.\""""


@dataclass(frozen=True)
class SubAnswer:
    """A sub-question and what was found for it: facts, or where it has none the answer as text."""

    question: str
    facts: tuple[Triple, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class ParsedSubquestions:
    """A judgement; `missing` is empty for "enough" and None for a text that is neither."""

    missing: list[str] | None


def recall_prompt(question: str) -> str:
    """The prompt for what a model knows itself; ends in a line break, the facts follow."""
    return f"Question: {one_line(question)}\nKnown facts:\n"


def parse_recall(text: str) -> list[Triple]:
    """The whole facts that a model wrote, each once; never raises."""
    triplets = parse_query_triplets(text).triplets
    whole = (t for t in triplets if t.state is TripletState.RESOLVED)
    return list(dict.fromkeys(Triple(*triplet.fields) for triplet in whole))


def subquestions_prompt(question: str, claimed: Iterable[Triple], passages: Iterable[str]) -> str:
    """The judge's prompt; ends in a line break, the sub-questions follow.

    claimed: what a model said that it knows. passages: as `passage_text` gives them.
    """
    lines = [
        *(f"Passage: {one_line(text)}" for text in passages),
        *(f"Claimed: {_line(fact)}" for fact in claimed),
        f"Question: {one_line(question)}",
        "Sub-questions:",
    ]
    return "\n".join(lines) + "\n"


def parse_subquestions(text: str) -> ParsedSubquestions:
    """Read a prompted judgement; never raises.

    A sub-question is a line that ends with a question mark. The word "enough" counts only where it
    opens the text, so that "not enough" is none.
    """
    read = (read_subquery(line) for line in text.splitlines())
    questions = [
        line for line in read if line.endswith(_QUESTION_MARKS) and any(map(str.isalnum, line))
    ]
    short = [q for q in dict.fromkeys(questions) if len(q) <= MOST_SUBQUESTION_CHARACTERS]
    if short:
        return ParsedSubquestions(short)
    return ParsedSubquestions([] if _ENOUGH.match(text) else None)


def sub_answers_prompt(
    question: str, answers: Sequence[SubAnswer], known: Sequence[Triple] = ()
) -> str:
    """What the last call reads (eq. 9); ends in a line break, the answer follows.

    known: what was found before there were sub-questions.
    """
    lines = ["Known:", *map(_line, known)] if known else []
    for answer in answers:
        lines.append(f"Sub-question: {one_line(answer.question)}")
        lines += [_line(fact) for fact in answer.facts]
        lines += [f"Found: {one_line(answer.text)}"] if answer.text else []
    return "\n".join([*lines, f"Question: {one_line(question)}", "Answer:"]) + "\n"


def _line(fact: Triple) -> str:
    return format_query_triplet(QueryTriplet(fact.subject, fact.predicate, fact.object))
