"""Names looked up in the passages of a corpus, by hashes alone."""

from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from data_gen.audits.hashes import as_numpy, text_hash
from data_gen.entity_text import entity_key, plain_words


class NameSearch:
    """Looks names up by the hashes of their words, in one pass over a corpus of any size."""

    def __init__(self) -> None:
        self._steps = array("Q")
        self._hashes = array("Q")
        # By its first word a name is passed over quickly.
        self._starts: dict[int, set[int]] = {}

    def add(self, step: int, names: Iterable[str]) -> None:
        """A step's names, to be looked for."""
        for name in names:
            words = entity_key(name).split()
            if words:
                self._steps.append(step)
                self._hashes.append(text_hash(" ".join(words)))
                self._starts.setdefault(text_hash(words[0]), set()).add(len(words))

    def search(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """The steps that were searched for, and those of which a text holds a name."""
        wanted, held = set(self._hashes), set()
        for text in texts:
            held |= wanted.intersection(self._runs(plain_words(text).split()))
        steps, hashes = as_numpy(self._steps), as_numpy(self._hashes)
        return np.unique(steps), np.unique(steps[np.isin(hashes, list(held))])

    def _runs(self, words: Sequence[str]) -> Iterable[int]:
        """Hashes of the runs of words that may be names."""
        for start, word in enumerate(words):
            for length in self._starts.get(text_hash(word), ()):
                if start + length <= len(words):
                    yield text_hash(" ".join(words[start : start + length]))
