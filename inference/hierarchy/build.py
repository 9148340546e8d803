"""Documents into a hierarchy and out of it, chunk by chunk."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inference.engines.contract import Engine
from inference.extraction import chunks as slices
from inference.hierarchy.chunking import chunk_text
from inference.hierarchy.extraction import ChunkExtractor
from inference.hierarchy.store import HierarchyStore, StoredChunk
from inference.retrieval.passages import Passage

_AT_ONCE = 512
_DOCUMENTS = 1024


@dataclass(frozen=True)
class Chunking:
    """How documents are cut (TH-RAG App. B)."""

    max_tokens: int = 1200
    overlap: int = 100


def register(
    store: HierarchyStore,
    documents: Sequence[Passage],
    engine: Engine,
    chunking: Chunking,
    replace: bool = False,
) -> int:
    """Cut new documents into chunks and note them; returns how many were not there.

    replace: a document whose title or text changed is deleted first.

    Raises:
        DuplicateDocumentError: an id with another title or text, without `replace`; nothing of
            what stands behind it is noted then.
    """
    new = 0
    for part in slices(documents, _DOCUMENTS):
        if replace:
            store.delete_documents(
                passage.id
                for passage in part
                if store.document_text(passage.id) not in (None, (passage.title, passage.text))
            )
        new += store.add_documents(
            [
                (
                    passage,
                    chunk_text(
                        passage.text, chunking.max_tokens, chunking.overlap, engine.count_tokens
                    ),
                )
                for passage in part
            ]
        )
    return new


async def extract_waiting(
    store: HierarchyStore,
    extractor: ChunkExtractor,
    on_chunk: Callable[[StoredChunk], object] | None = None,
) -> Counter[str]:
    """Extract every chunk that waits, each on the disk as soon as it is there; returns the costs.

    Raises EngineError when the model cannot be reached; what was extracted stays.
    """
    costs = Counter({"LLM calls": 0, "input tokens": 0, "output tokens": 0})

    async def extract_one(chunk: StoredChunk) -> None:
        extracted = await extractor.extract(chunk.passage)
        store.put(chunk.number, extracted)
        for done in extracted.completions:
            costs["LLM calls"] += 1
            costs["input tokens"] += done.input_tokens
            costs["output tokens"] += done.output_tokens
        if on_chunk is not None:
            on_chunk(chunk)

    for part in slices(store.waiting_chunks(), _AT_ONCE):
        await asyncio.gather(*map(extract_one, part))
    return costs
