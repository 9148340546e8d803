"""Scores of components: labels, ranked passages, and triples against gold ones."""

import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class LabelScore:
    """Scores of one label; ``support`` is how often it is the gold label."""

    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class ClassificationScores:
    """Accuracy, unweighted mean F1 over the labels, and each label's scores."""

    accuracy: float
    macro_f1: float
    per_label: dict[str, LabelScore]

    def as_dict(self) -> dict[str, Any]:
        """Return all scores as plain numbers."""
        return asdict(self)


def score_labels(predicted: Sequence[str | None], gold: Sequence[str]) -> ClassificationScores:
    """Score labels; ``None`` stands for a prediction that could not be read and is wrong.

    Macro F1 is taken over every label that occurs on either side; a share of nothing is 0.

    Raises ValueError if there are no labels or the lengths differ.
    """
    if len(predicted) != len(gold):
        raise ValueError(f"{len(predicted)} predicted labels but {len(gold)} gold labels")
    if not gold:
        raise ValueError("label scores need at least one label")
    correct = Counter(g for p, g in zip(predicted, gold, strict=True) if p == g)
    predicted_counts = Counter(p for p in predicted if p is not None)
    gold_counts = Counter(gold)
    per_label = {
        label: _label_score(correct[label], predicted_counts[label], gold_counts[label])
        for label in sorted(gold_counts | predicted_counts)
    }
    macro_f1 = sum(score.f1 for score in per_label.values()) / len(per_label)
    return ClassificationScores(correct.total() / len(gold), macro_f1, per_label)


def _label_score(correct: int, predicted: int, gold: int) -> LabelScore:
    precision = correct / predicted if predicted else 0.0
    recall = correct / gold if gold else 0.0
    return LabelScore(precision, recall, 2 * correct / (predicted + gold), gold)


def recall_at_k(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the share of the relevant ids among the first ``k`` of the ranking."""
    return len(set(_first(ranked, relevant, k)) & set(relevant)) / len(set(relevant))


def ndcg_at_k(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the normalised discounted cumulative gain of the first ``k``, gains 0 or 1."""
    wanted = set(relevant)
    gain = sum(
        1 / math.log2(rank + 2)
        for rank, passage in enumerate(_first(ranked, relevant, k))
        if passage in wanted
    )
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(k, len(wanted))))
    return gain / ideal


def hit_at_k(ranked: Sequence[str], relevant: Collection[str], k: int = 1) -> float:
    """Return 1.0 if any of the first ``k`` (default 1: Hit@1) is relevant, else 0.0."""
    return float(not set(_first(ranked, relevant, k)).isdisjoint(relevant))


def score_retrieval(
    rankings: Sequence[Sequence[str]], relevant: Sequence[Collection[str]], k: int = 5
) -> dict[str, float]:
    """Return the means of ``recall@k``, ``ndcg@k`` and ``hit@1`` over questions.

    Raises ValueError if there are no rankings, the lengths differ or a question has no relevant id.
    """
    if len(rankings) != len(relevant):
        raise ValueError(f"{len(rankings)} rankings but relevant ids of {len(relevant)} questions")
    if not rankings:
        raise ValueError("retrieval scores need at least one ranking")
    pairs = list(zip(rankings, relevant, strict=True))
    return {
        f"recall@{k}": sum(recall_at_k(r, wanted, k) for r, wanted in pairs) / len(pairs),
        f"ndcg@{k}": sum(ndcg_at_k(r, wanted, k) for r, wanted in pairs) / len(pairs),
        "hit@1": sum(hit_at_k(r, wanted) for r, wanted in pairs) / len(pairs),
    }


def _first(ranked: Sequence[str], relevant: Collection[str], k: int) -> list[str]:
    """Return the first ``k`` different ids, after checking the arguments."""
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if isinstance(ranked, str) or isinstance(relevant, str):
        raise ValueError("ids must be given as a list, not as one text")
    if not relevant:
        raise ValueError("a question needs at least one relevant id")
    return list(dict.fromkeys(ranked))[:k]


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
    """Numbers of items that were right, predicted and wanted; counts of several texts add up."""

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
