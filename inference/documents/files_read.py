"""The files that made a corpus, as they were read: what has not changed is not read again."""

import json
import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path

from common.errors import UserError
from common.sqlite import open_sqlite, share
from inference.documents.chunks import Chunk

_FORMAT = 1
_LOCK_TIMEOUT_SECONDS = 60.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL, sha256 TEXT NOT NULL,
    problem TEXT NOT NULL, notes TEXT NOT NULL, chunks TEXT NOT NULL
) WITHOUT ROWID;
"""


class IngestionError(UserError, ValueError):
    """Files of which no corpus can be made; the message says why and what to do."""


@dataclass(frozen=True)
class FileRead:
    """A file as it was read: why it was left out, or blank; what was replaced; its passages."""

    size: int
    modified: int
    sha256: str
    problem: str
    notes: list[str]
    chunks: list[Chunk]


def name_of(path: Path) -> str:
    """Return a file's path; one that is no UTF-8 as an address, which no other file has."""
    try:
        str(path).encode()
        return str(path)
    except UnicodeEncodeError:
        return path.as_uri()


class FilesRead:
    """Files by their paths in SQLite, each kept as soon as it is read."""

    def __init__(self, path: Path, max_tokens: int, tokenizer: str) -> None:
        """Open the list, emptied where other passages were made than these.

        Raises IngestionError for a file that is no such list.
        """
        made = {"format": str(_FORMAT), "max_tokens": str(max_tokens), "tokenizer": tokenizer}
        try:
            self._connection = open_sqlite(path, _LOCK_TIMEOUT_SECONDS)
            try:
                self._begin(made)
            except BaseException:
                self.close()
                raise
        except sqlite3.DatabaseError as error:
            raise IngestionError(
                f"{path} is no list of files read before ({error}); remove it, and all are read "
                "again"
            ) from error

    def _begin(self, made: dict[str, str]) -> None:
        share(self._connection)
        # A file that a crash of the machine takes back is read again.
        self._connection.execute("PRAGMA synchronous=NORMAL")
        with self._connection as connection:
            connection.executescript(_SCHEMA)
            if dict(connection.execute("SELECT name, value FROM about")) != made:
                connection.execute("DELETE FROM files")
                connection.execute("DELETE FROM about")
                connection.executemany("INSERT INTO about VALUES (?, ?)", made.items())

    def known(self, path: Path) -> FileRead | None:
        """Return a file as it was read before; None for one that was not."""
        row = self._connection.execute(
            "SELECT size, modified, sha256, problem, notes, chunks FROM files WHERE path = ?",
            (name_of(path),),
        ).fetchone()
        if row is None:
            return None
        size, modified, sha256, problem, notes, chunks = row
        read = [Chunk(**chunk) for chunk in json.loads(chunks)]
        return FileRead(size, modified, sha256, problem, json.loads(notes), read)

    def keep(self, path: Path, file: FileRead) -> None:
        """Write down what a file holds."""
        chunks = json.dumps([asdict(chunk) for chunk in file.chunks], ensure_ascii=False)
        told = (file.size, file.modified, file.sha256, file.problem, json.dumps(file.notes), chunks)
        with self._connection as connection:
            connection.execute(
                "REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", (name_of(path), *told)
            )

    def forget(self, there: set[str]) -> int:
        """Take out the files that are there no more, and return how many they were."""
        known = [path for (path,) in self._connection.execute("SELECT path FROM files")]
        gone = [(path,) for path in known if path not in there]
        with self._connection as connection:
            connection.executemany("DELETE FROM files WHERE path = ?", gone)
        return len(gone)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
