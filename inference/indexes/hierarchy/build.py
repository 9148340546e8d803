"""Documents into a hierarchy and out of it, chunk by chunk, and vectors brought up to date."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from inference.engines.contract import Engine
from inference.indexes.extraction import chunks as slices
from inference.indexes.growing import check_encoder, read_each
from inference.indexes.hierarchy.extraction import ChunkExtractor, chunk_text
from inference.indexes.hierarchy.graph import TopicGraph
from inference.indexes.hierarchy.store import HierarchyStore, StoredChunk, StoredFact
from inference.indexes.hierarchy.topics import with_topics
from inference.indexes.hierarchy.vectors import (
    LEVELS,
    SAME_MEANING,
    alike_pairs,
    label_key,
    merged_names,
)
from inference.retrieval.passages import Passage
from models.files.sentence_encoder import SentenceEncoder
from models.formats.prompts import passage_text

_DOCUMENTS = 1024
logger = logging.getLogger(__name__)
ENCODER = "encoder"
FINGERPRINT = "encoder_fingerprint"
THRESHOLD = "merge_threshold"
_SENTENCES = 2048


@dataclass(frozen=True)
class Chunking:
    """The settings by which documents are cut (TH-RAG App. B)."""

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

    async for _ in read_each(store.waiting_chunks(), extract_one, "extract", "chunks"):
        pass
    return costs


def check_store(store: HierarchyStore, encoder: SentenceEncoder) -> None:
    """Raise IndexMismatchError, naming both, where a hierarchy has vectors of another encoder."""
    about = store.about()
    if FINGERPRINT in about:
        check_encoder("hierarchy", about[ENCODER], about[FINGERPRINT], encoder)


def refresh(store: HierarchyStore, encoder: SentenceEncoder, threshold: float) -> None:
    """Embed new sentences and topics, find which topics mean the same, drop topics without a fact.

    May be killed at any time and called again. Raises IndexMismatchError.
    """
    check_store(store, encoder)
    about = store.about()
    if about.get(THRESHOLD, str(threshold)) != str(threshold):
        logger.info("topics are compared anew, at %s in place of %s", threshold, about[THRESHOLD])
        for level in LEVELS:
            store.vectors.delete_labels(level, store.vectors.labels(level, encoder.dimension)[0])
    store.note({ENCODER: encoder.name, FINGERPRINT: encoder.fingerprint, THRESHOLD: str(threshold)})
    waiting = store.vectors.unembedded_sentences()
    with tqdm(total=len(waiting), desc="embed", unit=" sentences") as bar:
        for part in slices(waiting, _SENTENCES):
            # A sentence says "she"; its document's title says who.
            vectors = encoder.encode([passage_text(title, text) for _, title, text in part])
            store.vectors.put_sentence_vectors([number for number, _, _ in part], vectors)
            bar.update(len(part))
    subtopics = label_counts(store.facts())["subtopic"]
    _refresh_labels(store, "subtopic", subtopics, encoder, threshold)
    # Where the corpus names topics, it does so by the subtopics' vectors.
    topics = label_counts(placed_facts(store, encoder))["topic"]
    _refresh_labels(store, "topic", topics, encoder, threshold)


def _refresh_labels(
    store: HierarchyStore,
    level: str,
    counts: Counter[str],
    encoder: SentenceEncoder,
    threshold: float,
) -> None:
    known, _ = store.vectors.labels(level, encoder.dimension)
    store.vectors.delete_labels(level, [name for name in known if name not in counts])
    new = sorted(set(counts).difference(known))
    if not new:
        return
    vectors = encoder.encode(new)
    # Names without their pairs would never be compared: both are written at once.
    old_names, old_vectors = store.vectors.labels(level, encoder.dimension)
    pairs = [
        *alike_pairs(new, vectors, old_names, old_vectors, threshold),
        *alike_pairs(new, vectors, new, vectors, threshold),
    ]
    store.vectors.put_labels(level, new, vectors, pairs)


def placed_facts(store: HierarchyStore, encoder: SentenceEncoder) -> list[StoredFact]:
    """Return all facts, each with topics: those of the indexing model, or named from the corpus."""
    facts = store.facts()
    if all(fact.subject_topic and fact.object_topic for fact in facts):
        return facts
    return with_topics(facts, *store.vectors.labels("subtopic", encoder.dimension))


def label_counts(facts: list[StoredFact]) -> dict[str, Counter[str]]:
    """Return the facts of each topic and subtopic, by `label_key`."""
    raw = {
        "topic": Counter(name for f in facts for name in (f.subject_topic, f.object_topic)),
        "subtopic": Counter(
            name for f in facts for name in (f.subject_subtopic, f.object_subtopic)
        ),
    }
    counts: dict[str, Counter[str]] = {level: Counter() for level in LEVELS}
    for level, names in raw.items():
        for name, count in names.items():
            counts[level][label_key(name)] += count
    return counts


def called_names(store: HierarchyStore, facts: list[StoredFact]) -> dict[str, dict[str, str]]:
    """By level, what each topic's key is called after merging."""
    counts = label_counts(facts)
    return {level: merged_names(counts[level], store.vectors.alike(level)) for level in LEVELS}


def finish(
    store: HierarchyStore, encoder: SentenceEncoder, threshold: float | None
) -> dict[str, Any]:
    """Embed what is new, merge topics, and count what there is (Table 4).

    threshold: None is the one that the hierarchy was built with.
    """
    chosen = float(store.about().get(THRESHOLD, SAME_MEANING)) if threshold is None else threshold
    refresh(store, encoder, chosen)
    facts = placed_facts(store, encoder)
    called = called_names(store, facts)
    row_of = {number: row for row, (number, _, _) in enumerate(store.sentences())}
    merged = {
        f"{level} names merged": sum(name != key for key, name in names.items())
        for level, names in called.items()
    }
    return {**store.counts(), **TopicGraph(facts, row_of, called).statistics(), **merged}
