"""Scores of generated text against reference text: ROUGE and MAUVE (RAS appendix E.2)."""

import importlib.util
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from common.errors import UserError

logger = logging.getLogger(__name__)

Featurizer = Callable[[Sequence[str]], np.ndarray]
ROUGE_NAMES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
# Below this many texts MAUVE's clusters are too small for the score to be stable.
_FEW_TEXTS = 100


class MauveError(UserError, ValueError):
    """MAUVE cannot be measured; the message says what is missing."""


def rouge_scores(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
) -> dict[str, float]:
    """Return mean ROUGE F1 by name, each prediction scored by its best reference (Lin, 2004).

    ``rougeLsum`` takes line breaks for sentence ends.

    Raises ValueError if there are no predictions, the lengths differ, or one has no reference.
    """
    from rouge_score import rouge_scorer

    _check_pairs(predictions, references)
    scorer = rouge_scorer.RougeScorer(list(ROUGE_NAMES))
    scores = [
        scorer.score_multi(list(golds), prediction)
        for prediction, golds in zip(predictions, references, strict=True)
    ]
    return {
        name: sum(score[name].fmeasure for score in scores) / len(scores) for name in ROUGE_NAMES
    }


def mauve_score(
    predictions: Sequence[str],
    references: Sequence[str],
    featurizer: Featurizer | str | Path,
) -> float:
    """Return MAUVE between two collections of texts, from 0 to 1 (Pillutla et al., 2021).

    ``featurizer`` is a function from texts to features [number of texts, d], or a folder with a
    GPT-2 or BERT model (the published scores use gpt2-large), run on the CPU. Scores
    from different featurizers cannot be compared.

    Raises MauveError for fewer than two texts on a side or bad features, and as `check_mauve`.
    """
    if min(len(predictions), len(references)) < 2:
        raise MauveError("MAUVE compares two collections of at least two texts each")
    if min(len(predictions), len(references)) < _FEW_TEXTS:
        logger.warning("MAUVE over fewer than %d texts is not stable", _FEW_TEXTS)
    if callable(featurizer):
        sides = {
            "p_features": _features(featurizer, predictions),
            "q_features": _features(featurizer, references),
        }
        return _compute_mauve(**sides)
    return _compute_mauve(
        p_text=list(predictions),
        q_text=list(references),
        featurize_model_name=check_mauve(featurizer),
    )


def _compute_mauve(**options: object) -> float:
    import mauve

    return float(mauve.compute_mauve(**options).mauve)


def _features(featurizer: Featurizer, texts: Sequence[str]) -> np.ndarray:
    features = np.asarray(featurizer(texts))
    if features.ndim != 2 or len(features) != len(texts):
        raise MauveError(
            f"the featurizer gave an array of shape {features.shape} for {len(texts)} texts; "
            "it must give one row a text"
        )
    if not np.isfinite(features).all():
        raise MauveError("the featurizer gave numbers that are not finite")
    return features


def check_mauve(folder: str | Path) -> str:
    """Return a folder with a GPT-2 or BERT model as mauve-text takes it.

    Raises FileNotFoundError for one without a model; MauveError for another kind of model, or
    without the package.
    """
    if importlib.util.find_spec("mauve") is None:
        raise MauveError("MAUVE needs a package: pip install mauve-text")
    path = Path(folder)
    if not (path / "config.json").is_file():
        raise FileNotFoundError(
            f"{path} holds no model (no config.json); give the folder of a downloaded "
            "GPT-2 model, or a function that turns texts into features"
        )
    # mauve-text knows the kind of model by its name alone.
    if not any(kind in str(path) for kind in ("gpt2", "bert")):
        raise MauveError(f"mauve-text takes folders with 'gpt2' or 'bert' in the name, not {path}")
    return str(path)


def _check_pairs(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions but references for {len(references)}")
    if not predictions:
        raise ValueError("ROUGE needs at least one prediction")
    for index, golds in enumerate(references):
        if isinstance(golds, str) or not golds:
            raise ValueError(f"prediction {index} needs a list of at least one reference text")
