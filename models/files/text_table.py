"""Features of every distinct text, computed once: on disk for training, in memory for serving."""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from common.files import atomic_directory
from models.files.sentence_encoder import FloatArray, SentenceEncoder

FEATURES_FILE = "features.npy"
TEXTS_FILE = "texts.jsonl"
FINGERPRINT_FILE = "fingerprint.txt"
CHUNK = 16384


class TextTable:
    """A folder of features, read through a memory map; row i belongs to text i."""

    def __init__(self, folder: str | Path) -> None:
        """Open what `build` wrote."""
        self.folder = Path(folder)
        self.features: FloatArray = np.load(
            self.folder / FEATURES_FILE, mmap_mode="r", allow_pickle=False
        )

    @classmethod
    def build(
        cls, folder: str | Path, texts: Iterable[str], encoder: SentenceEncoder
    ) -> "TextTable":
        """Embed each distinct text once, or open the folder where it holds just these already.

        Args:
            folder: written whole or not at all; replaced when the texts or the encoder changed.
            texts: in any order, repeats allowed.
            encoder: its weights are part of what must agree for a folder to be reused.
        """
        folder = Path(folder)
        distinct = list(dict.fromkeys(texts))
        fingerprint = _fingerprint(distinct, encoder)
        stored = folder / FINGERPRINT_FILE
        if not stored.is_file() or stored.read_text(encoding="utf-8") != fingerprint:
            with atomic_directory(folder) as temporary:
                _write_features(temporary / FEATURES_FILE, distinct, encoder)
                with (temporary / TEXTS_FILE).open("w", encoding="utf-8") as handle:
                    handle.writelines(json.dumps(text) + "\n" for text in distinct)
                (temporary / FINGERPRINT_FILE).write_text(fingerprint, encoding="utf-8")
        return cls(folder)

    @cached_property
    def _row_of(self) -> dict[str, int]:
        with (self.folder / TEXTS_FILE).open(encoding="utf-8") as handle:
            return {json.loads(line): row for row, line in enumerate(handle)}

    def __len__(self) -> int:
        return len(self.features)

    def rows(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the rows of texts in `features`, [n] int64.

        Raises:
            KeyError: for a text that the table was not built with.
        """
        try:
            return np.array([self._row_of[text] for text in texts], dtype=np.int64)
        except KeyError as error:
            raise KeyError(
                f"text {error} is not in the table {self.folder}; build it again with this text"
            ) from None


class TextFeatures:
    """Features on demand, the most recently used texts kept in memory."""

    def __init__(self, encoder: SentenceEncoder, max_texts: int = 100_000) -> None:
        """Keep at most `max_texts` vectors (384 floats each: 1.5 kB)."""
        self.encoder = encoder
        self.max_texts = max_texts
        self._known: OrderedDict[str, FloatArray] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def features(self, texts: Sequence[str]) -> FloatArray:
        """Return [n, d] float32, one row a text; unknown texts are embedded in one call."""
        if not texts:
            return np.zeros((0, self.encoder.dimension), dtype=np.float32)
        with self._lock:
            unknown = [text for text in dict.fromkeys(texts) if text not in self._known]
            for text, vector in zip(unknown, self.encoder.encode(unknown), strict=True):
                # A copy: a view would keep the whole call's array alive.
                self._known[text] = vector.copy()
            for text in texts:
                self._known.move_to_end(text)
            result = np.stack([self._known[text] for text in texts])
            while len(self._known) > self.max_texts:
                self._known.popitem(last=False)
        return result


def _write_features(path: Path, texts: Sequence[str], encoder: SentenceEncoder) -> None:
    """Embed in chunks straight into the file, so that memory holds one chunk."""
    shape = (len(texts), encoder.dimension)
    if not texts:
        np.save(path, np.zeros(shape, dtype=np.float32), allow_pickle=False)
        return
    table = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    for start in range(0, len(texts), CHUNK):
        table[start : start + CHUNK] = encoder.encode(texts[start : start + CHUNK])
    table.flush()


def _fingerprint(texts: Sequence[str], encoder: SentenceEncoder) -> str:
    digest = hashlib.sha256(encoder.fingerprint.encode())
    for text in texts:
        digest.update(json.dumps(text).encode() + b"\n")
    return digest.hexdigest()
