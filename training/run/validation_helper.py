"""How well a helper does its job: agreement with the labels, and the measure of its task."""

from collections.abc import Callable, Sequence

from evaluation.answers import exact_match, token_f1
from evaluation.component_scores import score_triples
from evaluation.conditions import asks_about
from models.formats.helpers import NOTHING, ParsedGap, parse_gap, parse_subquery, subquery_document
from models.formats.query_triplets import QueryTriplet, name_free, parse_query_triplets
from models.formats.records import HelperTask, InstructionSample
from models.formats.topics import parse_topic, written_keys

TaskScore = Callable[[Sequence[str], Sequence[InstructionSample]], dict[str, float]]


def score_helper(outputs: Sequence[str], samples: Sequence[InstructionSample]) -> dict[str, float]:
    """Exact match and token F1 of the labels, normalised, and what the samples' task is about.

    outputs: one a sample, all samples of one task. Raises ValueError without a sample.
    """
    pairs = list(zip(outputs, _labels(samples), strict=True))
    return {
        "exact_match": _mean([exact_match(output, [label]) for output, label in pairs]),
        "token_f1": _mean([token_f1(output, [label]) for output, label in pairs]),
        **TASK_SCORES[samples[0].task](outputs, samples),
    }


def score_subqueries(
    outputs: Sequence[str], samples: Sequence[InstructionSample]
) -> dict[str, float]:
    """Share of sub-queries that ask about their document, that of the labels, and unreadable ones.

    See `evaluation.conditions`; an output that holds no sub-query asks about nothing.
    """
    written = [parse_subquery(output) for output in outputs]
    documents = [subquery_document(sample.prompt) for sample in samples]
    return {
        "about_document": _mean(list(map(_asks_about, written, documents))),
        "labels_about_document": _mean(list(map(_asks_about, _labels(samples), documents))),
        "unreadable": float(written.count(None)),
    }


def score_decompositions(
    outputs: Sequence[str], samples: Sequence[InstructionSample]
) -> dict[str, float]:
    """Precision, recall and F1 (micro) of triplets, whatever their placeholders are called."""
    parsed = [parse_query_triplets(output) for output in outputs]
    wanted = [parse_query_triplets(label).triplets for label in _labels(samples)]
    return {
        **_triplet_scores([p.triplets for p in parsed], wanted),
        "malformed_triplets": float(sum(p.malformed for p in parsed)),
    }


def score_resolutions(
    outputs: Sequence[str], samples: Sequence[InstructionSample]
) -> dict[str, float]:
    """Accuracy of whether the passages tell, and exact match where they do and it was said."""
    told = [bool(parse_query_triplets(output).triplets) for output in outputs]
    wanted = [label != NOTHING for label in _labels(samples)]
    both = [
        exact_match(output, [label])
        for output, label, said, there in zip(outputs, _labels(samples), told, wanted, strict=True)
        if said and there
    ]
    agree = [float(said == there) for said, there in zip(told, wanted, strict=True)]
    return {"told_accuracy": _mean(agree), **({"filled_exact_match": _mean(both)} if both else {})}


def score_judgements(
    outputs: Sequence[str], samples: Sequence[InstructionSample]
) -> dict[str, float]:
    """Accuracy of enough or not enough, and precision, recall and F1 of the missing triplets.

    A text that is neither counts as wrong.
    """
    parsed = [parse_gap(output) for output in outputs]
    wanted = [parse_gap(label).missing or [] for label in _labels(samples)]
    enough = [
        float(p.missing is not None and bool(p.missing) == bool(missing))
        for p, missing in zip(parsed, wanted, strict=True)
    ]
    return {
        "enough_accuracy": _mean(enough),
        **_triplet_scores([p.missing or [] for p in parsed], wanted),
        "unreadable": float(sum(_is_unreadable(p) for p in parsed)),
    }


def score_topics(outputs: Sequence[str], samples: Sequence[InstructionSample]) -> dict[str, float]:
    """Accuracy of the topic, and of topic and subtopic together."""
    pairs = [
        (parse_topic(o), parse_topic(label))
        for o, label in zip(outputs, _labels(samples), strict=True)
    ]
    topics = [
        float(ours is not None and ours.topic == wanted.topic) for ours, wanted in pairs if wanted
    ]
    return {
        "topic_accuracy": _mean(topics),
        "subtopic_accuracy": _mean([float(ours == wanted) for ours, wanted in pairs]),
    }


def score_choices(outputs: Sequence[str], samples: Sequence[InstructionSample]) -> dict[str, float]:
    """Precision, recall and F1 of the names chosen, each a mean over samples, and unreadable ones.

    The order of the names does not matter. A name that the list does not hold is a wrong one.
    """
    written = list(map(written_keys, outputs))
    wanted = list(map(written_keys, _labels(samples)))
    right = [len(ours & own) for ours, own in zip(written, wanted, strict=True)]
    precision = [n / max(len(ours), 1) for n, ours in zip(right, written, strict=True)]
    recall = [n / max(len(own), 1) for n, own in zip(right, wanted, strict=True)]
    f1 = [2 * p * r / (p + r) if p + r else 0.0 for p, r in zip(precision, recall, strict=True)]
    return {
        "choice_precision": _mean(precision),
        "choice_recall": _mean(recall),
        "choice_f1": _mean(f1),
        "unreadable": float(sum(not ours for ours in written)),
    }


TASK_SCORES: dict[HelperTask, TaskScore] = {
    "subquery": score_subqueries,
    "decompose": score_decompositions,
    "resolve": score_resolutions,
    "judge_gap": score_judgements,
    "topic": score_topics,
    "choose_topics": score_choices,
}


def _triplet_scores(
    predicted: Sequence[Sequence[QueryTriplet]], wanted: Sequence[Sequence[QueryTriplet]]
) -> dict[str, float]:
    scores = score_triples([*map(name_free, predicted)], [*map(name_free, wanted)])
    return {f"triplet_{name}": value for name, value in scores.exact.as_dict().items()}


def _labels(samples: Sequence[InstructionSample]) -> list[str]:
    return [sample.label for sample in samples]


def _asks_about(subquery: str | None, document: str) -> float:
    return float(subquery is not None and asks_about(subquery, document))


def _is_unreadable(parsed: ParsedGap) -> bool:
    return parsed.missing is None


def _mean(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("no sample to score")
    return sum(values) / len(values)
