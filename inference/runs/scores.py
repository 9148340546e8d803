"""Traces with their scores: what annotation says of each, and what a whole run came to."""

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.tables import print_table
from evaluation.answers import exact_match, token_f1
from evaluation.runs import NeededFact, Stage, blame, count_stages
from evaluation.significance import (
    COLUMNS,
    bootstrap_interval,
    places_by_type,
    scores_by_type,
    type_rows,
)
from inference.loops.trace import Trace
from inference.retrieval.passages import Passage
from models.formats.passages import context_passages
from models.formats.planning import one_line
from models.formats.records import QuestionRecord

COSTS = ("llm_calls", "input_tokens", "output_tokens", "weighted_tokens")


class GoldPassages:
    """Finds a question's supporting paragraphs in the corpus, by title and text."""

    def __init__(self, corpus: Iterable[Passage], titles: Container[str] | None = None) -> None:
        """titles: those of the passages that will be looked for; None: all may be."""
        self._by_text: dict[tuple[str, str], str] = {}
        self._by_title: dict[str, list[str]] = {}
        for passage in corpus:
            if titles is not None and passage.title not in titles:
                continue
            self._by_text.setdefault((passage.title, _key(passage.text)), passage.id)
            self._by_title.setdefault(passage.title, []).append(passage.id)

    def ids(self, record: QuestionRecord) -> list[str]:
        """Corpus ids of the supporting paragraphs, each once; those not in the corpus are left out.

        MuSiQue repeats titles, so its paragraphs are known by `paragraph_support_idx`.
        """
        indices = [step.paragraph_support_idx for step in record.question_decomposition]
        if record.context and indices and None not in indices:
            paragraphs = [record.context[index] for index in indices if index is not None]
        else:
            titles = dict.fromkeys(title for title, _ in record.supporting_facts)
            paragraphs = [paragraph for paragraph in record.context if paragraph[0] in titles]
        found = [self._by_text.get((t, _key("".join(ss)))) for t, ss in paragraphs]
        return list(dict.fromkeys(identifier for identifier in found if identifier))

    def titled(self, title: str) -> Sequence[str]:
        """Return the ids of the passages with this title."""
        return self._by_title.get(title, [])


def _key(text: str) -> str:
    # Sources differ in the spaces between sentences.
    return one_line(text).replace(" ", "")


def gold_titles(records: Iterable[QuestionRecord]) -> set[str]:
    """Return the titles that `GoldPassages` looks for to score these questions."""
    return {
        title
        for record in records
        for title in (
            *(title for title, _ in record.context),
            *(title for title, _ in record.supporting_facts),
            *(triple.subject for triple in record.evidences),
        )
    }


def needed_facts(record: QuestionRecord, gold: GoldPassages) -> list[NeededFact]:
    """Return the facts behind the answer: evidence triples, or the steps of a decomposition."""
    supporting = gold.ids(record)
    if record.evidences:
        return [
            NeededFact(t.subject, t.object, list(gold.titled(t.subject)) or supporting)
            for t in record.evidences
        ]
    return []


def stage_of(record: QuestionRecord, trace: Trace, correct: bool, gold: GoldPassages) -> Stage:
    """Return the stage that lost the question (see `evaluation.runs.blame`).

    Without evidence triples (MuSiQue) a fact is there when the step's answer stands in the graph.
    """
    facts = needed_facts(record, gold)
    retrieved = {passage.id for step in trace.steps for passage in step.passages}
    subqueries = [step.subquery for step in trace.steps]
    graph = [(triple.subject, triple.object) for triple in trace.graph]
    if not facts and record.question_decomposition:
        facts = _decomposition_facts(record, gold)
        graph += [(entity, entity) for pair in graph for entity in pair]
    return blame(correct, facts, graph, retrieved, subqueries)


def _decomposition_facts(record: QuestionRecord, gold: GoldPassages) -> list[NeededFact]:
    """Return a fact a step, known by its answer alone; it stands in the step's own paragraph."""
    facts = []
    for step in record.question_decomposition:
        one_step = QuestionRecord(
            record.id,
            step.question,
            step.answer,
            context=record.context,
            question_decomposition=[step],
        )
        facts.append(NeededFact(step.answer, step.answer, gold.ids(one_step)))
    return facts


def recall(record: QuestionRecord, trace: Trace, gold: GoldPassages) -> float | None:
    """Share of the supporting passages that any step retrieved; None where none are known."""
    supporting = gold.ids(record)
    if not supporting:
        return None
    retrieved = {passage.id for step in trace.steps for passage in step.passages}
    return sum(identifier in retrieved for identifier in supporting) / len(supporting)


def scored_trace(
    record: QuestionRecord, trace: Trace, corpus: GoldPassages | None = None
) -> dict[str, Any]:
    """Return a question's scores, the stage that lost it, and the whole trace.

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
    """Return a run's results, with 95 % bootstrap intervals, by type too; tokens are sums."""
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
        "cut_passages": sum(row.get("cut_passages", 0) for row in rows),
        "stages": count_stages(row["stage"] for row in rows),
    }


def show(results: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the scores and where questions were lost, by question type and over all, and the cost.

    rows: the scored traces that `results` sum up.
    """
    table = [[*row, "", ""] for row in type_rows(results["by_type"])]
    intervals = ["{:.3f} to {:.3f}".format(*results[name]) for name in ("em_ci95", "f1_ci95")]
    table.append(["all", results["n"], results["em"], results["f1"], *intervals])
    columns = [*COLUMNS, "EM, 95 %", "F1, 95 %"]
    print_table(f"{results['loop']} on {results['dataset']}", columns, table)
    stages = [
        [name, *count_stages(rows[place]["stage"] for place in own).values()]
        for name, own in places_by_type([row["type"] for row in rows]).items()
    ]
    stages.append(["all", *results["stages"].values()])
    print_table("Where questions ended", ["type", *results["stages"]], stages)
    costs = (*COSTS, "seconds", "errors", "cut_passages")
    print_table("Cost", list(costs), [[results[name] for name in costs]])


def show_shard(card: Mapping[str, Any]) -> None:
    """Print what a shard of an evaluation answered; a part of the questions has no scores."""
    columns = ["questions", "of", "seconds", "errors"]
    row = [len(card["places"]), card["questions"]["all"], card["seconds"], card["errors"]]
    print_table(f"Shard {card['shard']}/{card['of']}", columns, [row])
