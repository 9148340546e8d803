"""Test questions that no split may hold, as hashes of their ids, wordings and passages."""

from collections.abc import Iterable

import numpy as np

from data_gen.aligned_passages import supporting_texts
from data_gen.audits.hashes import Hashes, text_hash
from data_gen.held_out import HeldOutQuestions
from data_gen.wording import question_wording, wording
from models.formats.records import QuestionRecord

# A shorter opening is shared by passages that are not one: "List of films: This is a list of".
FEWEST_WORDS_OF_A_CUT = 12


class HeldOut:
    """What test questions forbid; `known` says whether there are any.

    questions: them, for what source questions share with them.
    """

    def __init__(self, questions: Iterable[QuestionRecord]) -> None:
        ids: set[int] = set()
        wordings: set[int] = set()
        passages: set[int] = set()
        self.questions = HeldOutQuestions()
        for record in questions:
            self.questions.add(record)
            ids.add(text_hash(record.id))
            wordings.add(text_hash(question_wording(record.question)))
            passages |= _openings(record)
        self.known = bool(ids)
        self.ids, self.wordings, self.passages = map(_sorted, (ids, wordings, passages))


def _openings(record: QuestionRecord) -> set[int]:
    """Hashes of each supporting passage's wording, whole and cut after any word.

    A builder may have cut the passage (`--max-words`); a cut of fewer than
    `FEWEST_WORDS_OF_A_CUT` words is not known again.
    """
    found: set[int] = set()
    for text in supporting_texts([record]):
        words = wording(text).split()
        ends = range(min(FEWEST_WORDS_OF_A_CUT, len(words)), len(words) + 1)
        found.update(text_hash(" ".join(words[:end])) for end in ends)
    return found


def _sorted(hashes: set[int]) -> Hashes:
    return np.array(sorted(hashes), dtype=np.uint64)
