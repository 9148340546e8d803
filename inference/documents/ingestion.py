"""Folders of files as a corpus: what changed since the last time is read, the rest is kept."""

import json
import logging
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock
from tqdm import tqdm

from common.files import atomic_write, file_sha256, is_disk_full
from common.sqlite import is_full
from inference.documents.chunks import Chunk, CountTokens, chunks_of
from inference.documents.document import (
    Document,
    MissingReaderError,
    UnreadableFileError,
    encodable,
    escaped,
)
from inference.documents.files_read import FileRead, FilesRead, IngestionError, name_of
from inference.documents.readers import READERS, read_documents
from models.formats.planning import one_line

logger = logging.getLogger(__name__)
STORE_SUFFIX = ".files"
MAX_FILE_BYTES = 200 * 2**20
# The size of a file that is read again in any case: what stood in the way may be gone.
_UNREAD = -1


@dataclass
class Ingested:
    """The outcome of one run.

    counts: files read now, unchanged, gone and left out, folders left out, and passages.
    problems: why a file or a folder was left out, by its path; notes: what was replaced in a file
    that was read.
    """

    counts: Counter[str] = field(default_factory=Counter)
    problems: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)


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
    listed, problems = _listed(paths, out)
    out.parent.mkdir(parents=True, exist_ok=True)
    store = out.with_name(out.name + STORE_SUFFIX)
    # Two at once would read everything twice and write over each other.
    with (
        _disk_errors(out),
        FileLock(f"{store}.lock"),
        closing(FilesRead(store, max_tokens, tokenizer)) as before,
    ):
        done = Ingested(problems=problems)
        if problems:
            done.counts["folders left out"] = len(problems)
        files = {
            path: _take_in(path, before, max_tokens, count_tokens, done)
            for path in tqdm(listed, desc="ingest", unit=" files")
        }
        done.counts["files gone"] = before.forget(set(map(name_of, files)))
        _write(files, out, done)
    return done


@contextmanager
def _disk_errors(out: Path) -> Iterator[None]:
    """Raise IngestionError where the disk is full."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        if is_full(error) or is_disk_full(error):
            raise IngestionError(
                f"{out.parent}: the disk is full; free some space and run again: what was read is "
                "kept, and so is an earlier corpus"
            ) from error
        raise


def _listed(paths: Sequence[Path], out: Path) -> tuple[list[Path], dict[str, str]]:
    """Return the files of all paths, each once, and why a folder among them may not be listed.

    Hidden ones and the run's own are left out.
    """
    files, problems = dict[Path, None](), dict[str, str]()
    own, store = out.resolve(), f"{out.resolve()}{STORE_SUFFIX}"
    for path in paths:
        if not path.exists():
            raise IngestionError(f"{path} does not exist; name a file or a folder")
        found = [path] if path.is_file() else _inside(path, problems)
        for file in (each.resolve() for each in found):
            if file != own and not str(file).startswith(store):
                files[file] = None
    return list(files), problems


def _inside(folder: Path, problems: dict[str, str]) -> list[Path]:
    """Return the files below a folder in order; what may not be listed is told in `problems`."""

    def cannot_be_listed(error: OSError) -> None:
        problems[name_of(Path(error.filename).resolve())] = escaped(_why(error))

    found = list[Path]()
    for parent, folders, names in os.walk(folder, onerror=cannot_be_listed):
        folders[:] = [name for name in folders if not name.startswith(".")]
        shown = (Path(parent, name) for name in names if not name.startswith("."))
        found.extend(filter(_is_file, shown))
    return sorted(found)


def _is_file(path: Path) -> bool:
    """Return whether a path is to be read as a file; one that may not be seen is, and is named."""
    try:
        return path.is_file()
    except OSError:
        return True


def _take_in(
    path: Path, before: FilesRead, max_tokens: int, count_tokens: CountTokens, done: Ingested
) -> FileRead:
    """Return what a file holds, read now if it changed, and count it."""
    known = before.known(path)
    file = _as_it_is(path, known, max_tokens, count_tokens)
    if file is not known:
        before.keep(path, file)
    if file.problem:
        done.counts["files left out"] += 1
        done.problems[name_of(path)] = file.problem
    else:
        is_read = known is None or known.sha256 != file.sha256
        done.counts["files read" if is_read else "files unchanged"] += 1
    if file.notes:
        done.notes[name_of(path)] = file.notes
    return file


def _as_it_is(
    path: Path, known: FileRead | None, max_tokens: int, count_tokens: CountTokens
) -> FileRead:
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
        return FileRead(_UNREAD, 0, "", escaped(_why(error)), [], [])
    # Outside: what fails to count tokens would fail for every file.
    chunks = [c for document in documents for c in chunks_of(document, max_tokens, count_tokens)]
    problem = problem or ("" if chunks else "holds no text")
    return FileRead(size, modified, sha256, escaped(problem), notes, chunks)


def _why(error: Exception) -> str:
    """Return why a file cannot be read today, and what to do."""
    if isinstance(error, MissingReaderError):
        return str(error)
    if isinstance(error, OSError):
        return f"cannot be opened ({error.strerror or error}); see that you may read it"
    said = one_line(f"{type(error).__name__}: {error}")
    return f"cannot be read ({said}); save it again, or convert it to another kind"


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


def _write(files: Mapping[Path, FileRead], out: Path, done: Ingested) -> None:
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
                    f"{name_of(path)} gives the id '{chunk.id}' to another text than "
                    f"{name_of(there)}; give each record an id of its own"
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
    place = {"file": name_of(path), **page, "start": chunk.start, "end": chunk.end}
    return {"id": chunk.id, "title": chunk.title, "text": chunk.text, **place}
