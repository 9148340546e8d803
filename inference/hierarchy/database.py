"""The hierarchical graph's file: SQLite, in a format with a version.

Nothing is pickled; vectors are float32, little-endian.
"""

import sqlite3
from pathlib import Path

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


class HierarchyError(ValueError):
    """A folder that cannot serve as the hierarchy; the message says which, why and what to do."""


def open_database(folder: Path, create: bool = False) -> sqlite3.Connection:
    """Open the file of a folder, or with `create` begin one where there is none.

    Raises:
        HierarchyError: none there, a file that is none, or one of another format version.
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
        raise HierarchyError(
            f"{path}: cannot be read as a hierarchy ({error}). Name another folder, or remove the "
            "file and build it again"
        ) from error


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT_SECONDS)
    [version] = connection.execute("PRAGMA user_version").fetchone()
    [tables] = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if (tables or version) and version != FORMAT_VERSION:
        connection.close()
        raise HierarchyError(
            f"{path}: written in format {version}, and this release reads format {FORMAT_VERSION}. "
            "Build it again in another folder, or use the release that wrote it"
        )
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA foreign_keys=ON")
    if not tables:
        connection.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version={FORMAT_VERSION};COMMIT;")
    return connection
