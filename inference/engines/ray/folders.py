"""Folders of models and components on nodes: found there, or sent and checked by hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from common.cache import cache_folder, only_writer
from common.files import atomic_directory
from inference.engines.contract import EngineError
from models.files.checkpoint import describe_files

SENT = "sent"
PIECE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class FileOfFolder:
    """A file by its path inside its folder."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Folder:
    """A folder by where it lies and what is in it."""

    path: Path
    files: tuple[FileOfFolder, ...]

    @classmethod
    def read(cls, path: str | Path) -> Folder:
        """Return a folder of this machine; every file is read for its hash."""
        path = Path(path).expanduser().resolve()
        found = describe_files(path)
        files = (FileOfFolder(name, of["bytes"], of["sha256"]) for name, of in found.items())
        return cls(path, tuple(files))

    @property
    def fingerprint(self) -> str:
        """A hash of names and contents."""
        listed = json.dumps([(file.name, file.sha256) for file in self.files])
        return hashlib.sha256(listed.encode()).hexdigest()[:16]

    def found(self) -> Path | None:
        """Return where this machine has the same files: under the same path, or sent earlier."""
        for path in (self.path, self._kept_at()):
            if self._is_at(path):
                return path
        return None

    def _kept_at(self) -> Path:
        # Under its own name: a backbone's identity holds the last part of its path.
        return cache_folder() / SENT / self.fingerprint / self.path.name

    def _is_at(self, path: Path) -> bool:
        """Sizes come first: they are read at once."""
        return (
            all(
                (path / file.name).is_file() and (path / file.name).stat().st_size == file.size
                for file in self.files
            )
            and Folder.read(path).files == self.files
        )

    def pieces(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files by pieces: a name, and the next bytes of the file."""
        for file in self.files:
            with (self.path / file.name).open("rb") as handle:
                while piece := handle.read(PIECE_BYTES):
                    yield file.name, piece

    async def keep(self, pieces: Callable[[], AsyncIterator[tuple[str, bytes]]]) -> Path:
        """Write what was sent into the cache, whole or not at all; returns where it lies.

        Raises:
            EngineError: what came is not what was announced.
            CacheFolderError: the cache cannot be written.
        """
        target = self._kept_at()
        with only_writer(target, sum(file.size for file in self.files)):
            if self._is_at(target):
                return target
            with atomic_directory(target) as temporary:
                for file in self.files:
                    (temporary / file.name).parent.mkdir(parents=True, exist_ok=True)
                    (temporary / file.name).touch()
                async for name, piece in pieces():
                    with (temporary / name).open("ab") as handle:
                        handle.write(piece)
                if Folder.read(temporary).files != self.files:
                    raise EngineError(
                        f"{self.path} is not what it was when the engines were started: the files "
                        "that came here have other hashes. Start again"
                    )
        return target
