"""Whether the triples that came back for a sub-query say anything about what it asks.

RAS App. C.2 demands sub-queries that their document alone can answer. A sample does not name the
document, so the triples of the sub-query's own step stand for it. Names are known by their capital
letters, so the rule is a lower bound: what it flags shares no name with its sub-query, what it
passes may still lack the answer."""

import functools
from collections.abc import Sequence
from enum import IntEnum

from data_gen.entity_text import entity_key, plain_words
from evaluation.subqueries import NAME_LINKS, QUESTION_WORDS, named_entities
from models.formats.history import HistoryStep
from models.formats.triples import Triple

_key = functools.lru_cache(maxsize=1 << 12)(entity_key)
_words = functools.lru_cache(maxsize=1 << 12)(plain_words)


class Support(IntEnum):
    """What a step's own triples have to do with its sub-query.

    ABOUT: one of them names what is asked about. NOTHING_NEW: none does, but an earlier step has a
    fact about it, and facts are shown once. EMPTY: there are no triples. ELSEWHERE: none of them
    names it.
    """

    ABOUT = 0
    NOTHING_NEW = 1
    EMPTY = 2
    ELSEWHERE = 3


def support(steps: Sequence[HistoryStep], position: int) -> Support:
    """What the triples of the step at `position` have to do with its sub-query."""
    step = steps[position]
    names = named_entities(step.subquery)
    if any(_concerns(step.subquery, names, triple) for triple in step.triples):
        return Support.ABOUT
    earlier = [triple.subject for before in steps[:position] for triple in before.triples]
    if any(_same(step.subquery, names, subject) for subject in earlier):
        return Support.NOTHING_NEW
    return Support.ELSEWHERE if step.triples else Support.EMPTY


def _concerns(subquery: str, names: Sequence[str], triple: Triple) -> bool:
    """Whether a triple names what is asked about; for a question without names, shares a word."""
    fields = (triple.subject, triple.predicate, triple.object)
    if _holds(subquery, triple.subject) or any(_holds(f, name) for f in fields for name in names):
        return True
    words = {word for field in fields for word in _words(field).split()}
    return not names and bool(words & set(_words(subquery).split()) - QUESTION_WORDS - NAME_LINKS)


def _same(subquery: str, names: Sequence[str], subject: str) -> bool:
    """Whether the sub-query names a subject, or the subject one of its names."""
    return _holds(subquery, subject) or any(_holds(subject, name) for name in names)


def _holds(text: str, entity: str) -> bool:
    return f" {_key(entity)} " in f" {_words(text)} "
