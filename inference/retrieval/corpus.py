"""A corpus that stays in its file: a passage is read when it is asked for."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import weakref
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from common.cache import cache_folder
from common.errors import UserError
from common.files import atomic_directory, atomic_write, file_sha256
from inference.retrieval.milvus_client import Address, is_milvus
from inference.retrieval.passages import (
    META_FILE,
    SHA256_BITS,
    Passage,
    empty_corpus,
    load_corpus,
    passage_content,
)
from models.formats.records import parse_line

logger = logging.getLogger(__name__)
FOLDER = "corpus"
OFFSETS_FILE, HASHES_FILE, ROWS_FILE = "offsets.npy", "id_hashes.npy", "id_rows.npy"
FORMAT = 1


class ChangedCorpusError(UserError, RuntimeError):
    """A corpus whose file was rewritten while it was open; the message names it."""


@dataclass(frozen=True)
class CorpusState:
    """A corpus file as it was when its passages were counted.

    corpus_sha256: of `corpus_fingerprint`. contents: of `contents_sum`.
    """

    bytes: int
    modified_ns: int
    file_sha256: str
    corpus_sha256: str
    contents: str
    passages: int
    format: int = FORMAT


@dataclass(frozen=True)
class _Places:
    """Where each passage begins and the file's end [n + 1]; ids' hashes, sorted, and their rows."""

    offsets: npt.NDArray[np.uint64]
    hashes: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.uint32]

    def save(self, folder: Path) -> None:
        np.save(folder / OFFSETS_FILE, self.offsets, allow_pickle=False)
        np.save(folder / HASHES_FILE, self.hashes, allow_pickle=False)
        np.save(folder / ROWS_FILE, self.rows, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> _Places:
        names = (OFFSETS_FILE, HASHES_FILE, ROWS_FILE)
        return cls(*(np.load(folder / n, mmap_mode="r", allow_pickle=False) for n in names))


class MappedCorpus(Sequence[Passage]):
    """The passages of a JSON Lines file, each parsed when it is asked for.

    What is kept of a passage are 20 bytes: where it begins, its id's hash and its row; from a
    folder they are memory-mapped, so that processes of one machine share them.
    """

    def __init__(self, path: Path, descriptor: int, state: CorpusState, places: _Places) -> None:
        """Take over an open file's descriptor; see `open`."""
        self.path = path
        self.state = state
        self._places = places
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def open(cls, path: str | Path, folder: str | Path | None = None) -> MappedCorpus:
        """Open a corpus with what `folder` keeps about it, which is made where it is missing.

        A file of the same size and time of change is taken for the same; where only the time
        differs its hash decides. folder: None keeps it in memory.

        Raises RecordError (file, line, field) for a record that breaks the contract,
        EmptyCorpusError for a file that holds none, OSError.
        """
        path, kept = Path(path), Path(folder) if folder else None
        descriptor = os.open(path, os.O_RDONLY)
        try:
            found = _stored(kept, path, descriptor) if kept else None
            state, places = found or _scanned(path, descriptor, kept)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, state, places)

    @property
    def fingerprint(self) -> str:
        """Return `corpus_fingerprint` of the passages without reading them."""
        return self.state.corpus_sha256

    @property
    def contents(self) -> str:
        """Return `contents_sum` of the passages without reading them."""
        return self.state.contents

    def __len__(self) -> int:
        return self.state.passages

    @overload
    def __getitem__(self, row: int) -> Passage: ...

    @overload
    def __getitem__(self, row: slice) -> list[Passage]: ...

    def __getitem__(self, row: int | slice) -> Passage | list[Passage]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} passages")
        where, line = self._line(row % len(self))
        return Passage.from_json(parse_line(line, where), where)

    def with_source(self, row: int) -> tuple[Passage, str]:
        """Return a passage and where it comes from: its `source` or `file`, or the corpus."""
        where, line = self._line(row)
        record: dict[str, Any] = parse_line(line, where)
        source = record.get("source") or record.get("file") or self.path.name
        return Passage.from_json(record, where), str(source)

    def _line(self, row: int) -> tuple[str, bytes]:
        """Return where a passage stands in the file, for messages, and its line."""
        start, end = int(self._places.offsets[row]), int(self._places.offsets[row + 1])
        line = os.pread(self._descriptor, end - start, start)
        if len(line) < end - start:
            raise ChangedCorpusError(
                f"{self.path}: was cut short while it was open. Start again, and replace a corpus "
                "by renaming a new file to its name"
            )
        return f"{self.path} (byte {start})", line.strip()

    def __iter__(self) -> Iterator[Passage]:
        for row in range(len(self)):
            yield self[row]

    def row_of(self, name: str) -> int | None:
        """Return the row of an id, the last one where several have it; None: no passage."""
        key = np.uint64(_id_hash(name))
        first, end = (
            int(np.searchsorted(self._places.hashes, key, side=s)) for s in ("left", "right")
        )
        for place in reversed(range(first, end)):
            row = int(self._places.rows[place])
            if self[row].id == name:
                return row
        return None

    def repeated_id(self) -> str | None:
        """Return an id that several passages have; None where each has its own."""
        hashes = self._places.hashes
        for place in np.flatnonzero(hashes[1:] == hashes[:-1]):
            row = int(self._places.rows[place])
            if self.row_of(self[row].id) != row:
                return self[row].id
        return None

    def find(self, name: str) -> Passage | None:
        """Return the passage of an id, the last one where several have it; None: no passage."""
        row = self.row_of(name)
        return None if row is None else self[row]


class PassagesById(Mapping[str, Passage]):
    """The passages of a mapped corpus by their ids, each read when it is asked for."""

    def __init__(self, corpus: MappedCorpus) -> None:
        self.corpus = corpus

    def __getitem__(self, name: str) -> Passage:
        passage = self.corpus.find(name)
        if passage is None:
            raise KeyError(name)
        return passage

    def __iter__(self) -> Iterator[str]:
        return (passage.id for passage in self.corpus)

    def __len__(self) -> int:
        return len(self.corpus)


def passages_by_id(corpus: Iterable[Passage]) -> Mapping[str, Passage]:
    """Return a corpus's passages by id; those of a mapped one stay in its file."""
    if isinstance(corpus, MappedCorpus):
        return PassagesById(corpus)
    return {passage.id: passage for passage in corpus}


def open_corpus(path: str | Path, index: str | Path | None = None) -> Sequence[Passage]:
    """Return a corpus to be searched with `index`, as `build_retriever` takes it.

    Without an index, which has all in memory, that is a list; else the passages stay in their file,
    and what is kept about it lies beside the index, or in the user's cache folder for a server.

    Raises RecordError, EmptyCorpusError, CacheFolderError, MilvusError for an address that is none.
    """
    if index is None:
        return load_corpus(path)
    if not is_milvus(index):
        folder = Path(index) / FOLDER
    elif Address.parse(str(index)).is_server:
        key = hashlib.sha256(str(Path(path).resolve()).encode()).hexdigest()[:16]
        folder = cache_folder() / "corpora" / key
    else:
        folder = Path(f"{index}.{FOLDER}")
    return MappedCorpus.open(path, folder)


def _id_hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


def _scanned(path: Path, descriptor: int, folder: Path | None) -> tuple[CorpusState, _Places]:
    """Read the file once, and keep what was found in `folder` where that can be written."""
    state, places = _scan(path, descriptor)
    if folder is not None:
        try:
            with atomic_directory(folder) as target:
                places.save(target)
                _write_state(target, state)
            places = _Places.load(folder)
        except OSError as error:
            logger.warning("%s is kept in memory: %s cannot be written (%s)", path, folder, error)
    return state, places


def _scan(path: Path, descriptor: int) -> tuple[CorpusState, _Places]:
    offsets, hashes = array("Q"), array("Q")
    whole, corpus, contents, place = hashlib.sha256(), hashlib.sha256(), 0, 0
    stat = os.fstat(descriptor)
    with os.fdopen(os.dup(descriptor), "rb") as lines:
        lines.seek(0)
        for number, line in enumerate(lines, start=1):
            whole.update(line)
            if line.strip():
                where = f"{path}:{number}"
                passage = Passage.from_json(parse_line(line, where), where)
                content = passage_content(passage)
                corpus.update(content)
                contents += int.from_bytes(hashlib.sha256(content).digest())
                offsets.append(place)
                hashes.append(_id_hash(passage.id))
            place += len(line)
    if not offsets:
        raise empty_corpus(path)
    state = CorpusState(
        place,
        stat.st_mtime_ns,
        whole.hexdigest(),
        corpus.hexdigest(),
        f"{contents % (1 << SHA256_BITS):064x}",
        len(offsets),
    )
    offsets.append(place)
    own = np.frombuffer(hashes, dtype=np.uint64)
    order = np.argsort(own, kind="stable")
    begins = np.frombuffer(offsets, dtype=np.uint64)
    return state, _Places(begins, own[order], order.astype(np.uint32))


def _stored(folder: Path, path: Path, descriptor: int) -> tuple[CorpusState, _Places] | None:
    """Return what a folder keeps about the file; None where that is missing or of another file."""
    try:
        known: dict[str, Any] = json.loads((folder / META_FILE).read_text(encoding="utf-8"))
        state = CorpusState(**known)
        places = _Places.load(folder)
    except (OSError, ValueError, TypeError):
        return None
    now = os.fstat(descriptor)
    if state.format != FORMAT or state.bytes != now.st_size:
        return None
    if len(places.offsets) != state.passages + 1 or len(places.rows) != state.passages:
        return None
    if state.modified_ns != now.st_mtime_ns:
        if file_sha256(path) != state.file_sha256:
            return None
        state = replace(state, modified_ns=now.st_mtime_ns)
        with suppress(OSError):
            _write_state(folder, state)
    return state, places


def _write_state(folder: Path, state: CorpusState) -> None:
    with atomic_write(folder / META_FILE) as handle:
        json.dump(asdict(state), handle, indent=1)
