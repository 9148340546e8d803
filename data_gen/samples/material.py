"""The material of samples: passages found by BM25, triples, draws, and counts of those left out."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from data_gen.facts.entities import mentions
from data_gen.facts.passage_triples import PassageTriples
from data_gen.facts.query_steps import NoQueryTripletsError, QueryStep, query_steps
from data_gen.sources.splits import hash_fraction
from inference.retrieval.bm25 import index_of, tokenize
from models.formats.prompts import passage_text
from models.formats.records import HelperTask, InstructionSample, PassageRecord, QuestionRecord

LOOKED_AT = 5


class PassageSearch:
    """An in-memory BM25 index over the titles and texts of passages."""

    def __init__(self, passages: Sequence[PassageRecord]) -> None:
        if not passages:
            raise ValueError("no passages to search: the corpus is empty")
        self.passages = list(passages)
        texts = [passage_text(passage.title, passage.text) for passage in self.passages]
        self._index = index_of(_tokens(texts))

    def search(self, queries: Sequence[str], top_k: int) -> list[list[PassageRecord]]:
        """Return each query's `top_k` best passages, best first; all share a word with it."""
        if not queries:
            return []
        count = min(top_k, len(self.passages))
        found, scores = self._index.retrieve(_tokens(queries), k=count, show_progress=False)
        return [
            [self.passages[int(i)] for i, score in zip(row, row_scores, strict=True) if score > 0]
            for row, row_scores in zip(found, scores, strict=True)
        ]

    def ranked(self, query: str) -> list[PassageRecord]:
        """Return all passages, those found for the query first."""
        [found] = self.search([query], len(self.passages))
        return [*found, *(passage for passage in self.passages if passage not in found)]


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
        """Return the best of the first passages whose title is asked and text holds the answer."""
        if not self.passages or not answer.strip():
            return None
        [found] = self._search.search([subquery], LOOKED_AT)
        fitting = (
            p for p in found if p.title and mentions(subquery, p.title) and mentions(p.text, answer)
        )
        return next(fitting, None)

    def silent(self, query: str, answers: Sequence[str], count: int) -> list[PassageRecord]:
        """Return the first `count` passages found for the query that hold none of the answers."""
        if not self.passages or not count:
            return []
        [found] = self._search.search([query], count + LOOKED_AT)
        texts = [(p, passage_text(p.title, p.text)) for p in found]
        return [p for p, text in texts if not any(mentions(text, a) for a in answers)][:count]


@dataclass(frozen=True)
class SampleOptions:
    """Settings of prompts.

    passages: of a resolver's prompt. nothing_rate: share of a resolver's samples whose context does
    not tell. propositions_rate: share of them that show facts in place of passages. distractors:
    most facts that a gap judge is shown beside each one that the question needs. negatives:
    passages of the corpus beside each step's own that a reader is shown and that do not tell.
    """

    passages: int = 3
    nothing_rate: float = 0.3
    propositions_rate: float = 0.3
    distractors: int = 2
    negatives: int = 0
    seed: int = 0


@dataclass
class Material:
    """The passages and triples that the questions of a source are solved with.

    by_title: a corpus's passages. finder: finds passages of sub-questions that come without one.
    triples: of passages. counts: of what was left out, by reason.
    """

    by_title: Mapping[str, PassageRecord]
    finder: PassageFinder
    triples: PassageTriples
    options: SampleOptions
    counts: Counter[str] = field(default_factory=Counter)

    def steps(self, record: QuestionRecord) -> list[QueryStep]:
        """Return the question's steps; none, counted, if its annotation gives no triplets."""
        try:
            return query_steps(record, self.by_title)
        except NoQueryTripletsError as error:
            self.counts[f"left out: {error}"] += 1
            return []

    def chance(self, key: str, rate: float) -> bool:
        """Return a draw that falls the same in every run."""
        return hash_fraction(key, self.options.seed) < rate


SampleMaker = Callable[[QuestionRecord, Material], Iterator[InstructionSample]]


def sample_id(source_id: str, task: HelperTask, number: int) -> str:
    """Return the id of a source's sample, see `InstructionSample.source_id`."""
    return f"{source_id}/{task}/{number}"
