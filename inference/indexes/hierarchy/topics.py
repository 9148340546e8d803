"""Topics that a corpus names itself: its subtopics, related ones under the most frequent of them.

For an indexing model that writes no topics (TH-RAG has its own write them from the document, §3.1).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from inference.indexes.hierarchy.store import StoredFact
from inference.indexes.hierarchy.vectors import alike_pairs, label_key, merged_names
from models.files.sentence_encoder import FloatArray

INDEXER = "indexer"
"""Under which a hierarchy notes its indexing model."""
OF_CORPUS = " topics of the corpus"
RELATED = 0.5
"""Cosine from which two subtopics are of one topic, by all-MiniLM-L6-v2: city/town 0.77, song/album
0.70, politician/footballer 0.53, but film/song 0.40 and film/person 0.35."""


def has_topics_of_its_own(indexer: str) -> bool:
    """Return whether topics were named by the indexing model or from the corpus, by what a
    hierarchy notes as its model; the others are fields from a list.
    """
    return indexer.startswith("prompted ") or " topic " in indexer or OF_CORPUS in indexer


def topics_of_subtopics(
    counts: Mapping[str, int], names: Sequence[str], vectors: FloatArray
) -> dict[str, str]:
    """Return each subtopic's topic: itself, or the most similar of the more frequent ones.

    counts: facts by `label_key`. names: the same keys, with vectors [n, d] of length 1. What is
    chosen depends on these alone, not on the order in which the corpus was read.
    """
    return merged_names(counts, alike_pairs(names, vectors, names, vectors, RELATED))


def with_topics(
    facts: Sequence[StoredFact], names: Sequence[str], vectors: FloatArray
) -> list[StoredFact]:
    """Return the facts, those without a topic under that of their subtopic.

    names: the subtopics' keys that have vectors [n, d]; all that facts without a topic have.
    """
    counts = Counter(label_key(s) for f in facts for s in (f.subject_subtopic, f.object_subtopic))
    topics = topics_of_subtopics(counts, names, vectors)
    return [
        replace(
            fact,
            subject_topic=fact.subject_topic or topics[label_key(fact.subject_subtopic)],
            object_topic=fact.object_topic or topics[label_key(fact.object_subtopic)],
        )
        for fact in facts
    ]
