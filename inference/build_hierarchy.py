"""A hierarchical graph of topics, subtopics and entities from a corpus (TH-RAG §3.1, Algorithm 1).

One call a chunk gives facts with their sentences; topics come from the same call (--indexer
prompted, a large model) or by the kind of each entity (--indexer t2t, the project's small
text-to-triples model, without or with a trained --topic-helper). Topics that mean the same are
merged. An interrupted build goes on where it was; run it again with further documents, with changed
ones and --replace, or with --delete, and only what is new is extracted and embedded.
"""

import argparse
import asyncio
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.commands import command_parser
from common.tables import report_counts
from inference.engines.adapters import DEFAULT_CHECKPOINTS, T2T_ADAPTER
from inference.indexes.cost import CostLog
from inference.indexes.hierarchy.build import (
    THRESHOLD,
    Chunking,
    called_names,
    check_encoder,
    extract_waiting,
    refresh,
    register,
)
from inference.indexes.hierarchy.graph import TopicGraph
from inference.indexes.hierarchy.store import HierarchyStore
from inference.indexes.hierarchy.vectors import SAME_MEANING
from inference.opening.arguments import (
    add_corpus_arguments,
    add_engine_arguments,
    command,
    configure_logging,
    documents_from,
    engine_options_from,
    positive_int,
)
from inference.opening.extractors import IndexerOptions, check_indexer, open_indexer
from inference.retrieval.passages import Passage
from models.files.sentence_encoder import SentenceEncoder, load_sentence_encoder


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add_corpus_arguments(parser, required=False)
    add("--out", required=True, type=Path, help="folder of the hierarchy, new or to add to")
    add("--indexer", choices=("t2t", "prompted"), default="t2t", help="default: %(default)s")
    add(
        "--t2t",
        type=Path,
        default=DEFAULT_CHECKPOINTS[T2T_ADAPTER],
        help="text-to-triples component folder (default: the shipped)",
    )
    add("--topic-helper", type=Path, metavar="DIR", help="helper trained for the task 'topic'")
    add("--backbone", default="smollm2", help="model of --indexer prompted (default: %(default)s)")
    add("--encoder", default="minilm", help="of sentences and topics (default: %(default)s)")
    add("--chunk-tokens", type=positive_int, help="most of a chunk (1200, t2t: what it reads)")
    add("--chunk-overlap", type=int, default=100, help="tokens (default: %(default)s)")
    add(
        "--max-output-tokens",
        type=positive_int,
        default=2048,
        help="of --indexer prompted, a chunk (default: %(default)s)",
    )
    add(
        "--merge-threshold",
        type=float,
        help="cosine from which two topics are one; above 1 merges none (default: as before, or "
        f"{SAME_MEANING})",
    )
    add("--cache", type=Path, help="SQLite file of triples extracted before (default: user's)")
    add("--replace", action="store_true", help="documents that changed take the place of the old")
    add("--delete", nargs="+", default=[], metavar="ID", help="take these documents out first")
    add("--json", action="store_true", help="print the counts as one JSON object")
    add_engine_arguments(parser)
    return parser


async def _extract(
    arguments: argparse.Namespace,
    store: HierarchyStore,
    corpus: list[Passage],
    encoder: SentenceEncoder,
    costs: CostLog,
) -> dict[str, int]:
    indexer = IndexerOptions(
        arguments.indexer,
        arguments.t2t,
        arguments.topic_helper,
        arguments.backbone,
        arguments.max_output_tokens,
        arguments.cache,
        engine_options_from(arguments),
    )
    opened = open_indexer(indexer, encoder, costs.metered)
    try:
        check_indexer(store, opened.name)
        chunking = Chunking(arguments.chunk_tokens or opened.chunk_tokens, arguments.chunk_overlap)
        new = register(store, corpus, opened.engine, chunking, arguments.replace)
        waiting = len(store.waiting_chunks())
        with tqdm(total=waiting, desc="extract", unit=" chunks") as bar:
            calls = await extract_waiting(store, opened.extractor, lambda _: bar.update())
    finally:
        await opened.close()
    return {"new documents": new, "chunks extracted now": waiting, **calls}


def finish(
    store: HierarchyStore, encoder: SentenceEncoder, threshold: float | None
) -> dict[str, Any]:
    """Embed what is new, merge topics, and count what there is (Table 4).

    threshold: None is the one that the hierarchy was built with.
    """
    chosen = float(store.about().get(THRESHOLD, SAME_MEANING)) if threshold is None else threshold
    waiting = len(store.vectors.unembedded_sentences())
    with tqdm(total=waiting, desc="embed", unit=" sentences") as bar:
        refresh(store, encoder, chosen, bar.update)
    facts = store.facts()
    called = called_names(store, facts)
    row_of = {number: row for row, (number, _, _) in enumerate(store.sentences())}
    merged = {
        f"{level} names merged": sum(name != key for key, name in names.items())
        for level, names in called.items()
    }
    return {**store.counts(), **TopicGraph(facts, row_of, called).statistics(), **merged}


def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    with CostLog(arguments.out) as costs:
        return _build(arguments, costs)


def _build(arguments: argparse.Namespace, costs: CostLog) -> dict[str, Any]:
    started = time.perf_counter()
    corpus = documents_from(arguments)
    store = HierarchyStore(arguments.out, create=bool(corpus))
    try:
        encoder = load_sentence_encoder(arguments.encoder)
        # Fails on an index of another encoder before hours of extraction, not after.
        check_encoder(store, encoder)
        counts: dict[str, Any] = {}
        if arguments.delete:
            counts["documents deleted"] = store.delete_documents(arguments.delete)
        if corpus or store.waiting_chunks():
            counts |= asyncio.run(_extract(arguments, store, corpus, encoder, costs))
        counts |= finish(store, encoder, arguments.merge_threshold)
    finally:
        store.close()
    return {**counts, "seconds": round(time.perf_counter() - started, 1)}


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    configure_logging()
    counts = _run(arguments)
    report_counts("Hierarchy in", counts, arguments.out, arguments.json)


if __name__ == "__main__":
    main()
