"""The passage that answers a sub-question, for decompositions that come without text."""

from collections.abc import Sequence
from functools import cached_property

from data_gen.context_search import PassageSearch
from data_gen.entity_text import mentions
from models.formats.records import PassageRecord

LOOKED_AT = 5


class PassageFinder:
    """Looks through corpora; the index is made when first needed."""

    def __init__(self, passages: Sequence[PassageRecord]) -> None:
        self.passages = passages

    @cached_property
    def _search(self) -> PassageSearch:
        return PassageSearch(self.passages)

    def find(self, subquery: str, answer: str) -> PassageRecord | None:
        """The best of the first few passages (BM25) whose title the sub-question names and whose
        text holds the answer; None where there is none."""
        if not self.passages or not answer.strip():
            return None
        [found] = self._search.search([subquery], LOOKED_AT)
        fitting = (
            p for p in found if p.title and mentions(subquery, p.title) and mentions(p.text, answer)
        )
        return next(fitting, None)
