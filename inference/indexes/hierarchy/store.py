"""A hierarchical graph on disk: documents and the facts of their chunks, in an SQLite file."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from common.errors import UserError
from common.sqlite import is_out_of_reach, is_read_only, open_sqlite, share
from inference.indexes.growing import new_documents
from inference.indexes.hierarchy.extraction import Extracted
from inference.indexes.hierarchy.vectors import VectorTables
from inference.retrieval.passages import Passage

STORE_FILE = "hierarchy.sqlite"
FORMAT_VERSION = 1
_LOCK_TIMEOUT_SECONDS = 60.0
_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, text TEXT NOT NULL
);
CREATE TABLE chunks (
    number INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    place INTEGER NOT NULL,
    text TEXT NOT NULL,
    dropped TEXT,
    UNIQUE (document, place)
);
CREATE TABLE sentences (
    number INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    chunk INTEGER NOT NULL REFERENCES chunks ON DELETE CASCADE,
    text TEXT NOT NULL,
    vector BLOB,
    UNIQUE (document, text)
);
CREATE INDEX sentences_of_chunk ON sentences (chunk);
CREATE TABLE facts (
    number INTEGER PRIMARY KEY,
    sentence INTEGER NOT NULL REFERENCES sentences ON DELETE CASCADE,
    subject TEXT NOT NULL, predicate TEXT NOT NULL, object TEXT NOT NULL,
    subject_topic TEXT NOT NULL, subject_subtopic TEXT NOT NULL,
    object_topic TEXT NOT NULL, object_subtopic TEXT NOT NULL,
    UNIQUE (sentence, subject, predicate, object)
);
CREATE TABLE labels (
    level TEXT NOT NULL, name TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (level, name)
) WITHOUT ROWID;
CREATE TABLE alike (
    level TEXT NOT NULL, one TEXT NOT NULL, other TEXT NOT NULL, similarity REAL NOT NULL,
    PRIMARY KEY (level, one, other)
) WITHOUT ROWID;
CREATE INDEX alike_other ON alike (level, other);
"""


class HierarchyError(UserError, ValueError):
    """A folder that cannot serve as the hierarchy; the message says which, why and what to do."""


class _Connection(sqlite3.Connection):
    """A connection whose changes say so where the file may only be read."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> Literal[False]:
        super().__exit__(kind, error, traceback)
        if is_read_only(error):
            [(_, _, path)] = self.execute("PRAGMA database_list")
            raise HierarchyError(
                f"{path}: may only be read. Copy its folder to where it can be changed"
            ) from error
        return False


def open_database(folder: Path, create: bool = False) -> sqlite3.Connection:
    """Open the file of a folder, or with `create` begin one where there is none.

    Raises:
        HierarchyError: none there, a file that is none or may not be read, or one of another
            format version; also of a change of one that may only be read.
    """
    path = folder / STORE_FILE
    if not create and not path.is_file():
        raise HierarchyError(
            f"{folder}: holds no hierarchy. Build it with inference/build_hierarchy.py"
        )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return _open(path)
    except sqlite3.DatabaseError as error:
        if is_out_of_reach(error):
            raise HierarchyError(
                f"{path}: cannot be opened ({error}). See that you may read it, or name another "
                "folder"
            ) from error
        raise HierarchyError(
            f"{path}: cannot be read as a hierarchy ({error}). Name another folder, or remove the "
            "file and build it again"
        ) from error


def _open(path: Path) -> sqlite3.Connection:
    connection = open_sqlite(path, _LOCK_TIMEOUT_SECONDS, factory=_Connection)
    [version] = connection.execute("PRAGMA user_version").fetchone()
    [tables] = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if (tables or version) and version != FORMAT_VERSION:
        connection.close()
        raise HierarchyError(
            f"{path}: written in format {version}, and this release reads format {FORMAT_VERSION}. "
            "Build it again in another folder, or use the release that wrote it"
        )
    share(connection)
    connection.execute("PRAGMA foreign_keys=ON")
    if not tables:
        connection.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version={FORMAT_VERSION};COMMIT;")
    return connection


@dataclass(frozen=True, slots=True)
class StoredFact:
    """One fact as the graph reads it; `sentence` is a sentence's number."""

    sentence: int
    subject: str
    predicate: str
    object: str
    subject_topic: str
    subject_subtopic: str
    object_topic: str
    object_subtopic: str


@dataclass(frozen=True)
class StoredChunk:
    """A chunk by its number, with its document's id and title."""

    number: int
    document: str
    title: str
    place: int
    text: str

    @property
    def passage(self) -> Passage:
        """As a passage, under its document's id."""
        return Passage(self.document, self.title, self.text)


class HierarchyStore:
    """The file of `open_database`, which raises what is wrong with it; one writer at a time.

    vectors: of the sentences and topics.
    """

    def __init__(self, folder: Path, create: bool = False) -> None:
        self._connection = open_database(folder, create)
        self.vectors = VectorTables(self._connection)

    def close(self) -> None:
        """Release the file."""
        self._connection.close()

    def about(self) -> dict[str, str]:
        """Return what it was made with, by name."""
        return dict(self._connection.execute("SELECT name, value FROM about ORDER BY name"))

    def note(self, values: Mapping[str, str]) -> None:
        """Write down what it is made with."""
        with self._connection:
            self._connection.executemany("REPLACE INTO about VALUES (?, ?)", values.items())

    def add_documents(self, documents: Sequence[tuple[Passage, Sequence[str]]]) -> int:
        """Register documents with their chunks, yet to be extracted; returns how many are new.

        Raises:
            DuplicateDocumentError: an id that stands for another title or text already.
        """
        chunks_of = {passage.id: chunks for passage, chunks in documents}
        new = new_documents(
            [passage for passage, _ in documents],
            self.document_text,
            lambda passage: (passage.title, passage.text),
            "or replace what is there with --replace",
        )
        with self._connection as connection:
            for passage in new:
                number = connection.execute(
                    "INSERT INTO documents (id, title, text) VALUES (?, ?, ?)",
                    (passage.id, passage.title, passage.text),
                ).lastrowid
                connection.executemany(
                    "INSERT INTO chunks (document, place, text) VALUES (?, ?, ?)",
                    [(number, *chunk) for chunk in enumerate(chunks_of[passage.id])],
                )
        return len(new)

    def delete_documents(self, ids: Iterable[str]) -> int:
        """Take documents out with everything that only they gave; returns how many there were."""
        with self._connection as connection:
            deleted = sum(
                connection.execute("DELETE FROM documents WHERE id = ?", (name,)).rowcount
                for name in ids
            )
        return deleted

    def document_text(self, name: str) -> tuple[str, str] | None:
        """Return the title and text of a document; None where there is none with this id."""
        row: tuple[str, str] | None = self._connection.execute(
            "SELECT title, text FROM documents WHERE id = ?", (name,)
        ).fetchone()
        return row

    def waiting_chunks(self) -> list[StoredChunk]:
        """Return the chunks that are not extracted yet, in the documents' order."""
        return list(self._chunks("WHERE chunks.dropped IS NULL"))

    def chunks(self) -> list[StoredChunk]:
        """Return all chunks, in the documents' order."""
        return list(self._chunks(""))

    def _chunks(self, condition: str) -> Iterator[StoredChunk]:
        rows = self._connection.execute(
            "SELECT chunks.number, documents.id, title, place, chunks.text FROM chunks "
            f"JOIN documents ON chunks.document = documents.number {condition} ORDER BY 1"
        )
        yield from (StoredChunk(*row) for row in rows)

    def put(self, chunk: int, extracted: Extracted) -> None:
        """Store what a chunk gave, in one transaction; a sentence is stored once a document."""
        with self._connection as connection:
            [document] = connection.execute(
                "SELECT document FROM chunks WHERE number = ?", (chunk,)
            ).fetchone()
            for fact in extracted.facts:
                connection.execute(
                    "INSERT OR IGNORE INTO sentences (document, chunk, text) VALUES (?, ?, ?)",
                    (document, chunk, fact.sentence),
                )
                connection.execute(
                    "INSERT OR IGNORE INTO facts SELECT NULL, number, ?, ?, ?, ?, ?, ?, ? "
                    "FROM sentences WHERE document = ? AND text = ?",
                    (
                        fact.triple.subject, fact.triple.predicate, fact.triple.object,
                        fact.subject.topic, fact.subject.subtopic,
                        fact.object.topic, fact.object.subtopic,
                        document, fact.sentence,
                    ),
                )  # fmt: skip
            connection.execute(
                "UPDATE chunks SET dropped = ? WHERE number = ?",
                (json.dumps(+extracted.dropped), chunk),
            )

    def facts(self) -> list[StoredFact]:
        """Return all facts, in the order in which they were found."""
        rows = self._connection.execute(
            "SELECT sentence, subject, predicate, object, subject_topic, subject_subtopic, "
            "object_topic, object_subtopic FROM facts ORDER BY number"
        )
        return [StoredFact(*row) for row in rows]

    def sentences(self) -> list[tuple[int, int, str]]:
        """Return number, chunk and text of every sentence, by number."""
        return list(
            self._connection.execute("SELECT number, chunk, text FROM sentences ORDER BY number")
        )

    def counts(self) -> dict[str, int]:
        """Return how many documents, chunks, sentences, facts there are, and what was dropped."""
        one = self._connection.execute
        counts = {
            "documents": one("SELECT COUNT(*) FROM documents").fetchone()[0],
            "chunks": one("SELECT COUNT(*) FROM chunks").fetchone()[0],
            "chunks not extracted yet": one(
                "SELECT COUNT(*) FROM chunks WHERE dropped IS NULL"
            ).fetchone()[0],
            "chunks without a fact": one(
                "SELECT COUNT(*) FROM chunks WHERE dropped IS NOT NULL AND NOT EXISTS "
                "(SELECT 1 FROM sentences WHERE sentences.chunk = chunks.number)"
            ).fetchone()[0],
            "sentences": one("SELECT COUNT(*) FROM sentences").fetchone()[0],
            "facts": one("SELECT COUNT(*) FROM facts").fetchone()[0],
        }
        for [dropped] in one("SELECT dropped FROM chunks WHERE dropped NOT IN ('{}')"):
            for reason, count in json.loads(dropped).items():
                counts[f"dropped: {reason}"] = counts.get(f"dropped: {reason}", 0) + count
        return counts
