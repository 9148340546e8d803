"""Sentence encoders for scripted worlds: one without a model, and one that embeds nothing twice."""

from __future__ import annotations

import numpy as np

from models.sentence_encoder import FloatArray, HashEncoder, SentenceEncoder, load_sentence_encoder

WIDE_HASH = "wide-hash"


class WideHashEncoder(HashEncoder):
    """`HashEncoder` with room for every feature; good enough to find what shares words."""

    name = WIDE_HASH
    dimension = 1024
    fingerprint = "1024-hash-1"


class RememberingEncoder(SentenceEncoder):
    """An encoder that keeps every text's vector: the same world is indexed and asked many times."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder
        self.name, self.dimension = encoder.name, encoder.dimension
        self._known: dict[str, FloatArray] = {}

    @property
    def fingerprint(self) -> str:
        """That of the encoder within: the vectors are the same."""
        return self.encoder.fingerprint

    def _embed(self, texts: list[str], batch_size: int) -> FloatArray:
        new = [text for text in texts if text not in self._known]
        self._known.update(zip(new, self.encoder.encode(new, batch_size), strict=True))
        return np.stack([self._known[text] for text in texts])


def open_encoder(name: str) -> RememberingEncoder:
    """The encoder of this name, `wide-hash` too."""
    return RememberingEncoder(
        WideHashEncoder() if name == WIDE_HASH else load_sentence_encoder(name)
    )
