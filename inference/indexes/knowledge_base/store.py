"""A knowledge base on disk: entries, an index over their conditions, and extractor outputs."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import AppendLog, atomic_directory, atomic_write
from inference.indexes.growing import check_encoder, new_documents
from inference.indexes.knowledge_base.entries import (
    Entry,
    EntryTable,
    clean_output,
    read_entries,
    write_entries,
)
from inference.retrieval.dense import DenseRetriever
from inference.retrieval.milvus_client import is_milvus
from inference.retrieval.milvus_vectors import VectorCollection, open_collection
from inference.retrieval.passages import Passage, clean_queries
from models.files.sentence_encoder import SentenceEncoder
from models.formats.fields import FieldReader
from models.formats.prompts import passage_text

LOG_FILE = "outputs.jsonl"
BASE_FOLDER = "base"
ENTRIES_FILE = "entries.jsonl"
INDEX_FOLDER = "index"
ABOUT_FILE = "about.json"
DOCUMENTS_FILE = "documents.json"
MIN_CONFIDENCE = "min_confidence"
NO_TRIPLETS = "no usable triplet"
"""What an error says of outputs that hold nothing to search by."""


@dataclass(frozen=True)
class Output:
    """One document and the extractor's output; `was_cut` at the token limit.

    confidence: the geometric mean of its tokens' probabilities; None where it is not known.
    """

    id: str
    title: str
    text: str
    output: str
    was_cut: bool
    confidence: float | None = None


class OutputLog:
    """An append-only JSON Lines file of outputs, by document id."""

    def __init__(self, path: Path) -> None:
        """Read it where it exists."""
        self._log = AppendLog(path, "Remove the line; its document is then extracted again")
        found = (_output(where, record) for where, record in self._log.read())
        self.outputs = {output.id: output for output in found}

    def append(self, outputs: Iterable[Output]) -> None:
        """Write outputs through to the disk."""
        new = list(outputs)
        self._log.append(asdict(output) for output in new)
        self.outputs.update((output.id, output) for output in new)

    def missing(self, passages: Sequence[Passage]) -> tuple[list[Passage], int]:
        """Return the documents without an output, each id once, and how many have one.

        Raises:
            DuplicateDocumentError: an id that stands for two different documents.
        """

        def known(name: str) -> tuple[str, str] | None:
            output = self.outputs.get(name)
            return (output.title, output.text) if output else None

        new = new_documents(
            passages, known, lambda p: (p.title, p.text), "or build a new knowledge base"
        )
        return new, len(passages) - len(new)


def _output(where: str, record: Mapping[str, Any]) -> Output:
    reader = FieldReader(record, where)
    return Output(
        reader.text("id"),
        reader.text("title", ""),
        reader.text("text"),
        reader.text("output", ""),
        bool(record.get("was_cut")),
        record.get("confidence"),
    )


class KnowledgeBaseError(UserError, ValueError):
    """A folder that cannot serve as the knowledge base; the message says which and why."""


@dataclass(frozen=True)
class EntryHit:
    """An entry found by its condition; the score is a cosine similarity."""

    entry: Entry
    score: float


@dataclass
class KnowledgeBase:
    """Entries and the retriever over their conditions (Tri-RAG §III-C, eq. 14 and 15).

    about: what it was built with, and counts of everything kept, merged and dropped. collection:
    of the conditions' vectors, where they are searched in Milvus. documents: the ids of those that
    are in it, with a triplet or without; None where a base from before does not tell.
    """

    entries: list[Entry]
    retriever: DenseRetriever
    about: dict[str, Any] = field(default_factory=dict)
    collection: VectorCollection | None = None
    documents: list[str] | None = None

    def search(self, queries: Sequence[str], top_k: int) -> list[list[EntryHit]]:
        """Return the entries whose conditions are closest to each query, best first."""
        if not queries:
            return []
        vectors = self.retriever.encoder.encode(clean_queries(queries))
        index = self.retriever.index if self.collection is None else self.collection
        found = index.nearest(vectors, top_k)
        return [[EntryHit(self.entries[row], score) for row, score in ranking] for ranking in found]

    def keep_vectors_in(self, place: object, renew: bool = False) -> None:
        """Search in Milvus from now on, where the vectors are put if they are not there yet.

        Nothing can be added then. place, renew, raises: see `open_collection`.
        """
        conditions = [entry.condition for entry in self.entries]
        retriever = self.retriever
        self.collection = open_collection(
            place, "conditions", conditions, retriever.index.vectors, retriever.encoder, renew
        )

    def save(self, folder: Path) -> None:
        """Write entries, index, counts and documents into FOLDER/base, whole or not at all."""
        with atomic_directory(folder / BASE_FOLDER) as target:
            write_entries(target / ENTRIES_FILE, self.entries)
            self.retriever.save(target / INDEX_FOLDER)
            with atomic_write(target / ABOUT_FILE) as handle:
                json.dump(self.about, handle, indent=2, ensure_ascii=False)
            if self.documents is not None:
                with atomic_write(target / DOCUMENTS_FILE) as handle:
                    json.dump(self.documents, handle)

    @classmethod
    def load(
        cls, folder: Path, encoder: SentenceEncoder, place: str | Path | None = None
    ) -> "KnowledgeBase":
        """Read what `save` wrote.

        place: of the corpus's index; where it is one of Milvus, the vectors are searched there.

        Raises:
            KnowledgeBaseError: no knowledge base there.
            IndexMismatchError: its conditions were embedded with another encoder; names both.
            MilvusError: as `keep_vectors_in`.
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
        listed = base / DOCUMENTS_FILE
        documents = json.loads(listed.read_text(encoding="utf-8")) if listed.is_file() else None
        knowledge_base = cls(entries, retriever, about, documents=documents)
        if is_milvus(place):
            knowledge_base.keep_vectors_in(place)
        return knowledge_base


def is_built(folder: Path) -> bool:
    """Return whether a folder holds a whole knowledge base."""
    return (folder / BASE_FOLDER / ABOUT_FILE).is_file()


def condition_passages(entries: Sequence[Entry], start: int = 0) -> list[Passage]:
    """Return the entries as what the retriever indexes: the condition and nothing else."""
    return [
        Passage(str(number), "", entry.condition) for number, entry in enumerate(entries, start)
    ]


def extend(
    base: KnowledgeBase | None,
    outputs: Iterable[Output],
    encoder: SentenceEncoder,
    min_confidence: float = 0.0,
) -> KnowledgeBase:
    """Add what an extractor wrote about further documents; only new conditions are embedded.

    min_confidence: outputs below it are left out and counted (Tri-RAG §III-C, Quality control);
    one of unknown confidence counts as below any but 0.

    Raises:
        KnowledgeBaseError: nothing that was written is of use, and there is no base yet; or the
            base was built with another `min_confidence`.
        IndexMismatchError: the base was built with another encoder.
    """
    if base is not None:
        own = base.retriever.encoder
        check_encoder("knowledge base", own.name, own.fingerprint, encoder)
    about = {MIN_CONFIDENCE: min_confidence, **(base.about if base else {})}
    if about[MIN_CONFIDENCE] != min_confidence:
        raise KnowledgeBaseError(
            f"the knowledge base was begun with a least confidence of {about[MIN_CONFIDENCE]}, and "
            f"{min_confidence} was given. Use the first, or name another folder"
        )
    counts = Counter(about.get("counts", {}))
    table = EntryTable(base.entries if base else [])
    before = len(table.entries)
    added: list[str] = []
    for output in outputs:
        added.append(output.id)
        text = passage_text(output.title, output.text)
        cleaned = clean_output(output.output, text, output.was_cut)
        counts["documents"] += 1
        if (output.confidence or 0.0) < min_confidence:
            counts["documents below the least confidence"] += 1
            continue
        counts["documents without a triplet"] += not cleaned.triplets
        counts["triplets"] += len(cleaned.triplets)
        counts.update({f"dropped: {reason}": n for reason, n in cleaned.dropped.items()})
        for triplet in cleaned.triplets:
            table.add(triplet, output.id)
    counts["merged into a condition that was there"] += table.merged
    counts["entries"] = len(table.entries)
    if not table.entries:
        raise KnowledgeBaseError(
            f"{NO_TRIPLETS} in {counts['documents']} documents: is this a trained extractor?"
        )
    new = condition_passages(table.entries[before:], before)
    if base is None:
        retriever = DenseRetriever(new, encoder)
    else:
        retriever = base.retriever
        retriever.add(new)
    about["counts"] = dict(+counts)
    known = [] if base is None else base.documents
    documents = None if known is None else [*known, *added]
    return KnowledgeBase(table.entries, retriever, about, documents=documents)
