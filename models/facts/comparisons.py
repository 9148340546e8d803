"""Comparisons that a small language model cannot make itself, stated as further triples."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from unicodedata import combining, normalize

from models.facts.countries import canonical_country
from models.facts.dates import Date, compare_dates, compare_spans, parse_date
from models.formats.triples import Triple

MAX_DERIVED_TRIPLES = 6
_BRACKETS = re.compile(r"\([^()]*\)")
_WORDS = re.compile(r"\w+")
# The relation and the value of a subject's triple.
Value = tuple[str, str]
# Triples by the words of their subject.
Facts = dict[str, list[Triple]]


def _whole_words(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words})\b")


class Comparison(StrEnum):
    """How the values of two subjects are compared."""

    DATE = "date"
    LIFETIME = "lifetime"
    COUNTRY = "country"
    VALUE = "value"


@dataclass(frozen=True)
class AskedComparison:
    """The comparison that a question asks for.

    predicates: relations whose objects are compared. via: stems of the words for the relation
    that leads from what the question names to what has these ("director"); empty where the
    subjects have them themselves. later: whether the later date, or longer life, is asked for.
    """

    kind: Comparison
    predicates: frozenset[str]
    via: str = ""
    later: bool = False


BIRTH = frozenset({"date of birth", "birth date", "born"})
DEATH = frozenset({"date of death", "death date", "died"})
_RELEASE = frozenset({"publication date", "release date", "release year", "date of publication"})
_FOUNDING = frozenset({"inception", "founded", "established", "foundation date", "founding date"})
_COUNTRY = frozenset(
    {"country of citizenship", "citizenship", "country", "country of origin", "nationality"}
)
_LATER = _whole_words(r"later|latest|last|younger|youngest|newer|newest|recent|recently|longer")
_EARLIER = _whole_words(r"first|earlier|earliest|older|oldest|elder|before")
_LIFETIME = _whole_words(r"lived|live|lifespan|life")
# A question's words, and the dates that they are about; the first row that fits counts. People
# and companies are both "older": whichever dates the subjects have.
_DATES = (
    (_whole_words(r"died|death|dead|die"), DEATH),
    (_whole_words(r"founded|established|formed|created|opened|inception"), _FOUNDING),
    (
        _whole_words(r"released|came out|come out|published|publication|release|issued"),
        _RELEASE | _FOUNDING,
    ),
    (_whole_words(r"born|birth"), BIRTH),
    (_whole_words(r"older|oldest|elder|younger|youngest|newer"), BIRTH | _FOUNDING | _RELEASE),
)
_AGREEING = _whole_words(r"same|both|share|shared|common")
# The same for what two subjects may have in common.
_VALUES = (
    (_whole_words(r"country|countries|nationality|nationalities|citizens?|citizenship"), _COUNTRY),
    (_whole_words(r"born|birth|birthplace"), frozenset({"place of birth"})),
    (_whole_words(r"died|death"), frozenset({"place of death"})),
    (_whole_words(r"study|studied|educated|university|school"), frozenset({"educated at"})),
    (_whole_words(r"based|headquarters"), frozenset({"headquarters location"})),
    (_whole_words(r"employer|work|worked|employed"), frozenset({"employer"})),
    (_whole_words(r"label"), frozenset({"record label"})),
    (_whole_words(r"author|written|wrote"), frozenset({"author"})),
    (_whole_words(r"director|directed"), frozenset({"director"})),
    (_whole_words(r"performer|performed"), frozenset({"performer"})),
)
# Words for what leads from a work to those who made it, as stems that relations share.
_VIA = re.compile(
    r"director|author|writer|performer|singer|composer|founder|producer|publisher|"
    r"production company|record label|label"
)
_STEM_LENGTH = 5


def asked_comparison(question: str) -> AskedComparison | None:
    """The comparison that `question` asks for, or None where it is not one of those known.

    The names that are compared are best taken out of the question beforehand: a film may be
    called "Born First".
    """
    text = " ".join(_WORDS.findall(question.casefold()))
    lead = _VIA.search(text)
    via = lead[0].split()[-1][:_STEM_LENGTH] if lead else ""
    later = _LATER.search(text) is not None
    if later or _EARLIER.search(text):
        return _asked_dates(text, via, later=later)
    if not _AGREEING.search(text):
        return None
    for words, predicates in _VALUES:
        if words.search(text):
            own = any(predicate[:_STEM_LENGTH] == via for predicate in predicates)
            kind = Comparison.COUNTRY if predicates is _COUNTRY else Comparison.VALUE
            return AskedComparison(kind, predicates, "" if own or "label" in text else via)
    return None


def _asked_dates(text: str, via: str, *, later: bool) -> AskedComparison | None:
    if _LIFETIME.search(text):
        return AskedComparison(Comparison.LIFETIME, BIRTH | DEATH, via, later)
    for words, predicates in _DATES:
        if words.search(text):
            return AskedComparison(Comparison.DATE, predicates, via, later)
    return None


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
