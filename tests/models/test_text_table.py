"""Sentence encoders and the two ways in which their features are kept."""

from pathlib import Path

import numpy as np
import pytest

from models.files.sentence_encoder import (
    EncoderNotFoundError,
    FloatArray,
    HashEncoder,
    SentenceEncoder,
    load_sentence_encoder,
)
from models.files.text_table import TextFeatures, TextTable

TEXTS = ["Paris", "capital of", "", "Paris", "naïve \u2028 café", "a longer text\nin two lines"]


class CountingEncoder(HashEncoder):
    def __init__(self, version: str = "1") -> None:
        self.seen: list[str] = []
        self.version = version

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        return f"counting-{self.version}"

    def _embed(self, texts: list[str], batch_size: int) -> FloatArray:
        self.seen.extend(texts)
        return super()._embed(texts, batch_size)


def check_encoder(encoder: SentenceEncoder) -> None:
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), encoder.dimension) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(vectors[0], vectors[3])
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(vectors, alone, atol=1e-5)
    assert encoder.encode([]).shape == (0, encoder.dimension)


def test_hash_encoder() -> None:
    check_encoder(load_sentence_encoder("hash"))
    vectors = HashEncoder().encode(["United States", "United Nations", "bread"])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


@pytest.mark.slow
def test_packaged_minilm_works_offline_and_silently(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    encoder = load_sentence_encoder()
    assert encoder.dimension == 384
    check_encoder(encoder)
    assert encoder.fingerprint == load_sentence_encoder("minilm").fingerprint
    vectors = encoder.encode(["The cat sleeps.", "A kitten is napping.", "Interest rates rose."])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.3
    assert capfd.readouterr().out == ""


def test_a_missing_folder_is_told() -> None:
    with pytest.raises(EncoderNotFoundError, match="no such folder"):
        load_sentence_encoder("./absent")


def test_table_holds_each_distinct_text_once(tmp_path: Path) -> None:
    encoder = CountingEncoder()
    table = TextTable.build(tmp_path / "table", TEXTS, encoder)
    assert len(table) == 5 and isinstance(table.features, np.memmap)
    assert sorted(encoder.seen) == sorted(set(TEXTS))
    rows = table.rows(TEXTS)
    assert rows.dtype == np.int64 and rows[0] == rows[3]
    np.testing.assert_allclose(table.features[rows], HashEncoder().encode(TEXTS), atol=1e-6)
    with pytest.raises(KeyError, match="unknown text"):
        table.rows(["unknown text"])


def test_table_is_reused_until_texts_or_encoder_change(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    TextTable.build(folder, TEXTS, CountingEncoder())
    again = CountingEncoder()
    TextTable.build(folder, TEXTS, again)
    assert again.seen == []
    other_weights = CountingEncoder("2")
    TextTable.build(folder, TEXTS, other_weights)
    assert len(other_weights.seen) == 5
    more = CountingEncoder("2")
    assert len(TextTable.build(folder, [*TEXTS, "new"], more)) == 6
    assert len(more.seen) == 6


def test_table_without_texts(tmp_path: Path) -> None:
    table = TextTable.build(tmp_path / "table", [], HashEncoder())
    assert table.features.shape == (0, 32) and table.rows([]).shape == (0,)


def test_features_in_memory_are_bounded_and_embed_once() -> None:
    encoder = CountingEncoder()
    features = TextFeatures(encoder, max_texts=3)
    np.testing.assert_allclose(
        features.features(["a", "b", "a"]), HashEncoder().encode(["a", "b", "a"]), atol=1e-6
    )
    features.features(["a", "c"])
    assert sorted(encoder.seen) == ["a", "b", "c"]
    features.features(["d"])
    assert len(features) == 3
    features.features(["a", "c", "d"])
    assert encoder.seen.count("a") == 1
    assert features.features(["1", "2", "3", "4", "5"]).shape == (5, 32)
    assert len(features) == 3
    assert features.features([]).shape == (0, 32)
