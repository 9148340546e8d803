"""A hierarchical graph of topics, subtopics and entities from a corpus (TH-RAG §3.1, Algorithm 1).

One call a chunk gives facts with their sentences; topics come from the same call (--indexer
prompted, a large model) or by the kind of each entity (--indexer t2t, the project's small
text-to-triples model, without or with a trained --topic-helper; --topics says whose fields these
are). Topics that mean the same are merged. An interrupted build goes on where it was; run it again
with further documents, with changed ones and --replace, or with --delete, and only what is new is
extracted and embedded.
"""

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

from inference.engines.contract import DEFAULT_CHECKPOINTS, T2T_ADAPTER
from inference.indexes.hierarchy.build import (
    Chunking,
    check_store,
    extract_waiting,
    finish,
    register,
)
from inference.indexes.hierarchy.index import HierarchyIndex
from inference.indexes.hierarchy.kinds import TopicSource
from inference.indexes.hierarchy.store import HierarchyStore
from inference.indexes.hierarchy.vectors import SAME_MEANING
from inference.opening.arguments import command, engine_options_from, positive_int
from inference.opening.extractors import IndexerOptions, check_indexer, open_indexer
from inference.opening.index_build import IndexBuild, index_parser, run_build
from models.formats.paper_prompts import Prompts


def _parser() -> argparse.ArgumentParser:
    parser = index_parser(__doc__, "hierarchy", "sentences and topics", corpus_required=False)
    add = parser.add_argument
    add("--indexer", choices=("t2t", "prompted"), default="t2t", help="default: %(default)s")
    add(
        "--t2t",
        type=Path,
        default=DEFAULT_CHECKPOINTS[T2T_ADAPTER],
        help="text-to-triples component folder (default: the shipped)",
    )
    add("--topic-helper", type=Path, metavar="DIR", help="helper trained for the task 'topic'")
    add(
        "--topics",
        choices=get_args(TopicSource),
        default="fields",
        help="where the indexing model names none: the field of the entity's kind, from a list, or "
        "named from the corpus, related kinds under the most frequent (default: %(default)s)",
    )
    add("--backbone", default="smollm2", help="model of --indexer prompted (default: %(default)s)")
    add(
        "--prompts",
        choices=get_args(Prompts),
        default="own",
        help="of --indexer prompted: ours, or the paper's, word for word (default: %(default)s)",
    )
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
    return parser


async def _extract(given: IndexBuild, store: HierarchyStore) -> dict[str, int]:
    arguments = given.arguments
    indexer = IndexerOptions(
        arguments.indexer,
        arguments.t2t,
        arguments.topic_helper,
        arguments.topics,
        arguments.backbone,
        arguments.prompts,
        arguments.max_output_tokens,
        arguments.cache,
        engine_options_from(arguments),
    )
    opened = open_indexer(indexer, given.encoder, given.costs.metered)
    try:
        check_indexer(store, opened.name)
        chunking = Chunking(arguments.chunk_tokens or opened.chunk_tokens, arguments.chunk_overlap)
        new = register(store, given.corpus, opened.engine, chunking, arguments.replace)
        waiting = len(store.waiting_chunks())
        calls = await extract_waiting(store, opened.extractor)
    finally:
        await opened.close()
    return {"new documents": new, "chunks extracted now": waiting, **calls}


async def _build(given: IndexBuild) -> dict[str, Any]:
    with closing(HierarchyStore(given.folder, create=bool(given.corpus))) as store:
        # Fails on an index of another encoder before hours of extraction, not after.
        check_store(store, given.encoder)
        counts: dict[str, Any] = {}
        if given.arguments.delete:
            counts["documents deleted"] = store.delete_documents(given.arguments.delete)
        if given.corpus or store.waiting_chunks():
            counts |= await _extract(given, store)
        counts |= finish(store, given.encoder, given.arguments.merge_threshold)
    if given.arguments.index:
        index = HierarchyIndex.load(given.folder, given.encoder)
        index.keep_vectors_in(given.arguments.index, renew=True)
    return counts


@command
def main() -> None:
    """Run the command line."""
    run_build(_parser(), "Hierarchy", _build)


if __name__ == "__main__":
    main()
