"""Quality of condition triplets and sub-queries without a judge (Tri-RAG §IV-D, RAS App. C.2)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from evaluation.answers import normalise_answer, token_f1
from evaluation.component_scores import MatchCounts

_TOKEN = re.compile(r"\w+(?:['’.-]\w+)*|[^\w\s]")
# These belong to a name that goes on after them.
NAME_LINKS = frozenset(
    ["of", "the", "de", "la", "le", "da", "di", "du", "van", "von", "der", "den"]
)
QUESTION_WORDS = frozenset(
    _TOKEN.findall(
        "who whom whose what when where which why how is are was were do does did has have had can "
        "could in on at of from to for by with the a an name list"
    )
)
_UNSPACED = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
# Words of a field: longer ones are no anchor, quotation or claim but a copied passage.
MAX_WORDS = {"condition": 24, "proof": 120, "conclusion": 60}
# Share of a field's words that its passage must hold for the field to count as supported.
SUPPORT = 0.8


def named_entities(subquery: str) -> list[str]:
    """Return the names in a sub-query: runs of words that begin with a capital letter or a digit.

    "of", "the", "de" and such belong to a run that goes on after them. A first word that opens
    questions ("Who", "In") belongs to none. Numbers count where there is nothing else.
    """
    runs: list[list[str]] = [[]]
    for position, word in enumerate(_TOKEN.findall(subquery)):
        opens = position == 0 and word.casefold() in QUESTION_WORDS
        named = (word[0].isupper() or word[0].isdigit()) and not opens
        if named or (runs[-1] and word in NAME_LINKS):
            runs[-1].append(word)
        else:
            runs.append([])
    names = [" ".join(_without_last_links(run)) for run in runs if run]
    return [name for name in names if not name.isdigit()] or names


def asks_about(subquery: str, document: str) -> bool:
    """Return whether a document holds a name of the sub-query or, without any, a word of it."""
    held = f" {normalise_answer(document)} "
    names = [normalise_answer(name) for name in named_entities(subquery)]
    words = set(normalise_answer(subquery).split()) - QUESTION_WORDS - NAME_LINKS
    return any(f" {text} " in held for text in (names or words) if text)


def _without_last_links(run: list[str]) -> list[str]:
    while run[-1] in NAME_LINKS:
        run = run[:-1]
    return run


class ConditionLike(Protocol):
    """Anything with the three fields of a condition triplet."""

    @property
    def condition(self) -> str: ...

    @property
    def proof(self) -> str: ...

    @property
    def conclusion(self) -> str: ...


class ParsedLike(Protocol):
    """A parsed output: its triplets, and the number of malformed pieces."""

    @property
    def triplets(self) -> Sequence[ConditionLike]: ...

    @property
    def malformed(self) -> int: ...


@dataclass(frozen=True)
class ConditionScores:
    """Agreement with gold triplets over several passages.

    conditions: normalised conditions; whole: conditions together with their conclusions.
    conclusion_f1: mean token F1 of conclusions whose condition is right; None where none is.
    """

    conditions: MatchCounts
    whole: MatchCounts
    conclusion_f1: float | None


def within_bounds(triplet: ConditionLike) -> bool:
    """Return whether every field has a length that its role allows (§III-C, quality control)."""
    return all(len(getattr(triplet, name).split()) <= limit for name, limit in MAX_WORDS.items())


def is_well_formed(parsed: ParsedLike) -> bool:
    """Return whether an output is nothing but triplets: complete, ordered, in bounds."""
    return (
        bool(parsed.triplets) and not parsed.malformed and all(map(within_bounds, parsed.triplets))
    )


def well_formed_share(outputs: Sequence[ParsedLike]) -> float:
    """Share of outputs that are well formed. Raises ValueError without an output."""
    if not outputs:
        raise ValueError("no output to judge")
    return sum(map(is_well_formed, outputs)) / len(outputs)


def is_supported(triplet: ConditionLike, passage: str) -> bool:
    """Return whether the passage holds the words of conclusion and proof, if there is one."""
    known = f"{passage} {triplet.condition}"
    fields = [triplet.conclusion, *([triplet.proof] if triplet.proof else [])]
    return all(covered_by(text, known) >= SUPPORT for text in fields)


def covered_by(text: str, known: str) -> float:
    """Share of a text's words, normalised, that another text holds; 0.0 without a word."""
    words, there = _words(text), set(_words(known))
    return sum(word in there for word in words) / len(words) if words else 0.0


def support(triplets: Sequence[Sequence[ConditionLike]], passages: Sequence[str]) -> float:
    """Share of all triplets that their passage supports; 1.0 where there is no triplet."""
    judged = [
        is_supported(triplet, passage)
        for mine, passage in zip(triplets, passages, strict=True)
        for triplet in mine
    ]
    return sum(judged) / len(judged) if judged else 1.0


def score_conditions(
    predicted: Sequence[Sequence[ConditionLike]], gold: Sequence[Sequence[ConditionLike]]
) -> ConditionScores:
    """Compare passage by passage, micro-averaged; each condition counts once a passage."""
    conditions = whole = MatchCounts()
    similar: list[float] = []
    for mine, wanted in zip(predicted, gold, strict=True):
        ours, theirs = _by_condition(mine), _by_condition(wanted)
        shared = ours.keys() & theirs.keys()
        scores = [token_f1(ours[key], [theirs[key]]) for key in sorted(shared)]
        similar.extend(scores)
        conditions += MatchCounts(len(shared), len(ours), len(theirs))
        whole += MatchCounts(sum(score == 1.0 for score in scores), len(ours), len(theirs))
    return ConditionScores(conditions, whole, sum(similar) / len(similar) if similar else None)


def _by_condition(triplets: Sequence[ConditionLike]) -> dict[str, str]:
    found: dict[str, str] = {}
    for triplet in triplets:
        found.setdefault(normalise_answer(triplet.condition), triplet.conclusion)
    return found


def _words(text: str) -> list[str]:
    """Return normalised words; scripts that leave no space between words count by character."""
    return _WORD.findall(normalise_answer(text))
