#!/usr/bin/env python3
"""TH-RAG's hierarchy at several sizes: index time, bytes, components (Table 4), query time.

The facts are the gold triples of a fictional world, or with --corpus what the text-to-triples model
wrote about it before (--cache), so that what is measured is the index and not the model that reads
the corpus; topics are given by kind. A query is everything but the model's calls: embedding the
question, shortlists of topics and of the subtopics of ten, and 30 sentences.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.processes import benchmark_parser
from common.tables import emit_json, print_table
from data_gen.build_world import build_world
from inference.engines.contract import DEFAULT_CHECKPOINTS, T2T_ADAPTER
from inference.indexes.extraction import CacheError, TripleCache
from inference.indexes.hierarchy.build import extract_waiting, finish, refresh
from inference.indexes.hierarchy.extraction import Extracted, ground
from inference.indexes.hierarchy.index import HierarchyIndex
from inference.indexes.hierarchy.kinds import KindTopics
from inference.indexes.hierarchy.store import STORE_FILE, HierarchyStore
from inference.indexes.hierarchy.vectors import SAME_MEANING
from inference.loops.th_rag import ThRagSettings
from inference.opening.arguments import command, positive_int
from inference.opening.components import Component
from inference.opening.extractors import extractor_name
from inference.retrieval.passages import Passage, load_corpus
from models.files.sentence_encoder import SentenceEncoder, load_sentence_encoder
from models.formats.passages import passage_key
from models.formats.prompts import passage_text
from models.formats.records import QuestionRecord, TriplesSample, read_records
from models.formats.topic_triplets import TopicTriplet
from models.formats.triples import Triple

SIZES = (1000, 4000, 12000)
CHANGES = 5


class GivenTriples:
    """Takes a chunk's triples from a table in place of a model."""

    def __init__(self, triples: dict[str, list[Triple]], topics: KindTopics) -> None:
        self.triples = triples
        self.topics = topics

    async def extract(self, chunk: Passage) -> Extracted:
        """Return the table's triples, grounded in the chunk, with topics by kind."""
        facts = self.triples[passage_text(chunk.title, chunk.text)]
        extracted = Extracted()
        given = self.topics.topics(chunk.title, chunk.text, facts)
        ground(chunk, [TopicTriplet(fact) for fact in facts], given, extracted)
        return extracted


@dataclass(frozen=True)
class Material:
    """A corpus, its triples by text, and questions to ask."""

    corpus: Sequence[Passage]
    triples: dict[str, list[Triple]]
    questions: list[str]


def world_material(options: argparse.Namespace, size: int) -> Material:
    """Return a fictional world of a size."""
    with tempfile.TemporaryDirectory() as temporary:
        world = Path(temporary) / "world"
        build_world(
            options.queries, options.seed, world, size, fractions=(0.0, 0.0, 1.0), progress=False
        )
        corpus = load_corpus(world / "corpus.jsonl")
        samples = read_records(world / "triples.jsonl", TriplesSample)
        triples = {sample.text: sample.triples for sample in samples}
        return Material(corpus, triples, _questions(world / "questions_test.jsonl", options))


def corpus_material(options: argparse.Namespace, size: int) -> Material:
    """Return the first passages of a corpus, with the triples that the cache holds of them.

    Raises CacheError where it lacks some.
    """
    corpus = load_corpus(options.corpus)[:size]
    cache = TripleCache(options.cache, extractor_name(Component.open(options.t2t, "t2t")))
    known = cache.get([passage_key(passage) for passage in corpus])
    missing = sum(passage_key(passage) not in known for passage in corpus)
    if missing:
        raise CacheError(
            f"{options.cache}: no triples of {missing} of {len(corpus)} passages. Let "
            "inference/build_propositions.py extract them with this --cache first"
        )
    triples = {passage_text(p.title, p.text): known[passage_key(p)] for p in corpus}
    return Material(corpus, triples, _questions(options.dataset, options))


def _questions(path: Path, options: argparse.Namespace) -> list[str]:
    records = read_records(path, QuestionRecord)
    return [record.question for record in itertools.islice(records, options.queries)]


def measure(material: Material, encoder: SentenceEncoder) -> dict[str, Any]:
    """Return all figures of one size."""
    corpus, asked = material.corpus, material.questions
    extractor = GivenTriples(material.triples, KindTopics(encoder))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        store = HierarchyStore(folder, create=True)
        figures = _index(store, corpus, extractor, encoder)
        figures |= _change(store, corpus[:CHANGES], extractor, encoder)
        store.close()
        figures["bytes"] = (folder / STORE_FILE).stat().st_size
        started = time.perf_counter()
        index = HierarchyIndex.load(folder, encoder)
        figures["load_seconds"] = time.perf_counter() - started
        milliseconds = 1000 * np.array(list(_query(index, asked)))
        figures["query_ms_median"] = float(np.median(milliseconds))
        figures["query_ms_p95"] = float(np.percentile(milliseconds, 95))
        return figures


def _index(
    store: HierarchyStore,
    corpus: Sequence[Passage],
    extractor: GivenTriples,
    encoder: SentenceEncoder,
) -> dict[str, Any]:
    started = time.perf_counter()
    store.add_documents([(passage, [passage.text]) for passage in corpus])
    asyncio.run(extract_waiting(store, extractor))
    stored = time.perf_counter()
    counts = finish(store, encoder, SAME_MEANING)
    done = time.perf_counter()
    wanted = {
        "documents": "documents", "facts": "facts", "sentences": "sentences",
        "topics": "topic nodes", "subtopics": "subtopic nodes", "entities": "entity nodes",
        "edges": "edges", "components": "components",
        "largest_share": "largest component's share",
        "components_without_topics": "components without topics",
        "largest_share_without_topics": "largest share without topics",
    }  # fmt: skip
    figures = {name: counts[of] for name, of in wanted.items()}
    seconds = {"store_seconds": stored - started, "embed_and_merge_seconds": done - stored}
    return {**figures, **seconds}


def _change(
    store: HierarchyStore,
    documents: Sequence[Passage],
    extractor: GivenTriples,
    encoder: SentenceEncoder,
) -> dict[str, float]:
    """Return the mean seconds to take a document out and to put it in again, topics included."""
    seconds = {"delete_seconds": 0.0, "insert_seconds": 0.0}
    for passage in documents:
        for name in seconds:
            started = time.perf_counter()
            if name == "delete_seconds":
                store.delete_documents([passage.id])
            else:
                store.add_documents([(passage, [passage.text])])
                asyncio.run(extract_waiting(store, extractor))
            refresh(store, encoder, SAME_MEANING)
            seconds[name] += (time.perf_counter() - started) / len(documents)
    return seconds


def _query(index: HierarchyIndex, questions: Sequence[str]) -> Iterator[float]:
    """Yield the seconds of each question; the first, which fills caches, is asked twice."""
    settings = ThRagSettings()
    for number, question in enumerate([questions[0], *questions]):
        started = time.perf_counter()
        scored = index.score(question)
        topics = index.shortlist_topics(scored, settings.shortlist)[: settings.topics[1]]
        near = (index.shortlist_subtopics(scored, t, settings.shortlist) for t in topics)
        subtopics = {s for found in near for s in found[: settings.subtopics[1]]}
        weights = settings.link_weight, settings.name_weight
        index.evidence(scored, subtopics, settings.sentences, *weights)
        if number:
            yield time.perf_counter() - started


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--sizes", nargs="+", type=positive_int, default=SIZES, help="passages (1000 4000 12000)")
    add("--queries", type=positive_int, default=50, help="questions timed (default: 50)")
    add("--encoder", default="minilm", help="of sentences and topics (default: minilm)")
    add("--seed", type=int, default=0, help="of the worlds (default: 0)")
    add("--corpus", type=Path, help="JSON Lines of {id, title, text}, in place of worlds")
    add("--cache", type=Path, help="with --corpus: SQLite file of its triples")
    add("--dataset", type=Path, help="with --corpus: questions, JSON Lines")
    add("--t2t", type=Path, default=DEFAULT_CHECKPOINTS[T2T_ADAPTER], help="whose triples")
    return parser


@command
def main() -> None:
    """Run the command."""
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.corpus and not (arguments.cache and arguments.dataset):
        parser.error("--corpus needs --cache, its triples, and --dataset, its questions")
    encoder = load_sentence_encoder(arguments.encoder)
    make = corpus_material if arguments.corpus else world_material
    sizes = {size: measure(make(arguments, size), encoder) for size in arguments.sizes}
    names = list(next(iter(sizes.values())))
    rows = [[name, *(figures[name] for figures in sizes.values())] for name in names]
    print_table("The hierarchy by size", ["figure", *map(str, sizes)], rows)
    emit_json(
        {
            "benchmark": "hierarchy",
            "corpus": getattr(arguments.corpus, "name", "world"),
            "encoder": encoder.name,
            "sizes": sizes,
        }
    )


if __name__ == "__main__":
    main()
