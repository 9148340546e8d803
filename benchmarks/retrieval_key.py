"""Compare the fields of a condition triplet as the retrieval key (Tri-RAG §IV-E, Fig. 3).

The same triplets, encoder and index for all; only the text that is embedded differs: all three
fields, the condition, the proof or the conclusion. A query hits when the first triplet found comes
from a passage that supports its question. The last line of the output is one JSON object.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.harness.processes import benchmark_parser
from common.tables import emit_json, print_table
from evaluation.component_scores import score_retrieval
from evaluation.significance import bootstrap_interval
from inference.indexes.knowledge_base.entries import Entry
from inference.indexes.knowledge_base.store import KnowledgeBase
from inference.opening.arguments import command, positive_int
from inference.retrieval.passages import load_corpus
from inference.retrieval.vectors import VectorIndex
from inference.runs.scores import GoldPassages
from models.files.sentence_encoder import SentenceEncoder, load_sentence_encoder
from models.formats.conditions import ConditionTriplet
from models.formats.records import QuestionRecord, read_records

KEYS: dict[str, Callable[[ConditionTriplet], str]] = {
    "All": lambda t: f"{t.condition} {t.proof} {t.conclusion}",
    "C": lambda t: t.condition,
    "P": lambda t: t.proof,
    "R": lambda t: t.conclusion,
}
REPEATS = 5


def measure_key(
    units: Sequence[tuple[ConditionTriplet, list[str]]],
    key: Callable[[ConditionTriplet], str],
    queries: np.ndarray,
    relevant: Sequence[Sequence[str]],
    encoder: SentenceEncoder,
) -> dict[str, Any]:
    """Return Hit@1 with its interval, Recall@5, NDCG@5, and what the index costs.

    Triplets whose key is empty, as a proof may be, are not indexed. Equal keys share a row, as
    they would in a knowledge base. Latency is of the index alone, a query at a time.
    """
    sources: dict[str, list[str]] = {}
    for triplet, documents in units:
        if text := key(triplet).strip():
            sources.setdefault(text, []).extend(documents)
    # A key that no triplet has still gives an index, of one row that hits nothing.
    texts = list(sources) or [""]
    started = time.perf_counter()
    vectors = encoder.encode(texts)
    embedding = time.perf_counter() - started
    index = VectorIndex(vectors.shape[1])
    index.add(vectors)
    rows, seconds = [], []
    for repeat in range(REPEATS):
        for query in queries:
            start = time.perf_counter()
            [found] = index.search(query[None], 10)
            seconds.append(time.perf_counter() - start)
            if repeat == 0:
                rows.append([row for row, _ in found])
    ranked = [
        list(dict.fromkeys(document for row in found for document in sources.get(texts[row], [])))
        for found in rows
    ]
    first = [sources.get(texts[found[0]], []) for found in rows]
    hits = [float(bool(set(f) & set(w))) for f, w in zip(first, relevant, strict=True)]
    interval = bootstrap_interval(hits)
    return {
        **score_retrieval(ranked, relevant),
        "hit@1": interval.mean,
        "hit@1_ci95": [interval.low, interval.high],
        "rows": len(texts),
        "median_search_ms": 1000 * median(seconds),
        "embedding_seconds": embedding,
        "index_mb": vectors.nbytes / 2**20,
        "key_text_mb": sum(len(text.encode()) for text in texts) / 2**20,
    }


def compare_keys(
    entries: Sequence[Entry],
    questions: Sequence[str],
    relevant: Sequence[Sequence[str]],
    encoder: SentenceEncoder,
) -> dict[str, Any]:
    """Return the figures of every key over the same triplets and questions."""
    units = [
        (triplet, claim.sources)
        for entry in entries
        for triplet, claim in zip(entry.triplets, entry.claims, strict=True)
    ]
    queries = np.ascontiguousarray(encoder.encode(questions), dtype=np.float32)
    return {
        name: measure_key(units, key, queries, relevant, encoder)
        for name, key in tqdm(KEYS.items(), desc="keys")
    }


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--kb", required=True, type=Path, help="knowledge base that build_kb.py wrote")
    add("--corpus", required=True, type=Path, help="the corpus that it was built from")
    add("--dataset", required=True, type=Path, help="questions with supporting facts")
    add("--encoder", default="minilm", help="sentence encoder (default: minilm)")
    add("--limit", type=positive_int, help="only the first so many questions")
    return parser


@command
def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    encoder = load_sentence_encoder(options.encoder)
    base = KnowledgeBase.load(options.kb, encoder)
    gold = GoldPassages(load_corpus(options.corpus))
    records = list(read_records(options.dataset, QuestionRecord))[: options.limit]
    pairs = [(record.question, ids) for record in records if (ids := gold.ids(record))]
    if not pairs:
        sys.exit(f"error: no supporting passage of {options.dataset} is in {options.corpus}")
    questions, relevant = zip(*pairs, strict=True)
    figures = compare_keys(base.entries, questions, relevant, encoder)
    names = list(next(iter(figures.values())))
    rows = [[key, *(_shown(figure[name]) for name in names)] for key, figure in figures.items()]
    print_table(f"Retrieval keys, {len(questions)} questions", ["key", *names], rows)
    emit_json(
        {
            "benchmark": "retrieval_key",
            "questions": len(questions),
            "hit@1_c_minus_all": figures["C"]["hit@1"] - figures["All"]["hit@1"],
            "keys": figures,
        }
    )


def _shown(value: Any) -> Any:
    return "{:.3f} to {:.3f}".format(*value) if isinstance(value, list) else value


if __name__ == "__main__":
    main()
