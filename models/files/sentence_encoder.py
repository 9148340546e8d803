"""Sentence embeddings of nodes, predicates, passages and queries (RAS eq. 5, App. D.2)."""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from models.files.backbone import MINILM, BackboneNotFoundError, packaged_minilm, quiet_progress

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

FloatArray = npt.NDArray[np.float32]

MINILM_DIMENSION = 384
HASH = "hash"
HASH_DIMENSION = 32


class EncoderNotFoundError(BackboneNotFoundError):
    """A sentence encoder cannot be found; the message holds the remedy."""


class SentenceEncoder(ABC):
    """Texts to unit vectors.

    Attributes:
        name: what `load_sentence_encoder` was given.
        dimension: length of a vector.
    """

    name: str
    dimension: int

    def encode(self, texts: Sequence[str], batch_size: int = 64) -> FloatArray:
        """Embed texts, each distinct one once, those of like length together.

        Returns:
            [n, d] float32 in the order given, each row of length 1.
        """
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        distinct = sorted(dict.fromkeys(texts), key=len)
        vectors = np.asarray(self._embed(distinct, batch_size), dtype=np.float32)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        row_of = {text: row for row, text in enumerate(distinct)}
        return vectors[[row_of[text] for text in texts]]

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Identity of the vectors, for what is saved beside them: dimension and weights' hash."""

    @abstractmethod
    def _embed(self, texts: list[str], batch_size: int) -> FloatArray:
        """Embed distinct texts that are sorted by length."""


class TransformerEncoder(SentenceEncoder):
    """A sentence-transformers model, in float32 and eval mode."""

    def __init__(self, name: str, source: str, device: str | None = None) -> None:
        """Load from a folder or a Hugging Face id; `device` None picks an accelerator if any."""
        # Imported here, for the same reason as the model's library.
        from models.kernels.cpu_linear import pack_linears

        self._model = load_transformer(source, device).eval().requires_grad_(False)
        pack_linears(self._model)
        self.name = name
        dimension = self._model.get_embedding_dimension()
        if dimension is None:
            raise EncoderNotFoundError(f"'{source}' does not say how long its embeddings are.")
        self.dimension = dimension

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(str(self._model.max_seq_length).encode())
        for key, tensor in sorted(self._model.state_dict().items()):
            digest.update(key.encode())
            digest.update(tensor.detach().to_dense().float().cpu().contiguous().numpy().tobytes())
        return f"{self.dimension}-{digest.hexdigest()[:16]}"

    def _embed(self, texts: list[str], batch_size: int) -> FloatArray:
        vectors = self._model.encode(
            texts, batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True
        )
        return np.asarray(vectors, dtype=np.float32)


class HashEncoder(SentenceEncoder):
    """Words and letter trigrams hashed into 32 numbers: no model, for tests and dry runs."""

    name = HASH
    dimension = HASH_DIMENSION
    fingerprint = f"{HASH_DIMENSION}-hash-1"

    def _embed(self, texts: list[str], batch_size: int) -> FloatArray:
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> FloatArray:
        words = re.findall(r"\w+", text.lower())
        features = words + [f"#{word}#"[i : i + 3] for word in words for i in range(len(word))]
        vector = np.zeros(self.dimension, dtype=np.float32)
        for feature in features or [text]:
            value = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=4).digest())
            vector[value % self.dimension] += 1.0 if value >> 16 & 1 else -1.0
        # Features may cancel out; the constant keeps every vector off zero.
        vector[0] += 0.5
        return vector


def load_sentence_encoder(name: str = MINILM, device: str | None = None) -> SentenceEncoder:
    """Load an encoder: `minilm` (all-MiniLM-L6-v2 as packaged, 384 numbers), `hash`, a folder or
    a Hugging Face id that sentence-transformers reads.

    Raises:
        EncoderNotFoundError: for `minilm` when its package is not installed, and for what is
            plainly meant as a folder and does not exist.
    """
    if name == HASH:
        return HashEncoder()
    return TransformerEncoder(name, name, device)


def load_transformer(name: str, device: str | None = None) -> "SentenceTransformer":
    """Load the sentence-transformers model itself, as a training needs it.

    Raises:
        EncoderNotFoundError: as `load_sentence_encoder` does, and for a folder that is none.
    """
    # Imported here: it takes seconds that BM25 and the hash encoder need not wait.
    from sentence_transformers import SentenceTransformer

    source = _packaged_minilm() if name == MINILM else _source(name)
    try:
        with quiet_progress():
            return SentenceTransformer(source, device=device)
    except (OSError, ValueError) as error:
        if not Path(source).is_dir():
            raise
        raise EncoderNotFoundError(
            f"sentence encoder '{name}': the folder holds no model that sentence-transformers "
            f"reads ({' '.join(str(error).split())[:200]}). Give one that was written by "
            f"training/train_retriever.py or by SentenceTransformer.save, or '{MINILM}'."
        ) from error


def _source(name: str) -> str:
    folder = Path(name).expanduser()
    if name.startswith(("/", "./", "../", "~")) and not folder.is_dir():
        raise EncoderNotFoundError(
            f"sentence encoder '{name}': no such folder. Give a folder, a Hugging Face id, or "
            f"'{MINILM}'."
        )
    return str(folder) if name.startswith("~") else name


def _packaged_minilm() -> str:
    try:
        return str(packaged_minilm())
    except BackboneNotFoundError as error:
        raise EncoderNotFoundError(str(error)) from error
