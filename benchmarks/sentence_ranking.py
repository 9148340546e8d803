#!/usr/bin/env python3
"""TH-RAG's ranking of sentences on real questions: the paper's, with links, with links and names.

No model takes part: the entities of a sentence are its document's title and the other titles that
it names, and all sentences are searched (TH-RAG's Table 7, "w/o Traversal"). A supporting sentence
counts as found among the first K1, or in one of the K2 passages around them.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.harness.processes import benchmark_parser
from benchmarks.scripted_world.reach import RANKINGS
from common.tables import emit_json, print_table
from inference.indexes.hierarchy.graph import NameFinder, TopicGraph
from inference.indexes.hierarchy.index import HierarchyIndex
from inference.indexes.hierarchy.store import StoredFact
from inference.indexes.hierarchy.vectors import label_key
from inference.loops.th_rag import ThRagSettings
from inference.opening.arguments import command, positive_int
from inference.retrieval.passages import Passage
from models.files.sentence_encoder import SentenceEncoder, load_sentence_encoder
from models.formats.prompts import passage_text
from models.formats.records import QuestionRecord, read_records

TOPIC = "Things"


def build(records: Sequence[QuestionRecord], encoder: SentenceEncoder) -> HierarchyIndex:
    """Return an index of all sentences of the questions' contexts; titles stand for chunks."""
    texts = {
        (title, place): text
        for record in records
        for title, sentences in record.context
        for place, text in enumerate(sentences)
    }
    titles = list(dict.fromkeys(title for title, _ in texts))
    finder = NameFinder(titles)
    facts = [
        fact
        for row, ((title, _), text) in enumerate(texts.items())
        for fact in _facts(row, title, [titles[n] for n in finder.find(f". {text}")])
    ]
    called = {level: {label_key(TOPIC): TOPIC} for level in ("topic", "subtopic")}
    graph = TopicGraph(facts, {row: row for row in range(len(texts))}, called)
    chunks = {title: Passage(title, title, "") for title in titles}
    sentences = [(f"{place}", chunks[title]) for title, place in texts]
    vectors = encoder.encode([passage_text(title, text) for (title, _), text in texts.items()])
    labels = np.zeros((1, encoder.dimension), dtype=np.float32)
    return HierarchyIndex(graph, encoder, sentences, (vectors, labels, labels))


def _facts(row: int, title: str, named: Sequence[str]) -> Iterator[StoredFact]:
    """Yield the facts of a sentence: links from its document to what it names, or to itself."""
    for other in [name for name in named if name != title] or [title]:
        yield StoredFact(row, title, "names", other, *([TOPIC] * 4))


def found(
    index: HierarchyIndex, record: QuestionRecord, weights: tuple[float, float]
) -> list[bool]:
    """Return whether each supporting sentence is in the evidence."""
    settings = ThRagSettings()
    scored = index.score(record.question)
    evidence = index.evidence(scored, None, settings.sentences, *weights)
    around = list(dict.fromkeys(item.chunk.title for item in evidence))[: settings.passages]
    chosen = {(item.chunk.title, int(item.sentence)) for item in evidence}
    return [(title, place) in chosen or title in around for title, place in record.supporting_facts]


def measure(records: Sequence[QuestionRecord], encoder: SentenceEncoder) -> dict[str, Any]:
    """Return recall of supporting sentences, and the share of questions with all, by ranking."""
    index = build(records, encoder)
    figures: dict[str, Any] = {"questions": len(records), "sentences": len(index.sentences)}
    for name, weights in tqdm(RANKINGS.items(), desc="rankings"):
        hits = [found(index, record, weights) for record in records]
        figures[name] = {"recall": mean(map(mean, hits)), "all": mean(map(all, hits))}
    return figures


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--dataset", required=True, type=Path, help="questions with supporting facts")
    add("--limit", type=positive_int, default=150, help="questions (default: 150)")
    add("--encoder", default="minilm", help="default: minilm")
    return parser


@command
def main() -> None:
    """Run the command."""
    arguments = _parser().parse_args()
    read = read_records(arguments.dataset, QuestionRecord)
    records = [r for r in itertools.islice(read, arguments.limit) if r.supporting_facts]
    if not records:
        sys.exit(f"error: {arguments.dataset} has no supporting facts. Give a data set with some")
    figures = measure(records, load_sentence_encoder(arguments.encoder))
    rows = [[name, *figures[name].values()] for name in RANKINGS]
    print_table(f"Ranking of {figures['sentences']} sentences", ["ranking", "recall", "all"], rows)
    emit_json({"benchmark": "sentence_ranking", "dataset": arguments.dataset.stem, **figures})


if __name__ == "__main__":
    main()
