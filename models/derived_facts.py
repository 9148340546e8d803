"""Comparisons that a small language model cannot make itself, stated as further triples.

Comparison questions ("who was born first?") need two dates compared. The text of the triples shows
both dates; the result of comparing them is computed here and joins the history as a triple, in the
question's own terms: of the films that it names, not of their directors.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from unicodedata import combining, normalize

from models.asked_comparison import BIRTH, DEATH, AskedComparison, Comparison, asked_comparison
from models.country_names import canonical_country
from models.dates import Date, compare_dates, compare_spans, parse_date
from models.formats.triples import Triple

MAX_DERIVED_TRIPLES = 6
_BRACKETS = re.compile(r"\([^()]*\)")
_WORDS = re.compile(r"\w+")
# The relation and the value of a subject's triple.
Value = tuple[str, str]
# Triples by the words of their subject.
Facts = dict[str, list[Triple]]


def derive_comparisons(
    triples: Iterable[Triple], question: str, limit: int = MAX_DERIVED_TRIPLES
) -> list[Triple]:
    """Triples that compare the subjects which the question names, as it asks.

    Dates give (the subject asked for, "date of birth earlier than", the other), with "later than"
    where the question asks so and "same as" where both agree to the same precision; what the
    coarser date leaves open gives nothing. Lifetimes give "lived longer than". Countries, after
    demonyms, and other values give " same as" or " different from". What the question asks of the
    films' directors is taken from the directors' triples and said of the films ("director date of
    birth earlier than"). A subject with two different dates is left out. At most `limit` triples,
    in the order in which the question names the subjects; none where it is no comparison.
    """
    given = list(dict.fromkeys(triples))
    named, rest = named_subjects(question, given)
    asked = asked_comparison(rest) if len(named) > 1 else None
    if asked is None:
        return []
    facts = _by_subject(given)
    values = {subject: _values(subject, asked, facts) for subject in named}
    derived = [
        triple
        for first, second in combinations([s for s in named if values[s]], 2)
        for triple in _compare(asked, first, values[first], second, values[second])
    ]
    present = set(given)
    return [triple for triple in dict.fromkeys(derived) if triple not in present][:limit]


def named_subjects(question: str, triples: Iterable[Triple]) -> tuple[list[str], str]:
    """Subjects that the question names, in its order, and the question's words without them.

    Case, punctuation and what stands in brackets do not count: "The Imp (1919 film)" is named by
    "film The Imp (1919 Film)". Of names within each other the longest is taken.
    """
    subjects: dict[str, str] = {}
    for triple in triples:
        subjects.setdefault(_words(triple.subject), triple.subject)
    rest = f" {_words(question)} "
    places: dict[str, int] = {}
    for key in sorted(filter(None, subjects), key=len, reverse=True):
        place = rest.find(f" {key} ")
        if place >= 0:
            places[subjects[key]] = place
            rest = rest.replace(f" {key} ", f" {'|' * len(key)} ")
    return sorted(places, key=places.__getitem__), " ".join(_WORDS.findall(rest))


def _words(text: str) -> str:
    letters = (c for c in normalize("NFKD", _BRACKETS.sub(" ", text)) if not combining(c))
    return " ".join(_WORDS.findall("".join(letters).casefold()))


def _by_subject(triples: Iterable[Triple]) -> Facts:
    facts: Facts = {}
    for triple in triples:
        facts.setdefault(_words(triple.subject), []).append(triple)
    return facts


def _values(subject: str, asked: AskedComparison, facts: Facts) -> list[Value]:
    """What the question compares of `subject`: its own, or that of those it leads to."""
    key = _words(subject)
    if not asked.via:
        return _own_values(key, asked, facts)
    return [
        (f"{lead.predicate} {predicate}", value)
        for lead in facts[key]
        if asked.via in lead.predicate.casefold()
        for predicate, value in _values_of_lead(_words(lead.object), asked, facts)
    ]


def _values_of_lead(key: str, asked: AskedComparison, facts: Facts) -> list[Value]:
    """The values of a name, or of the one subject that shares its initial and last word."""
    if values := _own_values(key, asked, facts):
        return values
    short = _initial_and_last(key)
    others = [other for other in facts if short and _initial_and_last(other) == short]
    return _own_values(others[0], asked, facts) if len(others) == 1 else []


def _initial_and_last(key: str) -> tuple[str, str] | None:
    """("w", "wellman") for "william a wellman"; None for a single word."""
    words = key.split()
    return (words[0][0], words[-1]) if len(words) > 1 else None


def _own_values(key: str, asked: AskedComparison, facts: Facts) -> list[Value]:
    return [
        (triple.predicate, triple.object)
        for triple in facts.get(key, [])
        if " ".join(triple.predicate.casefold().split()) in asked.predicates
    ]


def _compare(
    asked: AskedComparison, first: str, left: list[Value], second: str, right: list[Value]
) -> Iterator[Triple]:
    relation = left[0][0]
    if asked.kind in (Comparison.COUNTRY, Comparison.VALUE):
        agree = _objects(asked, left) & _objects(asked, right)
        yield Triple(first, f"{relation} {'same as' if agree else 'different from'}", second)
        return
    if asked.kind is Comparison.LIFETIME:
        order, (less, more) = _compare_lifetimes(left, right), ("lived shorter", "lived longer")
    else:
        order = _compare_single_dates(left, right)
        less, more = f"{relation} earlier", f"{relation} later"
    if order == 0:
        yield Triple(first, f"{relation} same as", second)
    elif order is not None:
        wanted, other = (first, second) if (order > 0) is asked.later else (second, first)
        yield Triple(wanted, f"{more if asked.later else less} than", other)


def _objects(asked: AskedComparison, values: list[Value]) -> set[str]:
    same = canonical_country if asked.kind is Comparison.COUNTRY else _words
    return {same(value) for _, value in values}


def _compare_single_dates(left: list[Value], right: list[Value]) -> int | None:
    first = _single_date([value for _, value in left])
    second = _single_date([value for _, value in right])
    return compare_dates(first, second) if first and second else None


def _compare_lifetimes(left: list[Value], right: list[Value]) -> int | None:
    first, second = _lifetime(left), _lifetime(right)
    return compare_spans(first, second) if first and second else None


def _lifetime(values: list[Value]) -> tuple[Date, Date] | None:
    born, died = (
        _single_date([value for relation, value in values if relation.casefold() in predicates])
        for predicates in (BIRTH, DEATH)
    )
    return (born, died) if born and died else None


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
