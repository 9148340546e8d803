"""How well each component does its job: figures of outputs beside their records.

GraphLLM: RAS §4, App. E.2. A helper: agreement with the labels, and the measure of its task.
"""

from collections.abc import Callable, Sequence
from typing import Any

from evaluation.answers import exact_match, token_f1
from evaluation.component_scores import score_labels, score_triples
from evaluation.conditions import asks_about, score_conditions, support, well_formed_share
from evaluation.text import rouge_scores
from models.formats.conditions import parse_conditions
from models.formats.helpers import NOTHING, ParsedGap, parse_gap, parse_subquery, subquery_document
from models.formats.planning import Plan, PlanAction, parse_plans, subqueries_of
from models.formats.query_triplets import QueryTriplet, name_free, parse_query_triplets
from models.formats.reading import parse_reading
from models.formats.records import HelperTask, InstructionSample, RasSample, TriplesSample
from models.formats.topics import parse_topic, written_keys
from models.formats.triples import format_triples, parse_triples
from models.processors.passages import ConditionedPassage

TaskScore = Callable[[Sequence[str], Sequence[InstructionSample]], dict[str, float]]


def score_t2t(outputs: Sequence[str], samples: Sequence[TriplesSample]) -> dict[str, float]:
    """Exact and subject-object precision, recall and F1 (micro), ROUGE-1/2/L, malformed triples."""
    parsed = [parse_triples(output) for output in outputs]
    scores = score_triples([p.triples for p in parsed], [s.triples for s in samples])
    rouge = rouge_scores(outputs, [[format_triples(s.triples)] for s in samples])
    figures: dict[str, Any] = {
        f"triple_{name}": value for name, value in scores.exact.as_dict().items()
    }
    figures["entity_pair_f1"] = scores.partial.f1
    figures.update({name: rouge[name] for name in ("rouge1", "rouge2", "rougeL")})
    figures["malformed_triples"] = float(sum(p.malformed for p in parsed))
    return figures


def score_tri_rag(
    outputs: Sequence[str], passages: Sequence[ConditionedPassage]
) -> dict[str, float]:
    """Well-formed outputs, support in the passage, and agreement with the labels (micro F1)."""
    parsed = [parse_conditions(output) for output in outputs]
    triplets = [p.triplets for p in parsed]
    scores = score_conditions(triplets, [passage.triplets for passage in passages])
    figures = {
        "well_formed": well_formed_share(parsed),
        "support": support(triplets, [passage.text for passage in passages]),
        "malformed": float(sum(p.malformed for p in parsed)),
        **{f"condition_{k}": v for k, v in scores.conditions.as_dict().items()},
        **{f"condition_conclusion_{k}": v for k, v in scores.whole.as_dict().items()},
    }
    if scores.conclusion_f1 is not None:
        figures["conclusion_token_f1"] = scores.conclusion_f1
    return figures


def score_ras(outputs: Sequence[str], records: Sequence[RasSample]) -> dict[str, float]:
    """Plans: label accuracy, macro-F1, token F1 of sub-queries; answers: EM and token F1.

    Label accuracy is that of the first action. Sub-query F1 is taken where the gold label asks for
    sub-queries, over all of them in their order; another action there scores 0. Where a label asks
    several or ends behind them, `ahead_accuracy` is the share of plans with as many sub-queries
    and the same end. A plan that cannot be read is wrong.
    """
    pairs = list(zip(outputs, records, strict=True))
    figures: dict[str, float] = {}
    plans = [(text, record) for text, record in pairs if record.task == "plan"]
    answers = [(text, record) for text, record in pairs if record.task == "answer"]
    if plans:
        figures.update(_score_plans(plans))
    if answers:
        figures["answer_em"] = _mean([exact_match(t, [r.label]) for t, r in answers])
        figures["answer_f1"] = _mean([token_f1(t, [r.label]) for t, r in answers])
        figures["answers"] = float(len(answers))
    return figures


def _score_plans(plans: Sequence[tuple[str, RasSample]]) -> dict[str, float]:
    predicted = [parse_plans(text).plans for text, _ in plans]
    gold = [_gold_plans(record) for _, record in plans]
    labels = score_labels(
        [own[0].action.value if own else None for own in predicted],
        [wanted[0].action for wanted in gold],
    )
    figures = {"plan_accuracy": labels.accuracy, "plan_macro_f1": labels.macro_f1}
    pairs = list(zip(predicted, gold, strict=True))
    if any(len(wanted) > 1 for wanted in gold):
        figures["ahead_accuracy"] = _mean([float(_actions(p) == _actions(g)) for p, g in pairs])
    figures["malformed_plans"] = float(sum(not own for own in predicted))
    asked = [(" ".join(subqueries_of(p)), " ".join(subqueries_of(g))) for p, g in pairs]
    asked = [(own, wanted) for own, wanted in asked if wanted]
    if asked:
        figures["subquery_f1"] = _mean([token_f1(own, [wanted]) for own, wanted in asked])
    figures["plans"] = float(len(plans))
    return figures


def _actions(plans: Sequence[Plan]) -> list[PlanAction]:
    return [plan.action for plan in plans]


def _gold_plans(record: RasSample) -> Sequence[Plan]:
    plans = parse_plans(record.label).plans
    if not plans:
        raise ValueError(
            f"sample {record.id}: its label {record.label!r} is no plan. "
            "Write '[SUBQ] text', '[SUFFICIENT]' or '[NO_RETRIEVAL]'"
        )
    return plans


def score_helper(outputs: Sequence[str], samples: Sequence[InstructionSample]) -> dict[str, float]:
    """Exact match and token F1 of the labels, normalised, and what the samples' tasks are about.

    outputs: one a sample. With samples of several tasks those of a task are named TASK_FIGURE,
    after those of all. Raises ValueError without a sample.
    """
    figures = _label_scores(outputs, samples)
    tasks = dict.fromkeys(sample.task for sample in samples)
    if len(tasks) == 1:
        return figures | TASK_SCORES[samples[0].task](outputs, samples)
    for task in tasks:
        rows = [row for row, sample in enumerate(samples) if sample.task == task]
        own, wrote = [samples[row] for row in rows], [outputs[row] for row in rows]
        scores = _label_scores(wrote, own) | TASK_SCORES[task](wrote, own)
        figures |= {f"{task}_{name}": value for name, value in scores.items()}
    return figures


def _label_scores(outputs: Sequence[str], samples: Sequence[InstructionSample]) -> dict[str, float]:
    pairs = list(zip(outputs, _labels(samples), strict=True))
    return {
        "exact_match": _mean([exact_match(output, [label]) for output, label in pairs]),
        "token_f1": _mean([token_f1(output, [label]) for output, label in pairs]),
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


def score_readings(
    outputs: Sequence[str], samples: Sequence[InstructionSample]
) -> dict[str, float]:
    """Token F1 of answers where the passage tells, and the share of the others that is refused.

    Facts on the way to an answer are compared by their objects.
    """
    told, refused = [], []
    for output, sample in zip(outputs, samples, strict=True):
        wanted, written = (_read_texts(text) for text in (sample.label, output))
        if wanted:
            told.append(token_f1(" ".join(written), [" ".join(wanted)]) if written else 0.0)
        else:
            refused.append(float(not written))
    scores = {"told_token_f1": told, "refused": refused}
    return {name: _mean(values) for name, values in scores.items() if values}


def _read_texts(text: str) -> list[str]:
    reading = parse_reading(text)
    return [*reading.answers, *(fact.object for fact in reading.facts)]


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
        "unreadable": float(sum(p.missing is None for p in parsed)),
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
    "read": score_readings,
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
