"""The material of the helpers' samples: passages, triples, draws, and counts of those left out."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from data_gen.facts.passage_search import PassageFinder
from data_gen.facts.passage_triples import PassageTriples
from data_gen.facts.query_steps import NoQueryTripletsError, QueryStep, query_steps
from data_gen.sources.splits import hash_fraction
from models.formats.records import HelperTask, InstructionSample, PassageRecord, QuestionRecord


@dataclass(frozen=True)
class SampleOptions:
    """Settings of prompts.

    passages: of a resolver's prompt. nothing_rate: share of a resolver's samples whose context does
    not tell. propositions_rate: share of them that show facts in place of passages. distractors:
    most facts that a gap judge is shown beside each one that the question needs.
    """

    passages: int = 3
    nothing_rate: float = 0.3
    propositions_rate: float = 0.3
    distractors: int = 2
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
        """Return the question's steps; none, which is counted, where its annotation gives no
        triplets.
        """
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
