"""Comparisons that a small language model cannot make itself, stated as further triples.

Comparison questions ("who was born first?") need two dates compared. The text of the triples shows
both dates; the result of comparing them is computed here and joins the history as a triple.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from models.country_names import canonical_country
from models.dates import Date, compare_dates, parse_date
from models.formats.triples import Triple

MAX_DERIVED_TRIPLES = 6
COUNTRY_PREDICATES = frozenset(
    {"country of citizenship", "citizenship", "country", "country of origin", "nationality"}
)
_BRACKETS = re.compile(r"\([^()]*\)")
_WORD = re.compile(r"\w+")


def subjects_in_question(question: str, triples: Iterable[Triple]) -> set[str]:
    """Subjects that a question is about: those it names, and what their triples lead to.

    Case, punctuation and what stands in brackets do not count: "The Imp (1919 film)" is named by
    "film The Imp (1919 Film)". The second kind are a film's director, a person's father.
    """
    triples = list(triples)
    asked = f" {_words(question)} "
    named = {t.subject for t in triples if (key := _words(t.subject)) and f" {key} " in asked}
    return named | {triple.object for triple in triples if triple.subject in named}


def _words(text: str) -> str:
    return " ".join(_WORD.findall(_BRACKETS.sub(" ", text).casefold()))


def derive_comparisons(
    triples: Iterable[Triple], question: str, limit: int = MAX_DERIVED_TRIPLES
) -> list[Triple]:
    """Triples that compare pairs of a question's subjects over a predicate that both have.

    Subjects that the question is not about would crowd out those that it is.

    Dates give (earlier subject, predicate + " earlier than", later subject), or " same as" where
    both agree to the same precision; what the coarser date leaves open gives nothing. Values of
    nationality-like predicates give " same as" or " different from", compared after demonyms are
    led back to their country. A subject with two different values for a predicate is left out of
    that predicate. At most `limit` triples, in the order in which predicates and subjects first
    appear; triples that are there already are not repeated.
    """
    given = list(dict.fromkeys(triples))
    asked = subjects_in_question(question, given)
    derived: list[Triple] = []
    for predicate, values in _values_by_predicate([t for t in given if t.subject in asked]).items():
        derived.extend(_compare_subjects(predicate, list(values.items())))
    present = set(given)
    return [triple for triple in dict.fromkeys(derived) if triple not in present][:limit]


def _values_by_predicate(triples: Sequence[Triple]) -> dict[str, dict[str, list[str]]]:
    table: dict[str, dict[str, list[str]]] = {}
    for triple in triples:
        values = table.setdefault(triple.predicate, {}).setdefault(triple.subject, [])
        if triple.object not in values:
            values.append(triple.object)
    return table


def _compare_subjects(predicate: str, subjects: list[tuple[str, list[str]]]) -> Iterator[Triple]:
    if _is_country_predicate(predicate):
        countries = [
            (subject, {canonical_country(value) for value in values})
            for subject, values in subjects
        ]
        for (first, left), (second, right) in combinations(countries, 2):
            relation = "same as" if left & right else "different from"
            yield Triple(first, f"{predicate} {relation}", second)
        return
    dates = [(subject, date) for subject, values in subjects if (date := _single_date(values))]
    for (first, left_date), (second, right_date) in combinations(dates, 2):
        order = compare_dates(left_date, right_date)
        if order == 0:
            yield Triple(first, f"{predicate} same as", second)
        elif order is not None:
            earlier, later = (first, second) if order < 0 else (second, first)
            yield Triple(earlier, f"{predicate} earlier than", later)


def _is_country_predicate(predicate: str) -> bool:
    return " ".join(predicate.lower().split()) in COUNTRY_PREDICATES


def _single_date(values: Sequence[str]) -> Date | None:
    """The one date that all values agree on, at its finest precision; None where they differ."""
    dates = [parse_date(value) for value in values]
    known = sorted((date for date in dates if date is not None), key=_precision, reverse=True)
    if not known or len(known) < len(dates):
        return None
    return known[0] if all(_refines(known[0], date) for date in known) else None


def _precision(date: Date) -> int:
    return 3 - date.count(0)


def _refines(fine: Date, coarse: Date) -> bool:
    return all(right in (0, left) for left, right in zip(fine, coarse, strict=True))
