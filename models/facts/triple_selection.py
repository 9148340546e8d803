"""Which of the extracted triples a prompt shows: those that share words with what was asked."""

import re
from collections.abc import Collection, Sequence

from models.formats.triples import Triple

# Of a triple about what a relevant triple, of this round or an earlier one, leads to.
LINKED_RELEVANCE = 0.5
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
    subquery: str,
    question: str,
    triples: Sequence[Triple],
    max_triples: int,
    known: Collection[Triple] = (),
) -> list[Triple]:
    """The `max_triples` new triples closest in words to the subquery and the question.

    Repeats go first, whatever the limit, and so do those that earlier rounds have shown, `known`.
    Among the rest the choice is by relevance, ties by position. What shares no word with either,
    and whose subject no such triple leads to, is taken only where there is nothing else. Those
    chosen keep the order they came in. Training data and the loops call this same function.
    """
    shown = set(known)
    distinct = [triple for triple in dict.fromkeys(triples) if triple not in shown]
    scores = _scores(subquery, question, distinct, {triple.object for triple in shown})
    ranked = sorted(range(len(distinct)), key=lambda index: (-scores[index], index))
    relevant = [index for index in ranked if scores[index] > 0] or ranked
    return [distinct[index] for index in sorted(relevant[:max_triples])]


def _scores(
    subquery: str, question: str, triples: Sequence[Triple], linked: Collection[str]
) -> list[float]:
    """Each triple's relevance, no less than `LINKED_RELEVANCE` where something leads to it."""
    asked, question_words = _words(subquery), _words(question)
    scores = [_relevance(triple, asked, question_words) for triple in triples]
    found = {t.object for t, score in zip(triples, scores, strict=True) if score > 0}.union(linked)
    return [
        max(score, LINKED_RELEVANCE) if t.subject in found else score
        for t, score in zip(triples, scores, strict=True)
    ]
