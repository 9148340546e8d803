"""The components that ship, each asked what its records ask, and what came of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from evaluation.answers import exact_match
from evaluation.component_scores import score_triples
from evaluation.conditions import score_conditions
from inference.engines.contract import (
    DEFAULT_CHECKPOINTS,
    DEFAULT_SPAN_READER,
    EXTRACTOR_ADAPTER,
    RAS_ADAPTER,
    SHIPPED,
    T2T_ADAPTER,
    Engine,
    Request,
    Sampling,
)
from inference.indexes.spans import SpanService
from inference.opening.components import (
    Component,
    conditions_requests,
    helper_requests,
    open_helper,
    reader_inputs,
    triples_requests,
)
from inference.retrieval.passages import Passage
from models.formats.conditions import format_conditions, parse_conditions
from models.formats.helpers import ENOUGH, NOTHING
from models.formats.reading import passage_of, question_of
from models.formats.records import (
    ConditionSample,
    HelperTask,
    InstructionSample,
    RasSample,
    Record,
    TriplesSample,
    read_records,
)
from models.formats.triples import format_triples, parse_triples
from training.run.scores import score_helper, score_ras

RECORDS = Path(__file__).parent / "records"
HELPERS: tuple[HelperTask, ...] = (
    "decompose",
    "resolve",
    "judge_gap",
    "subquery",
    "read",
    "choose_topics",
)
# Longer texts are cut: five of the condition extractor's eight, one label of text-to-triples.
MOST_NEW_TOKENS = 160

# Measured on transformers in bfloat16 (README.md has the backbone's own figures). A floor is two or
# three records' worth below, and above what a text that is always the same reaches.
FLOORS: dict[str, dict[str, float]] = {
    "t2t": {"f1": 0.6},  # 0.821
    "ras": {"plan_accuracy": 0.6, "answer_em": 0.4},  # 1.0, 0.8
    "tri_rag": {"f1": 0.45},  # 0.683
    "decompose": {"exact_match": 0.5},  # 0.75
    "resolve": {"exact_match": 0.55, "says_none": 0.5},  # 0.917, 1.0
    "judge_gap": {"exact_match": 0.5, "says_none": 0.5},  # 0.583, 1.0 of two
    "subquery": {"exact_match": 0.5},  # 0.75
    "read": {"exact_match": 0.5, "says_none": 0.7},  # 0.75, 1.0
    "choose_topics": {"choice_f1": 0.55},  # 0.589
}

Scores = dict[str, float]
RecordT = TypeVar("RecordT", bound=Record)


@dataclass(frozen=True)
class Trial:
    """What one component is asked, what it is to write, and the measures of what it wrote."""

    requests: Callable[[], list[Request]]
    labels: list[str]
    score: Callable[[Sequence[str]], Scores]


def shipped_folders() -> dict[str, Path]:
    """The components that have a floor, by the name under which its requests ask for it."""
    together = dict.fromkeys(HELPERS, SHIPPED / "helper_smollm2")
    return {**together, **DEFAULT_CHECKPOINTS}


def trials() -> dict[str, Trial]:
    """A trial a component, by the names of `shipped_folders`."""
    folders = shipped_folders()
    return {
        T2T_ADAPTER: triples_trial(folders[T2T_ADAPTER]),
        RAS_ADAPTER: ras_trial(folders[RAS_ADAPTER]),
        EXTRACTOR_ADAPTER: conditions_trial(folders[EXTRACTOR_ADAPTER]),
        **{task: helper_trial(folders[task], task) for task in HELPERS},
    }


async def measure(engine: Engine, asked: dict[str, Trial]) -> dict[str, Scores]:
    """The measures of each trial; all requests go to the engine at once."""
    requests = [bounded(request) for trial in asked.values() for request in trial.requests()]
    texts = iter([completion.text for completion in await engine.generate(requests)])
    return {name: trial.score([next(texts) for _ in trial.labels]) for name, trial in asked.items()}


def shortfalls(name: str, scores: Scores) -> Scores:
    """The measures of a component that are below their floor."""
    return {
        measure: scores[measure]
        for measure in FLOORS[name]
        if scores[measure] < FLOORS[name][measure]
    }


def triples_trial(folder: Path) -> Trial:
    """Exact triple F1 of text-to-triples."""
    samples = records("t2t", TriplesSample)

    def requests() -> list[Request]:
        make = triples_requests(Component.open(folder, "t2t"))
        return [make(Passage(s.id, "", s.text)) for s in samples]

    def score(texts: Sequence[str]) -> Scores:
        predicted = [parse_triples(text).triples for text in texts]
        return {"f1": score_triples(predicted, [s.triples for s in samples]).exact.f1}

    return Trial(requests, [format_triples(s.triples) for s in samples], score)


def ras_trial(folder: Path) -> Trial:
    """Label accuracy of plans, and exact match of answers."""
    samples = records("ras", RasSample)

    def requests() -> list[Request]:
        make = reader_inputs(Component.open(folder, "ras"))
        sampling = Sampling(MOST_NEW_TOKENS)
        return [make(s.task, s.prompt_history, sampling).request for s in samples]

    return Trial(requests, [s.label for s in samples], lambda texts: score_ras(texts, samples))


def conditions_trial(folder: Path) -> Trial:
    """F1 of the condition extractor's conditions."""
    own = groupby(records("tri_rag", ConditionSample), attrgetter("text"))
    gold = {text: [sample.triplet for sample in samples] for text, samples in own}

    def requests() -> list[Request]:
        make = conditions_requests(Component.open(folder, "tri_rag"))
        return [make(Passage(text, "", text)) for text in gold]

    def score(texts: Sequence[str]) -> Scores:
        parsed = [parse_conditions(text) for text in texts]
        agreement = score_conditions([p.triplets for p in parsed], list(gold.values()))
        return {"f1": agreement.conditions.f1}

    return Trial(requests, [format_conditions(own) for own in gold.values()], score)


def helper_trial(folder: Path, task: HelperTask) -> Trial:
    """Exact match of a helper with its labels, and the measures of its task.

    says_none: exact match where the label is the word for no fact at all, which the other records
    outnumber.
    """
    samples = records(task, InstructionSample)

    def requests() -> list[Request]:
        make = helper_requests(open_helper(folder, task), task)
        return [make(s.prompt) for s in samples]

    def score(texts: Sequence[str]) -> Scores:
        scores = score_helper(texts, samples)
        nothing = [
            float(exact_match(text, [sample.label]))
            for text, sample in zip(texts, samples, strict=True)
            if sample.label in (NOTHING, ENOUGH)
        ]
        return {**scores, "says_none": fmean(nothing)} if nothing else scores

    return Trial(requests, [s.label for s in samples], score)


def spans_pointed_at() -> tuple[list[str], Scores]:
    """The extractive reader's answers to the records of `read`, and their measures."""
    samples = records("read", InstructionSample)
    spans = SpanService.open(DEFAULT_SPAN_READER)
    pairs = [(question_of(s.prompt), passage_of(s.prompt)) for s in samples]
    read = spans.reader.read(spans.processor, pairs)
    texts = [span.text if span.margin > spans.least_margin else NOTHING for span in read]
    return texts, helper_trial(SHIPPED / "read_smollm2", "read").score(texts)


def records(name: str, record_type: type[RecordT]) -> list[RecordT]:
    """The committed records of a component."""
    return list(read_records(RECORDS / f"{name}.jsonl", record_type))


def bounded(request: Request) -> Request:
    """The request with no more than MOST_NEW_TOKENS to write."""
    most = min(request.sampling.max_new_tokens, MOST_NEW_TOKENS)
    return replace(request, sampling=replace(request.sampling, max_new_tokens=most))
