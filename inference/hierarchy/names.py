"""Entities that a question names: a sentence about one of them is where its chain begins."""

import re
from collections.abc import Sequence

_WORD = re.compile(r"\w+")
_BRACKETS = re.compile(r"\s*\([^()]*\)\s*$")


class NameFinder:
    """Finds names in a text, word by word, whatever the case and punctuation of the graph's."""

    def __init__(self, names: Sequence[str]) -> None:
        """names: of entities by number; what stands in brackets at an end does not count."""
        self._numbers: dict[tuple[str, ...], list[int]] = {}
        for number, name in enumerate(names):
            words = tuple(_WORD.findall(_BRACKETS.sub("", name).casefold()))
            if words:
                self._numbers.setdefault(words, []).append(number)
        self._longest = max(map(len, self._numbers), default=0)

    def find(self, text: str) -> tuple[int, ...]:
        """Numbers of the entities that the text names as proper names, the longest at each place.

        A proper name has a capital letter; that of the text's first word alone does not tell.
        """
        words = _WORD.findall(text)
        folded = [word.casefold() for word in words]
        found: dict[int, None] = {}
        place = 0
        while place < len(words):
            length = self._length_at(words, folded, place)
            numbers = self._numbers.get(tuple(folded[place : place + length]), [])
            found.update(dict.fromkeys(numbers))
            place += max(length, 1)
        return tuple(found)

    def _length_at(self, words: Sequence[str], folded: Sequence[str], place: int) -> int:
        """Words of the longest name that begins here; 0 for none."""
        for length in range(min(self._longest, len(words) - place), 0, -1):
            is_proper = any(word[0].isupper() for word in words[place : place + length])
            is_first_word = place == 0 and length == 1
            is_name = tuple(folded[place : place + length]) in self._numbers
            if is_name and is_proper and not is_first_word:
                return length
        return 0
