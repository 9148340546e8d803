"""Questions that their passage no longer answers, since a name or a number in them is another's.

Of the unanswerable questions that people wrote for SQuAD 2.0 such exchanges are among the most
frequent kinds (Rajpurkar et al. 2018, Table 1), and a reader that has seen too few of them answers.
"""

import random
import re
from collections import defaultdict
from collections.abc import Sequence

from data_gen.facts.entities import mentions
from models.facts.grounding import split_sentences
from models.formats.reading import ReadingRecord

# A name within a sentence, so that the capital letter says that it is one.
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w-]*(?: [A-Z][\w-]*)*")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?!\w)")
_PARTS = (_NAME, _NUMBER)
# Share of exchanges with a part of the passage, where another question has one to give too.
_NEAR = 0.5


class AlteredQuestions:
    """Exchanges parts of questions for those of other questions on one page, or of the passage."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._of_page: dict[tuple[str, re.Pattern[str]], dict[str, None]] = defaultdict(dict)

    def add(self, page: str, question: str) -> None:
        """Let other questions on the page have this one's names and numbers."""
        for part in _PARTS:
            self._of_page[page, part].update(dict.fromkeys(part.findall(question)))

    def altered(self, page: str, record: ReadingRecord) -> str | None:
        """Return the record's question with one part exchanged; None where none can be.

        The part is one that the passage mentions and the answer does not. What takes its place
        stands in another sentence of the passage than the answer, or nowhere in the passage.
        """
        draw = random.Random(f"{self.seed}/altered/{record.id}")
        found = [
            (kind, part)
            for kind in _PARTS
            for part in kind.findall(record.question)
            if mentions(record.passage, part) and not _overlaps(part, record.answers)
        ]
        draw.shuffle(found)
        for kind, part in found:
            near = self._near(kind, record)
            far = [other for other in self._of_page[page, kind] if not _is_known(other, record)]
            choices = [
                alike
                for others in (near, far)
                if (alike := [other for other in others if kind is _NAME or _alike(other, part)])
            ]
            if choices:
                chosen = choices[0] if draw.random() < _NEAR else choices[-1]
                return record.question.replace(part, draw.choice(chosen), 1)
        return None

    @staticmethod
    def _near(kind: re.Pattern[str], record: ReadingRecord) -> list[str]:
        """Return parts of the passage's sentences that hold no answer and are not asked about."""
        telling: list[str] = []
        silent: list[str] = []
        for sentence in split_sentences(record.passage):
            tells = any(mentions(sentence, answer) for answer in record.answers)
            (telling if tells else silent).append(sentence)
        return [
            part
            for part in dict.fromkeys(part for s in silent for part in kind.findall(s))
            if not _overlaps(part, [record.question, record.title, *telling, *record.answers])
        ]


def _alike(number: str, other: str) -> bool:
    """Return whether two numbers have one form, so that a year stands in the place of a year."""
    return re.sub(r"\d", "0", number) == re.sub(r"\d", "0", other) and number != other


def _overlaps(part: str, texts: Sequence[str]) -> bool:
    """Return whether a part and one of the texts hold each other."""
    return any(mentions(text, part) or mentions(part, text) for text in texts if text)


def _is_known(part: str, record: ReadingRecord) -> bool:
    """Return whether a record's question, title or answers hold a part, or its passage a word."""
    return _overlaps(part, [record.question, record.title, *record.answers]) or any(
        mentions(record.passage, word) for word in part.split()
    )
