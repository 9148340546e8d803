"""BM25 over a corpus or a record's own paragraphs, to simulate retrieval and to find passages."""

from collections.abc import Sequence
from functools import cached_property

import bm25s

from data_gen.facts.entities import mentions
from inference.retrieval.bm25 import tokenize
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord

LOOKED_AT = 5


class PassageSearch:
    """An in-memory BM25 index over the titles and texts of passages."""

    def __init__(self, passages: Sequence[PassageRecord]) -> None:
        if not passages:
            raise ValueError("no passages to search: the corpus is empty")
        self.passages = list(passages)
        texts = [passage_text(passage.title, passage.text) for passage in self.passages]
        self._index = bm25s.BM25()
        self._index.index(_tokens(texts), show_progress=False)

    def search(self, queries: Sequence[str], top_k: int) -> list[list[PassageRecord]]:
        """Return the `top_k` best passages of each query, best first; those without a shared word
        drop.
        """
        if not queries:
            return []
        count = min(top_k, len(self.passages))
        found, scores = self._index.retrieve(_tokens(queries), k=count, show_progress=False)
        return [
            [self.passages[int(i)] for i, score in zip(row, row_scores, strict=True) if score > 0]
            for row, row_scores in zip(found, scores, strict=True)
        ]


def _tokens(texts: Sequence[str]) -> list[list[str]]:
    return [words or ["<none>"] for words in tokenize(texts, stemmed=False)]


class PassageFinder:
    """Looks through corpora; the index is made when first needed."""

    def __init__(self, passages: Sequence[PassageRecord]) -> None:
        self.passages = passages

    @cached_property
    def _search(self) -> PassageSearch:
        return PassageSearch(self.passages)

    def find(self, subquery: str, answer: str) -> PassageRecord | None:
        """Return the best of the first few passages (BM25) whose title the sub-question names and
        whose text holds the answer; None where there is none.
        """
        if not self.passages or not answer.strip():
            return None
        [found] = self._search.search([subquery], LOOKED_AT)
        fitting = (
            p for p in found if p.title and mentions(subquery, p.title) and mentions(p.text, answer)
        )
        return next(fitting, None)
