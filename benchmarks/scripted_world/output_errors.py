"""What goes wrong with a model's output: something else than asked for, or nothing that parses."""

import random
import re
from collections.abc import Sequence

_OPPOSITES = {
    "[SUFFICIENT]": "[NO_RETRIEVAL]",
    "[NO_RETRIEVAL]": "[SUFFICIENT]",
    "enough": "? | ? | ?",
    "yes": "no",
    "no": "yes",
}


class Spoiler:
    """Makes a good output wrong (well formed, with another name in it) or malformed."""

    def __init__(self, names: Sequence[str]) -> None:
        """names: what a wrong output says in place of the right name."""
        self.names = sorted(set(names))
        longest_first = sorted(self.names, key=len, reverse=True)
        self._name = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")

    def wrong(self, text: str, draw: random.Random) -> str:
        """The text with one name, or its one word, replaced by another."""
        if text in _OPPOSITES:
            return _OPPOSITES[text]
        places = list(self._name.finditer(text))
        other = draw.choice(self.names)
        if not places:
            return other
        place = draw.choice(places)
        return text[: place.start()] + other + text[place.end() :]

    def malformed(self, text: str, draw: random.Random) -> str:
        """What a model that lost its way writes in place of the text."""
        forms = (
            "",
            text[: len(text) // 2],
            "I'm sorry, but the information given does not allow me to say.",
            text.replace("|", ",").replace("[", "").replace(":", " -"),
            f"{text} | " * 40,
            "\x00)( | S> ?? | (S> (S> || [SUBQ",
            "我不知道。 Не знаю | нет",
            '```json\n{"answer": null, "triples": [["a", "b"]]}\n```',
        )
        return draw.choice(forms)

    def spoil(self, text: str, draw: random.Random) -> str:
        """Wrong or malformed, with even chances."""
        return (self.wrong if draw.random() < 0.5 else self.malformed)(text, draw)
