"""Where a text states a fact: its sentences, and which of them names most of the fact."""

import re
from collections.abc import Sequence
from itertools import pairwise

from models.formats.planning import folded, one_line
from models.formats.triples import Triple

# Not behind an initial ("D. Goel") or a title; behind it begins a word without a small letter.
_SENTENCE_END = re.compile(
    r"(?:(?<!\b[A-Z])(?<!\b(?:Jr|Sr|St|Dr|Mr|vs|No))(?<!\bMrs)\.|[!?])[\"”')\]]*\s+"
    r"(?=[\"“'(\[]*[^\W_a-zà-öø-ÿ])"
    r"|(?<=[。！？])"
)
_WORD = re.compile(r"\w+")
# Share of a sentence's words that a copy of it keeps at least.
COPIED = 0.6


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text on one line each, nothing left out."""
    line = one_line(text)
    borders = [0, *sentence_ends(line)]
    parts = (line[start:end].strip() for start, end in pairwise(borders))
    return [part for part in parts if part]


def sentence_ends(text: str) -> list[int]:
    """Return the position behind each sentence of a text and the white space after it."""
    return [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]


class Grounding:
    """The sentences of one text, and the title of its document."""

    def __init__(self, title: str, sentences: Sequence[str]) -> None:
        self.title = _plain(title)
        self.sentences = list(sentences)
        self._plain = [_plain(sentence) for sentence in self.sentences]

    def sentence_of(self, fact: Triple, named: str = "", asked: str = "") -> str | None:
        """Return the text's sentence that states a fact.

        named: as a model copied it; where the text holds no such sentence, the one that names
        most of the fact counts. asked: the question that the fact answers; the end that it names
        counts less than the one that it asks for. None for a fact about things that neither text
        nor title names.
        """
        if not self.sentences:
            return None
        place = self._copied(named) if named else None
        if place is None:
            place = self._stating(fact, _plain(asked))
        return None if place is None else self.sentences[place]

    def _copied(self, named: str) -> int | None:
        wanted = _plain(named)
        for place, sentence in enumerate(self._plain):
            if wanted and (wanted in sentence or sentence in wanted):
                return place
        shares = [_share(wanted, sentence) for sentence in self._plain]
        best = max(range(len(shares)), key=shares.__getitem__)
        return best if shares[best] >= COPIED else None

    def _stating(self, fact: Triple, asked: str) -> int | None:
        names = [_plain(fact.subject), _plain(fact.object)]
        known = [name for name in names if name in asked]
        # A sentence rarely repeats the title that it is about, or what was asked about.
        rare = {self.title, *(known if len(known) == 1 else [])}
        weights = [0.25 if name in rare else 1.0 for name in names]
        scores = [
            sum(w * _share(name, sentence) for name, w in zip(names, weights, strict=True))
            + 0.5 * _share(_plain(fact.predicate), sentence)
            for sentence in self._plain
        ]
        texts = [self.title, *self._plain]
        if not any(_share(name, text) >= COPIED for name in names for text in texts):
            return None
        return max(range(len(scores)), key=scores.__getitem__)


def _share(name: str, text: str) -> float:
    """Share of a name's words that a text holds; 1 where it stands there as it is."""
    if name and name in text:
        return 1.0
    words, there = set(_WORD.findall(name)), set(_WORD.findall(text))
    return len(words & there) / len(words) if words else 0.0


def _plain(text: str) -> str:
    return folded(text).rstrip(".")
