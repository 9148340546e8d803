"""Precision, recall and F1 of predicted triples against gold triples.

The matching of RAS appendix D.1: exact triples, and pairs of subject and object alone.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class TripleLike(Protocol):
    """Anything with the three fields of a triple."""

    @property
    def subject(self) -> str: ...

    @property
    def predicate(self) -> str: ...

    @property
    def object(self) -> str: ...


@dataclass(frozen=True)
class MatchCounts:
    """How many items were right, predicted and wanted; counts of several texts add up."""

    correct: int = 0
    predicted: int = 0
    gold: int = 0

    def __add__(self, other: "MatchCounts") -> "MatchCounts":
        return MatchCounts(
            self.correct + other.correct,
            self.predicted + other.predicted,
            self.gold + other.gold,
        )

    @property
    def precision(self) -> float:
        """Share of the predicted items that are right; 1.0 if none was predicted or wanted."""
        return self.correct / self.predicted if self.predicted else float(self.gold == 0)

    @property
    def recall(self) -> float:
        """Share of the gold items that were found; 1.0 if none was predicted or wanted."""
        return self.correct / self.gold if self.gold else float(self.predicted == 0)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 1.0 if none was predicted or wanted."""
        total = self.predicted + self.gold
        return 2 * self.correct / total if total else 1.0

    def as_dict(self) -> dict[str, float]:
        """Return precision, recall and F1 by name."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1}


@dataclass(frozen=True)
class TripleScores:
    """Corpus counts over whole triples and over pairs of subject and object."""

    exact: MatchCounts
    partial: MatchCounts

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Return both kinds of scores as plain numbers."""
        return {"exact": self.exact.as_dict(), "partial": self.partial.as_dict()}


def normalise_field(text: str) -> str:
    """Return the key under which two fields count as equal.

    Case, underscores and white space are dropped, so that ``runwayLength``, ``runway_length``
    and ``Runway length`` agree; Unicode is brought to its composed form (NFC).
    """
    composed = unicodedata.normalize("NFC", text).casefold()
    return "".join(unicodedata.normalize("NFC", composed).replace("_", " ").split())


def match_triples(predicted: Iterable[TripleLike], gold: Iterable[TripleLike]) -> MatchCounts:
    """Count whole triples that agree; a triple given twice counts once."""
    return _match({_triple_key(t) for t in predicted}, {_triple_key(t) for t in gold})


def match_entity_pairs(predicted: Iterable[TripleLike], gold: Iterable[TripleLike]) -> MatchCounts:
    """Count pairs of subject and object that agree, whatever the predicate says."""
    return _match({_pair_key(t) for t in predicted}, {_pair_key(t) for t in gold})


def score_triples(
    predicted: Sequence[Sequence[TripleLike]], gold: Sequence[Sequence[TripleLike]]
) -> TripleScores:
    """Return micro-averaged counts over a corpus, one list of triples a text on either side.

    Raises ValueError if the numbers of texts differ.
    """
    if len(predicted) != len(gold):
        raise ValueError(f"predictions for {len(predicted)} texts but gold triples for {len(gold)}")
    exact = partial = MatchCounts()
    for predicted_triples, gold_triples in zip(predicted, gold, strict=True):
        exact += match_triples(predicted_triples, gold_triples)
        partial += match_entity_pairs(predicted_triples, gold_triples)
    return TripleScores(exact, partial)


def _match(predicted: set[Any], gold: set[Any]) -> MatchCounts:
    return MatchCounts(len(predicted & gold), len(predicted), len(gold))


def _triple_key(triple: TripleLike) -> tuple[str, str, str]:
    subject, predicate, object_ = triple.subject, triple.predicate, triple.object
    return normalise_field(subject), normalise_field(predicate), normalise_field(object_)


def _pair_key(triple: TripleLike) -> tuple[str, str]:
    return normalise_field(triple.subject), normalise_field(triple.object)
