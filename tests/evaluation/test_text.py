"""ROUGE and MAUVE: known values, order of better and worse texts, bad input."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from evaluation.text import mauve_score, rouge_scores


def test_rouge_known_values() -> None:
    scores = rouge_scores(["the cat sat"], [["the cat lay down"]])
    assert scores["rouge1"] == pytest.approx(4 / 7)
    assert scores["rouge2"] == pytest.approx(2 / 5)
    assert scores["rougeL"] == pytest.approx(4 / 7)


def test_the_best_reference_counts_and_texts_are_averaged() -> None:
    scores = rouge_scores(["a b", "x"], [["c", "a b"], ["y"]])
    assert scores["rouge1"] == pytest.approx(0.5)


@pytest.mark.parametrize("references", [[], [[]], ["a text"]])
def test_rouge_refuses_bad_references(references: list[list[str]]) -> None:
    with pytest.raises(ValueError, match="reference"):
        rouge_scores(["a"], references)


def test_rouge_refuses_an_empty_corpus() -> None:
    with pytest.raises(ValueError, match="at least one prediction"):
        rouge_scores([], [])


def _letter_features(texts: Sequence[str]) -> np.ndarray:
    return np.array([[text.count(letter) for letter in "abcdefgh"] for text in texts], float)


def _texts(letters: str, seed: int, count: int = 120) -> list[str]:
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(letters), size=12)) for _ in range(count)]


@pytest.mark.slow
def test_mauve_tells_like_from_unlike() -> None:
    references = _texts("abcd", seed=0)
    like = mauve_score(_texts("abcd", seed=1), references, _letter_features)
    unlike = mauve_score(_texts("efgh", seed=2), references, _letter_features)
    assert 0.0 <= unlike < 0.1 < 0.7 < like <= 1.0


def test_mauve_refuses_bad_input(tmp_path: Path) -> None:
    texts = ["a", "b", "c"]
    with pytest.raises(ValueError, match="at least two texts"):
        mauve_score(["a"], texts, _letter_features)
    with pytest.raises(ValueError, match="one row a text"):
        mauve_score(texts, texts, lambda some: np.zeros((1, 4)))
    with pytest.raises(ValueError, match="not finite"):
        mauve_score(texts, texts, lambda some: np.full((len(some), 4), np.nan))
    with pytest.raises(FileNotFoundError, match=r"no config\.json"):
        mauve_score(texts, texts, tmp_path / "gpt2-large")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="'gpt2' or 'bert'"):
        mauve_score(texts, texts, tmp_path)
