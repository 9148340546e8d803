"""What a comparison question wants compared, read from its words."""

import re
from dataclasses import dataclass
from enum import StrEnum

_WORD = re.compile(r"\w+")


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
_LATER = re.compile(r"later|latest|last|younger|youngest|newer|newest|recent|recently|longer")
_EARLIER = re.compile(r"first|earlier|earliest|older|oldest|elder|before")
# A question's words, and the dates that they are about; the first row that fits counts. People
# and companies are both "older": whichever dates the subjects have.
_DATES = (
    (re.compile(r"died|death|dead|die"), DEATH),
    (re.compile(r"founded|established|formed|created|opened|inception"), _FOUNDING),
    (
        re.compile(r"released|came out|come out|published|publication|release|issued"),
        _RELEASE | _FOUNDING,
    ),
    (re.compile(r"born|birth"), BIRTH),
    (re.compile(r"older|oldest|elder|younger|youngest|newer"), BIRTH | _FOUNDING | _RELEASE),
)
_AGREEING = re.compile(r"same|both|share|shared|common")
# The same for what two subjects may have in common.
_VALUES = (
    (re.compile(r"country|countries|nationality|nationalities|citizens?|citizenship"), _COUNTRY),
    (re.compile(r"born|birth|birthplace"), frozenset({"place of birth"})),
    (re.compile(r"died|death"), frozenset({"place of death"})),
    (re.compile(r"study|studied|educated|university|school"), frozenset({"educated at"})),
    (re.compile(r"based|headquarters"), frozenset({"headquarters location"})),
    (re.compile(r"employer|work|worked|employed"), frozenset({"employer"})),
    (re.compile(r"label"), frozenset({"record label"})),
    (re.compile(r"author|written|wrote"), frozenset({"author"})),
    (re.compile(r"director|directed"), frozenset({"director"})),
    (re.compile(r"performer|performed"), frozenset({"performer"})),
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
    text = " ".join(_WORD.findall(question.casefold()))
    lead = _VIA.search(text)
    via = lead[0].split()[-1][:_STEM_LENGTH] if lead else ""
    if _has(_LATER, text) or _has(_EARLIER, text):
        return _asked_dates(text, via, later=_has(_LATER, text))
    if not _has(_AGREEING, text):
        return None
    for words, predicates in _VALUES:
        if _has(words, text):
            own = any(predicate[:_STEM_LENGTH] == via for predicate in predicates)
            kind = Comparison.COUNTRY if predicates is _COUNTRY else Comparison.VALUE
            return AskedComparison(kind, predicates, "" if own or "label" in text else via)
    return None


def _asked_dates(text: str, via: str, *, later: bool) -> AskedComparison | None:
    if _has(re.compile(r"lived|live|lifespan|life"), text):
        return AskedComparison(Comparison.LIFETIME, BIRTH | DEATH, via, later)
    for words, predicates in _DATES:
        if _has(words, text):
            return AskedComparison(Comparison.DATE, predicates, via, later)
    return None


def _has(words: re.Pattern[str], text: str) -> bool:
    return re.search(rf"\b(?:{words.pattern})\b", text) is not None
