"""Measure how often retrieval finds the passages that questions and their hops need.

    benchmarks/retrieval_recall.py --questions dev.jsonl --corpus corpus.jsonl \\
        [--question-documents] --encoder minilm --encoder FOLDER

Recall at 3 and 5 of BM25, of each encoder, of both fused by reciprocal rank, the encoder's ranks
counting as often as --dense-weights says (1: as the retriever `hybrid` does), and of
that with the passages first that --span-reader finds an answer in.
A question is to find all its supporting passages; a hop, its filled sub-question, its own one. No
language model takes part.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from benchmarks.harness.processes import benchmark_parser
from common.commands import one_line_errors
from common.tables import emit_json, print_table
from data_gen.facts.solving_steps import solving_steps
from evaluation.component_scores import recall_at_k
from inference.engines.contract import DEFAULT_SPAN_READER
from inference.indexes.spans import SpanService, answers_first
from inference.loops.kind import LoopOptions
from inference.opening.arguments import positive_int
from inference.opening.loop_options import checkpoint_or_none
from inference.retrieval.open_retriever import build_retriever, reciprocal_rank_fusion
from inference.retrieval.passages import (
    Hit,
    Passage,
    Retriever,
    documents_of_questions,
    load_corpus,
)
from models.formats.records import PassageRecord, QuestionRecord, read_records

CUTS = (3, 5)
DEPTH = 50
Rankings = list[list[Hit]]


@dataclass(frozen=True)
class Wanted:
    """Queries of one kind, and the ids of the passages that each is to find."""

    queries: list[str]
    passages: list[set[str]]

    def recalls(self, rankings: Rankings) -> dict[str, float]:
        """Return the mean share of the wanted passages among the first 3 and 5."""
        pairs = list(zip(rankings, self.passages, strict=True))
        return {
            f"recall@{k}": fmean(
                recall_at_k([hit.passage.id for hit in ranking[:k]], ids, k)
                for ranking, ids in pairs
            )
            for k in CUTS
        }


def wanted_passages(
    records: Sequence[QuestionRecord], corpus: Sequence[Passage]
) -> dict[str, Wanted]:
    """Return the queries by kind, `question` and `hop`, as far as the corpus has their passages.

    A hop asked by two questions counts once for each.
    """
    id_of = {_letters(passage): passage.id for passage in corpus}
    pairs: dict[str, list[tuple[str, set[str]]]] = {"question": [], "hop": []}
    for record in records:
        steps = [
            (s, id_of.get(_letters(s.passage))) for s in solving_steps(record, {}) if s.passage
        ]
        supporting = {found for _, found in steps if found}
        pairs["question"] += [(record.question, supporting)] if supporting else []
        pairs["hop"] += [
            (step.subquery, {found})
            for step, found in steps
            if found and (step.answer or step.fact.object)
        ]
    return {
        kind: Wanted([query for query, _ in found], [ids for _, ids in found])
        for kind, found in pairs.items()
        if found
    }


def _letters(passage: PassageRecord) -> str:
    return "".join(f"{passage.title}\n{passage.text}".split())


def searched(retriever: Retriever, queries: Sequence[str], name: str) -> tuple[Rankings, float]:
    """Return the hits of each query, asked one by one, and milliseconds a query."""
    retriever.search(queries[:1], DEPTH)
    started = time.perf_counter()
    found = [retriever.search([query], DEPTH)[0] for query in tqdm(queries, desc=name)]
    spent = time.perf_counter() - started
    return found, 1000 * spent / len(queries)


def measure(
    corpus: Sequence[Passage],
    wanted: Mapping[str, Wanted],
    encoders: Sequence[str],
    weights: Sequence[float],
    title_weight: int,
    spans: SpanService | None = None,
    depths: Sequence[int] = (),
) -> list[dict[str, Any]]:
    """Return a row of figures for each kind of query and each way to search.

    spans: ranks the first `depths` hits of each fusion too.
    """
    bm25 = build_retriever("bm25", corpus, title_weight=title_weight)
    dense = {name: build_retriever("dense", corpus, name) for name in encoders}
    rows: list[dict[str, Any]] = []
    for kind, group in wanted.items():

        def add(way: str, rankings: Rankings, spent: float, group: Wanted, kind: str) -> None:
            figures = {**group.recalls(rankings), "milliseconds": spent}
            rows.append({"queries": kind, "retriever": way, **figures})

        by_words, words_time = searched(bm25, group.queries, f"{kind}, bm25")
        add("bm25", by_words, words_time, group, kind)
        for name, retriever in dense.items():
            short = Path(name).name
            by_meaning, meaning_time = searched(retriever, group.queries, f"{kind}, {short}")
            add(f"dense {short}", by_meaning, meaning_time, group, kind)
            for weight in weights:
                both = [
                    reciprocal_rank_fusion(pair, weights=(1.0, weight))
                    for pair in zip(by_words, by_meaning, strict=True)
                ]
                spent = words_time + meaning_time
                add(f"hybrid {short} {weight:g}", both, spent, group, kind)
                if spans is None:
                    continue
                for depth in depths:
                    ranked, ranking_time = ranked_by_answers(group.queries, both, spans, depth)
                    way = f"hybrid {short} {weight:g}, {depth} read"
                    add(way, ranked, spent + ranking_time, group, kind)
    return rows


def ranked_by_answers(
    queries: Sequence[str], rankings: Rankings, spans: SpanService, depth: int
) -> tuple[Rankings, float]:
    """Return the first `depth` hits of each query, those that answer it first, and milliseconds."""
    spans.forget()
    started = time.perf_counter()
    pairs = list(zip(queries, rankings, strict=True))
    ranked = [
        answers_first(query, hits[:depth], spans)
        for query, hits in tqdm(pairs, desc=f"{depth} read")
    ]
    return ranked, 1000 * (time.perf_counter() - started) / len(queries)


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--questions", required=True, type=Path, help="with context and annotation")
    add("--corpus", required=True, type=Path, help="JSON Lines of {id, title, text}")
    add("--question-documents", action="store_true", help="search only the questions' own passages")
    add(
        "--encoder", action="append", metavar="NAME",
        help="minilm, a folder or a Hugging Face id, several times (minilm)",
    )  # fmt: skip
    add(
        "--dense-weights", type=float, nargs="+", default=[1.0], metavar="W",
        help="of the encoder's ranks in the fusion, beside 1 of BM25's (1)",
    )  # fmt: skip
    add(
        "--title-weight", type=positive_int, default=LoopOptions.title_weight, metavar="N",
        help="how often BM25 counts a title (%(default)s, as in the loops)",
    )  # fmt: skip
    add(
        "--span-reader", type=checkpoint_or_none, default=DEFAULT_SPAN_READER, metavar="DIR",
        help="extractive reader that ranks what was found, or 'none' (default: the shipped)",
    )  # fmt: skip
    add(
        "--depths", type=positive_int, nargs="+", default=[10, 20], metavar="N",
        help="hits that it reads (10 20)",
    )  # fmt: skip
    add("--limit", type=positive_int, help="questions (all)")
    return parser


@one_line_errors()
def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    records = list(read_records(options.questions, QuestionRecord))[: options.limit]
    corpus = load_corpus(options.corpus)
    if options.question_documents:
        corpus = documents_of_questions(corpus, options.questions, options.limit)
    wanted = wanted_passages(records, corpus)
    if not wanted:
        sys.exit(
            f"error: no supporting passage of {options.questions} stands in {options.corpus}. "
            "Name the corpus of these questions, and questions with context and annotation"
        )
    encoders = options.encoder or ["minilm"]
    spans = SpanService.open(options.span_reader) if options.span_reader else None
    rows = measure(
        corpus,
        wanted,
        encoders,
        options.dense_weights,
        options.title_weight,
        spans,
        options.depths,
    )
    title = f"Recall over {len(corpus)} passages"
    print_table(title, list(rows[0]), [list(row.values()) for row in rows])
    counts = {kind: len(group.queries) for kind, group in wanted.items()}
    emit_json(
        {
            "benchmark": "retrieval_recall",
            "questions": options.questions.name,
            "passages": len(corpus),
            "queries": counts,
            "rows": rows,
        }
    )


if __name__ == "__main__":
    main()
