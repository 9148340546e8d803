"""A knowledge base on disk: entries, an index over their conditions alone, and what made them."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inference.knowledge_base.cleaning import clean_output
from inference.knowledge_base.entries import Entry, EntryTable, read_entries, write_entries
from inference.knowledge_base.output_log import Output
from inference.retrieval.dense import DenseRetriever
from inference.retrieval.passages import IndexMismatchError, Passage
from models.atomic import atomic_directory, atomic_write
from models.formats.prompts import passage_text
from models.sentence_encoder import SentenceEncoder

BASE_FOLDER = "base"
ENTRIES_FILE = "entries.jsonl"
INDEX_FOLDER = "index"
ABOUT_FILE = "about.json"


class KnowledgeBaseError(ValueError):
    """A folder that cannot serve as the knowledge base; the message says which and why."""


@dataclass(frozen=True)
class EntryHit:
    """An entry found by its condition; the score is a cosine similarity."""

    entry: Entry
    score: float


@dataclass
class KnowledgeBase:
    """Entries and the retriever over their conditions (Tri-RAG §III-C, eq. 14 and 15).

    about: what it was built with, and counts of everything kept, merged and dropped.
    """

    entries: list[Entry]
    retriever: DenseRetriever
    about: dict[str, Any] = field(default_factory=dict)

    def search(self, queries: Sequence[str], top_k: int) -> list[list[EntryHit]]:
        """The entries whose conditions are closest to each query, best first."""
        found = self.retriever.search(queries, top_k)
        return [
            [EntryHit(self.entries[int(hit.passage.id)], hit.score) for hit in hits]
            for hits in found
        ]

    def save(self, folder: Path) -> None:
        """Write entries, index and counts into FOLDER/base, whole or not at all."""
        with atomic_directory(folder / BASE_FOLDER) as target:
            write_entries(target / ENTRIES_FILE, self.entries)
            self.retriever.save(target / INDEX_FOLDER)
            with atomic_write(target / ABOUT_FILE) as handle:
                json.dump(self.about, handle, indent=2, ensure_ascii=False)

    @classmethod
    def load(cls, folder: Path, encoder: SentenceEncoder) -> "KnowledgeBase":
        """Read what `save` wrote.

        Raises:
            KnowledgeBaseError: no knowledge base there.
            IndexMismatchError: its conditions were embedded with another encoder; names both.
        """
        base = folder / BASE_FOLDER
        if not is_built(folder):
            raise KnowledgeBaseError(
                f"{folder}: holds no knowledge base. Run inference/build_kb.py, or run it again "
                "where it was interrupted"
            )
        about = json.loads((base / ABOUT_FILE).read_text(encoding="utf-8"))
        entries = list(read_entries(base / ENTRIES_FILE))
        passages = condition_passages(entries)
        retriever = DenseRetriever.load(base / INDEX_FOLDER, passages, encoder)
        return cls(entries, retriever, about)


def is_built(folder: Path) -> bool:
    """Whether a folder holds a whole knowledge base."""
    return (folder / BASE_FOLDER / ABOUT_FILE).is_file()


def condition_passages(entries: Sequence[Entry], start: int = 0) -> list[Passage]:
    """Entries as what the retriever indexes: the condition and nothing else."""
    return [
        Passage(str(number), "", entry.condition) for number, entry in enumerate(entries, start)
    ]


def extend(
    base: KnowledgeBase | None, outputs: Iterable[Output], encoder: SentenceEncoder
) -> KnowledgeBase:
    """Add what an extractor wrote about further documents; only new conditions are embedded.

    Raises:
        KnowledgeBaseError: nothing that was written is of use, and there is no base yet.
        IndexMismatchError: the base was built with another encoder.
    """
    if base is not None and base.retriever.encoder.fingerprint != encoder.fingerprint:
        raise IndexMismatchError(
            f"the knowledge base was built with the encoder {base.retriever.encoder.name}, and "
            f"{encoder.name} is to be added with. Use the first, or build anew"
        )
    about = dict(base.about) if base else {}
    counts = Counter(about.get("counts", {}))
    table = EntryTable(base.entries if base else [])
    before = len(table.entries)
    for output in outputs:
        text = passage_text(output.title, output.text)
        cleaned = clean_output(output.output, text, output.was_cut)
        counts["documents"] += 1
        counts["documents without a triplet"] += not cleaned.triplets
        counts["triplets"] += len(cleaned.triplets)
        counts.update({f"dropped: {reason}": n for reason, n in cleaned.dropped.items()})
        for triplet in cleaned.triplets:
            table.add(triplet, output.id)
    counts["merged into a condition that was there"] += table.merged
    counts["entries"] = len(table.entries)
    if not table.entries:
        raise KnowledgeBaseError(
            f"no usable triplet in {counts['documents']} documents: is this a trained extractor?"
        )
    new = condition_passages(table.entries[before:], before)
    if base is None:
        retriever = DenseRetriever(new, encoder)
    else:
        retriever = base.retriever
        retriever.add(new)
    about["counts"] = dict(+counts)
    return KnowledgeBase(table.entries, retriever, about)
