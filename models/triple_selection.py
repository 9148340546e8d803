"""Which of the extracted triples a prompt shows: those that share words with what was asked."""

import re
from collections.abc import Sequence

from models.formats.triples import Triple

_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset(
    _WORD.findall(
        "a an and are at by did do does for from has have in is it of on or s that the their to "
        "was were what when where which who whom whose with"
    )
)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _STOP_WORDS


def _relevance(triple: Triple, subquery: set[str], question: set[str]) -> float:
    """Shared words; the subject counts double, since a subquery names what it asks about."""
    subject = _words(triple.subject)
    rest = _words(f"{triple.predicate} {triple.object}")
    score = 0.0
    for asked, weight in ((subquery, 1.0), (question, 0.5)):
        score += weight * 2 * len(subject & asked) / max(len(subject), 1)
        score += weight * len(rest & asked) / max(len(rest), 1)
    return score


def select_triples(
    subquery: str, question: str, triples: Sequence[Triple], max_triples: int
) -> list[Triple]:
    """The `max_triples` triples closest in words to the subquery and the question.

    Repeats go first, whatever the limit; among the rest the choice is by relevance, ties by
    position, and those chosen keep the order they came in. Training data and the loops call
    this same function.
    """
    distinct = list(dict.fromkeys(triples))
    asked, question_words = _words(subquery), _words(question)
    ranked = sorted(
        range(len(distinct)),
        key=lambda index: (-_relevance(distinct[index], asked, question_words), index),
    )
    return [distinct[index] for index in sorted(ranked[:max_triples])]
