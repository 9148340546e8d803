"""A proposition index of a corpus, for the t2rag loop (T²RAG §4.2).

Extracts every document's triples, puts each fact in one line, embeds those lines and keeps which
documents state them. Run it again with a larger corpus, or with further documents alone: only what
is new is extracted, embedded and written. An interrupted build goes on where it was.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.commands import command_parser
from common.tables import report_counts
from inference.engines.adapters import T2T_ADAPTER
from inference.indexes.cost import CostLog
from inference.indexes.extraction import TripleExtractor, chunks
from inference.indexes.knowledge_base.store import DuplicateDocumentError
from inference.indexes.propositions.index import PropositionIndex
from inference.indexes.propositions.parts import Document, PropositionIndexError
from inference.loops.kind import LoopOptions
from inference.opening.arguments import (
    add_corpus_arguments,
    add_engine_arguments,
    command,
    configure_logging,
    documents_from,
    engine_options_from,
)
from inference.opening.components import Component
from inference.opening.engine import build_engine
from inference.opening.extractors import extractor_name, open_extractor
from inference.opening.loop_options import checkpoint_or_none
from inference.retrieval.passages import Passage
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.passages import passage_key

# A kill loses what was embedded of one part; what was extracted is in the cache.
DOCUMENTS_PER_PART = 2000


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add_corpus_arguments(parser)
    add(
        "--t2t",
        type=checkpoint_or_none,
        default=LoopOptions.t2t,
        metavar="CHECKPOINT",
        help="text-to-triples component folder, or 'none' to prompt the backbone (default: the "
        "shipped)",
    )
    add("--backbone", default=LoopOptions.backbone, help="what is prompted (default: %(default)s)")
    add("--out", required=True, type=Path, help="folder of the index, new or to add to")
    add("--encoder", default="minilm", help="sentence encoder of the propositions")
    add("--cache", type=Path, help="SQLite file of triples extracted before (default: user's)")
    add("--json", action="store_true", help="print the counts as one JSON object")
    add_engine_arguments(parser)
    return parser


def new_documents(index: PropositionIndex, corpus: Sequence[Passage]) -> list[Passage]:
    """Return the passages that the index does not know, each id once.

    Raises DuplicateDocumentError for an id that stands for two texts, there or in the corpus.
    """
    keys = dict(index.documents)
    new = []
    for passage in corpus:
        key = passage_key(passage)
        if passage.id not in keys:
            keys[passage.id] = key
            new.append(passage)
        elif keys[passage.id] != key:
            raise DuplicateDocumentError(
                f"document '{passage.id}' is there already with another title or text. Give it an "
                "id of its own, or build a new index"
            )
    return new


async def add_to_index(
    index: PropositionIndex,
    documents: Sequence[Passage],
    extractor: TripleExtractor,
    folder: Path,
    per_part: int = DOCUMENTS_PER_PART,
) -> None:
    """Extract and index documents; every `per_part` of them are on disk before the next begin."""
    with tqdm(total=len(documents), desc="propositions", unit=" documents") as progress:

        async def extract(passage: Passage) -> Document:
            [triples] = await extractor.extract([passage])
            progress.update()
            return Document(passage.id, passage_key(passage), tuple(triples))

        for chunk in chunks(documents, per_part):
            extracted = await asyncio.gather(*map(extract, chunk))
            part = await asyncio.to_thread(index.add, extracted)
            index.save_part(folder, part, extractor.cache.model)


def counts_of(index: PropositionIndex) -> dict[str, int]:
    """Return what an index holds."""
    sources = [len(proposition.sources) for proposition in index.propositions]
    silent = set(index.documents).difference(*(p.sources for p in index.propositions))
    return {
        "documents": len(index.documents),
        "documents without a triple": len(silent),
        "propositions": len(sources),
        "propositions of several documents": sum(count > 1 for count in sources),
    }


async def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    with CostLog(arguments.out) as costs:
        return await _build(arguments, costs)


async def _build(arguments: argparse.Namespace, costs: CostLog) -> dict[str, Any]:
    started = time.perf_counter()
    corpus = documents_from(arguments)
    component = Component.open(arguments.t2t, "t2t") if arguments.t2t else None
    encoder = load_sentence_encoder(arguments.encoder)
    model = extractor_name(component or arguments.backbone, arguments.constrain)
    # Fails on an index of another encoder or extractor before hours of extraction, not after.
    index = PropositionIndex.load(arguments.out, encoder, model)
    documents = new_documents(index, corpus)
    if documents:
        await _extend(index, documents, component, arguments, costs)
    if not index.propositions:
        raise PropositionIndexError(
            f"no triple in {len(index.documents)} documents: is the extractor, "
            f"{arguments.t2t or arguments.backbone}, trained?"
        )
    seconds = round(time.perf_counter() - started, 1)
    return {"added now": len(documents), **counts_of(index), "seconds": seconds}


async def _extend(
    index: PropositionIndex,
    documents: Sequence[Passage],
    component: Component | None,
    arguments: argparse.Namespace,
    costs: CostLog,
) -> None:
    engine = build_engine(
        engine_options_from(arguments),
        backbone=component.backbone if component else arguments.backbone,
        adapters={T2T_ADAPTER: component.folder} if component else {},
    )
    extractor = open_extractor(
        costs.metered(engine),
        component or arguments.backbone,
        arguments.cache,
        arguments.constrain,
    )
    try:
        await add_to_index(index, documents, extractor, arguments.out)
    finally:
        await engine.close()
        extractor.cache.close()


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    configure_logging()
    counts = asyncio.run(_run(arguments))
    report_counts("Proposition index in", counts, arguments.out, arguments.json)


if __name__ == "__main__":
    main()
