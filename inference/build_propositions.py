"""A proposition index of a corpus, for the t2rag loop (T²RAG §4.2).

Extracts every document's triples, puts each fact in one line, embeds those lines and keeps which
documents state them. Run it again with a larger corpus, or with further documents alone: only what
is new is extracted, embedded and written. An interrupted build goes on where it was.
"""

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from inference.engines.contract import T2T_ADAPTER
from inference.indexes.extraction import TripleExtractor
from inference.indexes.growing import read_each
from inference.indexes.propositions.index import PropositionIndex
from inference.indexes.propositions.parts import Document, PropositionIndexError
from inference.loops.kind import LoopOptions
from inference.opening.arguments import command
from inference.opening.components import Component
from inference.opening.extractors import extractor_name, open_extractor
from inference.opening.index_build import IndexBuild, index_parser, run_build
from inference.opening.loop_options import checkpoint_or_none
from inference.retrieval.passages import Passage
from models.formats.passages import passage_key

# A kill loses what was embedded of one part; what was extracted is in the cache.
DOCUMENTS_PER_PART = 2000


def _parser() -> argparse.ArgumentParser:
    parser = index_parser(__doc__, "index", "the propositions")
    add = parser.add_argument
    add(
        "--t2t",
        type=checkpoint_or_none,
        default=LoopOptions.t2t,
        metavar="CHECKPOINT",
        help="text-to-triples component folder, or 'none' to prompt the backbone (default: the "
        "shipped)",
    )
    add("--backbone", default=LoopOptions.backbone, help="what is prompted (default: %(default)s)")
    add("--cache", type=Path, help="SQLite file of triples extracted before (default: user's)")
    return parser


async def add_to_index(
    index: PropositionIndex,
    corpus: Sequence[Passage],
    extractor: TripleExtractor,
    folder: Path,
    per_part: int = DOCUMENTS_PER_PART,
) -> None:
    """Extract and index documents; every `per_part` of them are on disk before the next begin."""

    async def extract(passage: Passage) -> Document:
        [triples] = await extractor.extract([passage])
        return Document(passage.id, passage_key(passage), tuple(triples))

    async for extracted in read_each(corpus, extract, "propositions", "documents", per_part):
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


async def _build(given: IndexBuild) -> dict[str, Any]:
    arguments, folder = given.arguments, given.folder
    component = Component.open(arguments.t2t, "t2t") if arguments.t2t else None
    reader = component or arguments.backbone
    model = extractor_name(reader, arguments.constrain)
    # Fails on an index of another encoder or extractor before hours of extraction, not after.
    index = PropositionIndex.load(folder, given.encoder, model)
    documents = index.missing(given.corpus)
    if documents:
        backbone = component.backbone if component else arguments.backbone
        adapters = {T2T_ADAPTER: component.folder} if component else {}
        async with given.engine(backbone, adapters) as engine:
            extractor = open_extractor(engine, reader, arguments.cache, arguments.constrain)
            with closing(extractor.cache):
                await add_to_index(index, documents, extractor, folder)
    if not index.propositions:
        raise PropositionIndexError(
            f"no triple in {len(index.documents)} documents: is the extractor, "
            f"{arguments.t2t or arguments.backbone}, trained?"
        )
    if arguments.index:
        index.keep_vectors_in(arguments.index, renew=True)
    return {"added now": len(documents), **counts_of(index)}


@command
def main() -> None:
    """Run the command line."""
    run_build(_parser(), "Proposition index", _build)


if __name__ == "__main__":
    main()
