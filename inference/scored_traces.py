"""Traces with their scores, one JSON object a question, and what a whole run came to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.answers import exact_match, token_f1
from evaluation.by_type import scores_by_type
from evaluation.error_analysis import count_stages
from evaluation.significance import bootstrap_interval
from inference.gold import GoldPassages, recall, stage_of
from inference.loops.ras_static import context_passages
from inference.loops.trace import Trace
from models.formats.records import QuestionRecord

COSTS = ("llm_calls", "input_tokens", "output_tokens", "weighted_tokens")


def scored_trace(
    record: QuestionRecord, trace: Trace, corpus: GoldPassages | None = None
) -> dict[str, Any]:
    """A question's scores, the stage that lost it, and the whole trace.

    Without a corpus the supporting passages are those of the question's own context.
    """
    gold = corpus or GoldPassages(context_passages(record))
    em = exact_match(trace.answer, record.answers)
    return {
        "id": record.id,
        "type": record.type,
        "answers": record.answers,
        "em": em,
        "f1": token_f1(trace.answer, record.answers),
        "recall": recall(record, trace, gold),
        "stage": stage_of(record, trace, bool(em), gold),
        **trace.to_json(),
    }


def summarise(
    loop: str, dataset: Path, rows: Sequence[dict[str, Any]], seconds: float
) -> dict[str, Any]:
    """The results of a run, with 95 % bootstrap intervals, by type too; token counts are sums."""
    em, f1 = ([row[name] for row in rows] for name in ("em", "f1"))
    em_interval, f1_interval = bootstrap_interval(em), bootstrap_interval(f1)
    recalls = [row["recall"] for row in rows if row["recall"] is not None]
    bills = [row["bill"] for row in rows]
    return {
        "loop": loop,
        "dataset": dataset.stem,
        "n": len(rows),
        "em": em_interval.mean,
        "f1": f1_interval.mean,
        "em_ci95": [em_interval.low, em_interval.high],
        "f1_ci95": [f1_interval.low, f1_interval.high],
        "by_type": scores_by_type(rows),
        "retrieval_recall": sum(recalls) / len(recalls) if recalls else None,
        **{name: sum(bill[name] for bill in bills) for name in COSTS},
        "seconds": seconds,
        "errors": sum(row["error"] is not None for row in rows),
        "stages": count_stages(row["stage"] for row in rows),
    }
