"""Measure how often BM25 should count a passage's title, by the passages that it finds.

A question about one entity, made from each evidence triple whose subject titles a passage, should
find that passage; the main question should find all its supporting passages.

    benchmarks/title_weight.py --questions train.jsonl --corpus corpus.jsonl
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from benchmarks.harness.processes import benchmark_parser
from common.commands import one_line_errors
from common.tables import emit_json, print_table
from evaluation.component_scores import recall_at_k
from inference.retrieval.bm25 import Bm25Retriever
from inference.retrieval.passages import Passage, load_corpus
from models.facts.subqueries import relation_question
from models.formats.records import QuestionRecord, read_records


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--questions", required=True, type=Path, help="with supporting facts and evidences")
    add("--corpus", required=True, type=Path, help="JSON Lines of {id, title, text}")
    add("--weights", type=int, nargs="+", default=[1, 2, 3, 5, 8], help="(default: 1 2 3 5 8)")
    add("--limit", type=int, default=600, help="questions (default: 600)")
    return parser


def wanted_passages(
    records: Sequence[QuestionRecord], titles: set[str]
) -> tuple[list[tuple[str, set[str]]], list[tuple[str, set[str]]]]:
    """(query, titles it should find) of the main questions, and of those about one entity."""
    main: list[tuple[str, set[str]]] = []
    single: list[tuple[str, set[str]]] = []
    for record in records:
        supporting = {title for title, _ in record.supporting_facts} & titles
        main.append((record.question, supporting))
        single += [
            (relation_question(fact.subject, fact.predicate), {fact.subject})
            for fact in record.evidences
            if fact.subject in supporting
        ]
    return [pair for pair in main if pair[1]], single


def recalls(
    retriever: Bm25Retriever, pairs: Sequence[tuple[str, set[str]]], cuts: Sequence[int]
) -> list[float]:
    """Return the mean share of the wanted titles among the first passages, for each of `cuts`."""
    found = retriever.search([query for query, _ in pairs], max(cuts))
    rankings = [[hit.passage.title for hit in hits] for hits in found]
    return [
        fmean(recall_at_k(r[:k], wanted, k) for r, (_, wanted) in zip(rankings, pairs, strict=True))
        for k in cuts
    ]


def compare(
    corpus: Sequence[Passage], records: Sequence[QuestionRecord], weights: Sequence[int]
) -> list[dict[str, Any]]:
    """Return a row of recalls for each title weight."""
    main, single = wanted_passages(records, {passage.title for passage in corpus})
    rows = []
    for weight in tqdm(weights, desc="title weights"):
        retriever = Bm25Retriever(corpus, weight)
        row: dict[str, Any] = {"title_weight": weight}
        for name, pairs, cuts in (("entity", single, (1, 3)), ("question", main, (3, 5))):
            if pairs:
                names = [f"{name}_recall@{k}" for k in cuts]
                row |= dict(zip(names, recalls(retriever, pairs, cuts), strict=True))
        rows.append(row)
    return rows


@one_line_errors()
def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    records = list(read_records(options.questions, QuestionRecord))[: options.limit]
    rows = compare(load_corpus(options.corpus), records, options.weights)
    print_table("Passages found", list(rows[0]), [list(row.values()) for row in rows])
    emit_json({"benchmark": "title_weight", "questions": options.questions.name, "rows": rows})


if __name__ == "__main__":
    main()
