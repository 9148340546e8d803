"""Accuracy and F1 of predicted labels, such as the planner's three actions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


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
