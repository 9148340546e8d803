"""Test questions and what of theirs no training data may hold, by id, wording, hop and evidence."""

import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from data_gen.sources.open_source import read_questions
from data_gen.sources.splits import hash_fraction
from data_gen.streaming.groups import text_value
from models.facts.subqueries import fill_hops
from models.formats.prompts import TASK_INSTRUCTIONS
from models.formats.records import QuestionRecord

# Words that a question keeps its meaning without, beside the others and its answer.
_FUNCTION_WORD = re.compile(
    r"an?|and|are|as|at|be|been|by|did|do|does|for|from|had|has|have|how|in|is|its?|of|on|or|s"
    r"|that|the|then|there|this|to|was|were|what|when|where|which|who|whom|whose|why|with"
)
_NOT_WORD = re.compile(r"[\W_]+")
# "2hop__123_456", "3hop1__1_2_3": the numbers are those of the single questions it is made of.
_MUSIQUE_ID = re.compile(r"(?:^|/)\d+hop\d*__(\d+(?:_\d+)*)$")
Numbers = NDArray[np.int64]


def wording(text: str) -> str:
    """Return the words of a text, in compatible forms and lower case, joined by single spaces.

    Punctuation, letter case and spacing do not tell two texts apart. A text without any word is
    its own wording.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_NOT_WORD.sub(" ", folded).split()) or " ".join(folded.split())


_INSTRUCTIONS = tuple(f"{wording(text)} " for text in set(TASK_INSTRUCTIONS.values()))


def question_wording(question: str) -> str:
    """Return the wording of a question without a task instruction of RAS Table 5 before it."""
    words = wording(question)
    found = next((start for start in _INSTRUCTIONS if words.startswith(start)), "")
    return words.removeprefix(found)


def content_words(words: str) -> list[str]:
    """Return the distinct words of a wording that are no function words, sorted."""
    return sorted(word for word in {*words.split()} if not _FUNCTION_WORD.fullmatch(word))


class Leak(StrEnum):
    """The reason why a question is left out; reasons are looked for in this order."""

    ID = "a test question"
    WORDING = "same wording as a test question"
    HOP = "shares a hop with a test question"
    TRIPLE = "shares an evidence triple with a test question"
    PARAPHRASE = "a test question in other words"


def leak_keys(record: QuestionRecord) -> Iterator[tuple[Leak, str]]:
    """Yield what two questions may not share, and how they are then called.

    A hop is known by the number that MuSiQue's id has of it, and by its words, with earlier answers
    filled in, and its answer. Those of a whole question are a hop too, and an evidence triple is
    the hop "subject predicate" with its object as the answer, so that one set's hop is known as
    another's triple. In other words is a question with the same answers at each of its steps, or
    with the same content words in any order and the same answer.
    """
    yield Leak.ID, f"id/{record.id}"
    asked, answer = question_wording(record.question), wording(record.answer)
    yield Leak.WORDING, f"words/{asked}"
    yield from component_keys(record.id)
    answers = [step.answer for step in record.question_decomposition]
    for step in record.question_decomposition:
        if step.answer.strip():
            yield Leak.HOP, _fact(wording(fill_hops(step.question, answers)), step.answer)
    if answer:
        yield Leak.HOP, _fact(asked, record.answer)
    for triple in record.evidences:
        yield Leak.TRIPLE, _fact(wording(f"{triple.subject} {triple.predicate}"), triple.object)
    if len(answers) > 1 and all(found := [wording(step) for step in answers]):
        yield Leak.PARAPHRASE, f"answers/{'/'.join(found)}"
    if answer:
        yield Leak.PARAPHRASE, f"content/{' '.join(content_words(asked))}/{answer}"


def component_keys(question_id: str) -> Iterator[tuple[Leak, str]]:
    """Yield those of `leak_keys` that a MuSiQue id tells by itself."""
    for number in component_ids(question_id):
        yield Leak.HOP, f"component/{number}"


def component_ids(question_id: str) -> list[str]:
    """Return the numbers of the single questions that a MuSiQue id names; none for another id."""
    match = _MUSIQUE_ID.search(question_id)
    return match[1].split("_") if match else []


def _fact(asked: str, answer: str) -> str:
    return f"fact/{asked}/{wording(answer)}"


class HeldOutQuestions:
    """The keys that some test questions forbid, held in memory; falsy without any question."""

    def __init__(self, questions: Iterable[QuestionRecord] = ()) -> None:
        self._keys: set[str] = set()
        for record in questions:
            self.add(record)

    @classmethod
    def of_files(cls, paths: Iterable[str | Path]) -> Self:
        """Of files in our contract.

        Raises FileNotFoundError, and RecordError for a question that cannot be read: what it
        forbids is not known.
        """
        return cls(record for path in paths for record in read_questions("contract", path))

    def add(self, record: QuestionRecord) -> None:
        """Take in one more."""
        self._keys.update(key for _, key in leak_keys(record))

    def __bool__(self) -> bool:
        return bool(self._keys)

    def reason(self, record: QuestionRecord) -> Leak | None:
        """Return first reason for which the question is left out; None for one that may stay."""
        return self.first(leak_keys(record))

    def first(self, keys: Iterable[tuple[Leak, str]]) -> Leak | None:
        """Return the first of `leak_keys` that a test question has too."""
        return next((leak for leak, key in keys if key in self._keys), None)


@dataclass(frozen=True)
class Groups:
    """The group of each question, sizes, and a key of each that no order of questions changes."""

    of: Numbers
    sizes: Numbers
    keys: list[int]


class QuestionGroups:
    """Takes in questions one by one and tells the groups that are connected by what they share."""

    def __init__(self) -> None:
        self._owners, self._keys = array("q"), array("Q")
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, record: QuestionRecord) -> None:
        """Take in the next question."""
        for key in {key for _, key in leak_keys(record)}:
            self._owners.append(self._count)
            self._keys.append(text_value(key))
        self._count += 1

    def groups(self) -> Groups:
        """Return the connected groups by the smallest hash of what their questions have."""
        owners = np.array(self._owners, dtype=np.int64)
        hashes = np.array(self._keys, dtype=np.uint64)
        distinct, things = np.unique(hashes, return_inverse=True)
        size = self._count + len(distinct)
        edges = (np.ones(len(owners), dtype=np.int8), (owners, self._count + things))
        _, labels = connected_components(coo_array(edges, shape=(size, size)), directed=False)
        _, of = np.unique(labels[: self._count], return_inverse=True)
        keys = np.full(int(of.max(initial=-1)) + 1, np.iinfo(np.uint64).max, dtype=np.uint64)
        np.minimum.at(keys, of[owners], hashes)
        return Groups(of.astype(np.int64), np.bincount(of, minlength=len(keys)), keys.tolist())


def choose_dev(groups: Groups, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Return which questions are for development: whole groups, up to the share asked for.

    The groups come in an order by a hash of their keys and the seed. One that is too large for
    what is left is passed over, so that at most a share of `fraction` is chosen.
    """
    wanted = round(fraction * len(groups.of))
    places = [hash_fraction(f"group/{key}", seed) for key in groups.keys]
    order = sorted(range(len(places)), key=places.__getitem__)
    chosen = np.zeros(len(groups.keys), dtype=np.bool_)
    for group in order:
        if groups.sizes[group] <= wanted:
            chosen[group] = True
            wanted -= int(groups.sizes[group])
    return chosen[groups.of] if len(groups.of) else np.zeros(0, dtype=np.bool_)
