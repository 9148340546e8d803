"""Folders of files as a corpus: what changed since the last time is read, the rest is kept."""

import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock
from tqdm import tqdm

from common.errors import UserError
from common.files import atomic_write, file_sha256, is_disk_full
from inference.documents.chunks import Chunk, CountTokens, chunks_of
from inference.documents.document import (
    Document,
    MissingReaderError,
    UnreadableFileError,
    encodable,
    escaped,
)
from inference.documents.readers import READERS, read_documents
from models.formats.planning import one_line

logger = logging.getLogger(__name__)
STORE_SUFFIX = ".files"
MAX_FILE_BYTES = 200 * 2**20
_FORMAT = 1
# The size of a file that is read again in any case: what stood in the way may be gone.
_UNREAD = -1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL, sha256 TEXT NOT NULL,
    problem TEXT NOT NULL, notes TEXT NOT NULL, chunks TEXT NOT NULL
) WITHOUT ROWID;
"""


class IngestionError(UserError, ValueError):
    """Files of which no corpus can be made; the message says why and what to do."""


@dataclass
class Ingested:
    """The outcome of one run.

    counts: files read now, unchanged, gone and left out, and passages. problems: why a file was
    left out, by its path; notes: what was replaced in one that was read.
    """

    counts: Counter[str] = field(default_factory=Counter)
    problems: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _File:
    """A file as the store knows it."""

    size: int
    modified: int
    sha256: str
    problem: str
    notes: list[str]
    chunks: list[Chunk]


def ingest(
    paths: Sequence[Path], out: Path, max_tokens: int, tokenizer: str, count_tokens: CountTokens
) -> Ingested:
    """Write the passages of files and folders to `out`, JSON Lines, and return what was done.

    A file that has not changed since an earlier run into the same `out` is not read again; each
    file that is read is kept at once, so that a run which is stopped goes on where it was. A
    passage that two files share stands once, with its first place. tokenizer: the name of what
    counts; with another one, or another budget, everything is read anew.

    Raises IngestionError where a path does not exist, or nothing at all can be read.
    """
    paths_found = list(_files(paths, out))
    out.parent.mkdir(parents=True, exist_ok=True)
    store = out.with_name(out.name + STORE_SUFFIX)
    # Two at once would read everything twice and write over each other.
    with (
        _disk_errors(out),
        FileLock(f"{store}.lock"),
        closing(_opened(store, max_tokens, tokenizer)) as connection,
    ):
        done = Ingested()
        files = {
            path: _take_in(path, connection, max_tokens, count_tokens, done)
            for path in tqdm(paths_found, desc="ingest", unit=" files")
        }
        done.counts["files gone"] = _forget(connection, set(map(_name, files)))
        _write(files, out, done)
    return done


@contextmanager
def _disk_errors(out: Path) -> Iterator[None]:
    """Raise IngestionError where the disk is full."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        if is_full or is_disk_full(error):
            raise IngestionError(
                f"{out.parent}: the disk is full; free some space and run again: what was read is "
                "kept, and so is an earlier corpus"
            ) from error
        raise


def _files(paths: Sequence[Path], out: Path) -> Iterator[Path]:
    """Yield the files of all paths, each once, hidden ones and the run's own left out."""
    seen = {out.resolve()}
    store = f"{out.resolve()}{STORE_SUFFIX}"
    for path in paths:
        if not path.exists():
            raise IngestionError(f"{path} does not exist; name a file or a folder")
        found = [path] if path.is_file() else sorted(filter(_is_file, path.rglob("*")))
        for file in found:
            inside = file.relative_to(path).parts if path.is_dir() else ()
            resolved = file.resolve()
            is_left_out = resolved in seen or str(resolved).startswith(store)
            if not is_left_out and not any(part.startswith(".") for part in inside):
                seen.add(resolved)
                yield resolved


def _is_file(path: Path) -> bool:
    """Return whether a path is to be read as a file; one that may not be seen is, and is named."""
    try:
        return path.is_file()
    except OSError:
        return True


def _name(path: Path) -> str:
    """Return a file's path; one that is no UTF-8 as an address, which no other file has."""
    try:
        str(path).encode()
        return str(path)
    except UnicodeEncodeError:
        return path.as_uri()


def _opened(store: Path, max_tokens: int, tokenizer: str) -> sqlite3.Connection:
    """Return the store, emptied where it was made in another way."""
    made = {"format": str(_FORMAT), "max_tokens": str(max_tokens), "tokenizer": tokenizer}
    connection = sqlite3.connect(store)
    try:
        # A file that a crash of the machine takes back is read again.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        with connection:
            connection.executescript(_SCHEMA)
            if dict(connection.execute("SELECT name, value FROM about")) != made:
                connection.execute("DELETE FROM files")
                connection.execute("DELETE FROM about")
                connection.executemany("INSERT INTO about VALUES (?, ?)", made.items())
    except sqlite3.DatabaseError as error:
        connection.close()
        raise IngestionError(
            f"{store} is no list of files read before ({error}); remove it, and all are read again"
        ) from error
    return connection


def _take_in(
    path: Path,
    connection: sqlite3.Connection,
    max_tokens: int,
    count_tokens: CountTokens,
    done: Ingested,
) -> _File:
    """Return what a file holds, read now if it changed, and count it."""
    known = _known(connection, path)
    file = _as_it_is(path, known, max_tokens, count_tokens)
    if file is not known:
        _keep(connection, path, file)
    if file.problem:
        done.counts["files left out"] += 1
        done.problems[_name(path)] = file.problem
    else:
        is_read = known is None or known.sha256 != file.sha256
        done.counts["files read" if is_read else "files unchanged"] += 1
    if file.notes:
        done.notes[_name(path)] = file.notes
    return file


def _as_it_is(path: Path, known: _File | None, max_tokens: int, count_tokens: CountTokens) -> _File:
    """Return what is known of a file where it still says that, else what it holds now."""
    try:
        status = path.stat()
        size, modified = status.st_size, status.st_mtime_ns
        if known is not None and (known.size, known.modified) == (size, modified):
            return known
        sha256 = file_sha256(path)
        if known is not None and known.sha256 == sha256:
            return replace(known, size=size, modified=modified)
        problem, notes, documents = _read(path, size)
    except Exception as error:  # A reader's library may raise anything.
        logger.debug("%s cannot be read", path, exc_info=True)
        return _File(_UNREAD, 0, "", escaped(_why(error)), [], [])
    # Outside: what fails to count tokens would fail for every file.
    chunks = [c for document in documents for c in chunks_of(document, max_tokens, count_tokens)]
    problem = problem or ("" if chunks else "holds no text")
    return _File(size, modified, sha256, escaped(problem), notes, chunks)


def _why(error: Exception) -> str:
    """Return why a file cannot be read today, and what to do."""
    if isinstance(error, MissingReaderError):
        return str(error)
    if isinstance(error, OSError):
        return f"cannot be opened ({error.strerror or error}); see that you may read it"
    said = one_line(f"{type(error).__name__}: {error}")
    return f"cannot be read ({said}); save it again, or convert it to another kind"


def _keep(connection: sqlite3.Connection, path: Path, file: _File) -> None:
    chunks = json.dumps([asdict(chunk) for chunk in file.chunks], ensure_ascii=False)
    row = (_name(path), file.size, file.modified, file.sha256, file.problem, json.dumps(file.notes))
    with connection:
        connection.execute("REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, chunks))


def _read(path: Path, size: int) -> tuple[str, list[str], list[Document]]:
    """Return why a file is none that can be read, what was replaced in it, and its documents."""
    if size > MAX_FILE_BYTES:
        most = MAX_FILE_BYTES // 2**20
        return f"has {size // 2**20} MiB, above {most}; split it into smaller files", [], []
    try:
        read = [encodable(document) for document in read_documents(path)]
    except MissingReaderError:
        raise
    except UnreadableFileError as error:
        return str(error), [], []
    notes = [note for document, _ in read for note in document.notes]
    if halves := sum(broken for _, broken in read):
        notes.append(f"{halves} halves of characters were replaced")
    return "", notes, [document for document, _ in read]


def _known(connection: sqlite3.Connection, path: Path) -> _File | None:
    row = connection.execute(
        "SELECT size, modified, sha256, problem, notes, chunks FROM files WHERE path = ?",
        (_name(path),),
    ).fetchone()
    if row is None:
        return None
    size, modified, sha256, problem, notes, chunks = row
    read = [Chunk(**chunk) for chunk in json.loads(chunks)]
    return _File(size, modified, sha256, problem, json.loads(notes), read)


def _forget(connection: sqlite3.Connection, there: set[str]) -> int:
    """Take out the files that are there no more; returns how many they were."""
    known = [path for (path,) in connection.execute("SELECT path FROM files")]
    gone = [(path,) for path in known if path not in there]
    with connection:
        connection.executemany("DELETE FROM files WHERE path = ?", gone)
    return len(gone)


def _write(files: Mapping[Path, _File], out: Path, done: Ingested) -> None:
    """Write the corpus, whole or not at all. Raises IngestionError where there is no passage."""
    first: dict[str, tuple[Path, Chunk]] = {}
    with atomic_write(out) as handle:
        for path, chunk in ((path, chunk) for path, file in files.items() for chunk in file.chunks):
            if chunk.id not in first:
                first[chunk.id] = path, chunk
                handle.write(json.dumps(_record(chunk, path), ensure_ascii=False) + "\n")
                continue
            there, earlier = first[chunk.id]
            if (earlier.title, earlier.text) != (chunk.title, chunk.text):
                raise IngestionError(
                    f"{_name(path)} gives the id '{chunk.id}' to another text than {_name(there)}; "
                    "give each record an id of its own"
                )
            done.counts["passages that came again"] += 1
        if not first:
            kinds = ", ".join(READERS)
            why = "; ".join(f"{path}: {why}" for path, why in list(done.problems.items())[:5])
            raise IngestionError(
                f"none of {len(files)} files holds a text that can be read ({kinds})"
                f"{': ' if why else ''}{why}"
            )
    done.counts["passages"] = len(first)


def _record(chunk: Chunk, path: Path) -> dict[str, Any]:
    page = {} if chunk.page is None else {"page": chunk.page}
    place = {"file": _name(path), **page, "start": chunk.start, "end": chunk.end}
    return {"id": chunk.id, "title": chunk.title, "text": chunk.text, **place}
