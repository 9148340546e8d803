"""Scores of one predicted answer against its gold answers, each between 0 and 1.

Normalisation and token F1 are those of SQuAD and HotpotQA; golden match and accuracy are
equations 9 and 13 of RAS (appendix E.2).
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED_ANSWERS = frozenset({"yes", "no", "noanswer"})


def normalise_answer(text: str) -> str:
    """Return the text in lower case without ASCII punctuation, articles and extra white space."""
    without_punctuation = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", without_punctuation).split())


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """Return 1.0 if the normalised prediction equals any normalised gold answer, else 0.0.

    Raises ValueError if there is no gold answer.
    """
    _require_golds(golds)
    predicted = normalise_answer(prediction)
    return float(any(predicted == normalise_answer(gold) for gold in golds))


def token_f1(prediction: str, golds: Sequence[str]) -> float:
    """Return the best F1 over the gold answers, on bags of normalised tokens (RAS eq. 10-12).

    HotpotQA's rule holds: when either side is "yes", "no" or "noanswer", only equality counts.
    Two texts that both normalise to nothing count as equal, so F1 is never below exact match.

    Raises ValueError if there is no gold answer.
    """
    _require_golds(golds)
    predicted = normalise_answer(prediction)
    return max(_pair_f1(predicted, normalise_answer(gold)) for gold in golds)


def golden_match(prediction: str, golds: Sequence[str], whole_words: bool = False) -> float:
    """Return 1.0 if the normalised prediction contains any normalised gold answer (RAS eq. 9).

    By default the gold answer may stand inside a longer word, as in the published measure;
    ``whole_words`` asks for whole words. A gold answer that normalises to nothing is contained
    in an empty prediction only.

    Raises ValueError if there is no gold answer.
    """
    _require_golds(golds)
    predicted = normalise_answer(prediction)
    return float(any(_contains(predicted, normalise_answer(gold), whole_words) for gold in golds))


def accuracy(predictions: Sequence[str], golds: Sequence[str]) -> float:
    """Return the share of predictions that equal their gold label after normalisation.

    RAS eq. 13 without its factor of 100.

    Raises ValueError if there are no predictions or the lengths differ.
    """
    if len(predictions) != len(golds):
        raise ValueError(f"{len(predictions)} predictions but {len(golds)} gold labels")
    if not predictions:
        raise ValueError("accuracy needs at least one prediction")
    pairs = zip(predictions, golds, strict=True)
    return sum(normalise_answer(p) == normalise_answer(g) for p, g in pairs) / len(golds)


def _require_golds(golds: Sequence[str]) -> None:
    if isinstance(golds, str):
        raise ValueError("gold answers must be a list of texts, not one text")
    if not golds:
        raise ValueError("a question needs at least one gold answer")


def _pair_f1(predicted: str, gold: str) -> float:
    if predicted == gold:
        return 1.0
    if predicted in _CLOSED_ANSWERS or gold in _CLOSED_ANSWERS:
        return 0.0
    predicted_tokens, gold_tokens = predicted.split(), gold.split()
    common = sum((Counter(predicted_tokens) & Counter(gold_tokens)).values())
    if common == 0:
        return 0.0
    precision = common / len(predicted_tokens)
    recall = common / len(gold_tokens)
    return 2 * precision * recall / (precision + recall)


def _contains(predicted: str, gold: str, whole_words: bool) -> bool:
    if not gold:
        return not predicted
    return f" {gold} " in f" {predicted} " if whole_words else gold in predicted
