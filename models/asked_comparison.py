"""What a comparison question wants compared, read from its words."""

import re
from dataclasses import dataclass
from enum import StrEnum


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
