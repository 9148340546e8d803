"""Brings a hierarchy's vectors up to date with its facts: what is new is embedded, no more."""

import logging
from collections import Counter
from collections.abc import Callable

from inference.hierarchy.merging import alike_pairs, merged_names
from inference.hierarchy.store import HierarchyStore, StoredFact
from inference.hierarchy.vectors import LEVELS, label_key
from inference.retrieval.passages import IndexMismatchError
from models.formats.prompts import passage_text
from models.sentence_encoder import SentenceEncoder

logger = logging.getLogger(__name__)
ENCODER = "encoder"
FINGERPRINT = "encoder_fingerprint"
THRESHOLD = "merge_threshold"
_SENTENCES = 2048


def check_encoder(store: HierarchyStore, encoder: SentenceEncoder) -> None:
    """Raise IndexMismatchError, naming both, where a hierarchy has vectors of another encoder."""
    about = store.about()
    if about.get(FINGERPRINT, encoder.fingerprint) != encoder.fingerprint:
        raise IndexMismatchError(
            f"the hierarchy was built with the encoder {about[ENCODER]}, and {encoder.name} is "
            "given. Use the first with --encoder, or build another hierarchy"
        )


def refresh(
    store: HierarchyStore,
    encoder: SentenceEncoder,
    threshold: float,
    on_embedded: Callable[[int], object] | None = None,
) -> None:
    """Embed new sentences and topics, find which topics mean the same, drop topics without a fact.

    `on_embedded` hears how many sentences are done. May be killed at any time and called again.
    Raises IndexMismatchError.
    """
    check_encoder(store, encoder)
    about = store.about()
    if about.get(THRESHOLD, str(threshold)) != str(threshold):
        logger.info("topics are compared anew, at %s in place of %s", threshold, about[THRESHOLD])
        for level in LEVELS:
            store.vectors.delete_labels(level, store.vectors.labels(level, encoder.dimension)[0])
    store.note({ENCODER: encoder.name, FINGERPRINT: encoder.fingerprint, THRESHOLD: str(threshold)})
    waiting = store.vectors.unembedded_sentences()
    for start in range(0, len(waiting), _SENTENCES):
        part = waiting[start : start + _SENTENCES]
        # A sentence says "she"; its document's title says who.
        vectors = encoder.encode([passage_text(title, text) for _, title, text in part])
        store.vectors.put_sentence_vectors([number for number, _, _ in part], vectors)
        if on_embedded is not None:
            on_embedded(len(part))
    counts = label_counts(store.facts())
    for level in LEVELS:
        _refresh_labels(store, level, counts[level], encoder, threshold)


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


def label_counts(facts: list[StoredFact]) -> dict[str, Counter[str]]:
    """Facts of each topic and subtopic, by `label_key`."""
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
