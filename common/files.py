"""Files that appear whole or not at all, folders of one process, logs that a kill cannot spoil."""

import errno
import glob
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from filelock import FileLock, Timeout

from common.errors import RecordError, UserError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def atomic_write(path: str | Path) -> Iterator[TextIO]:
    """Open a text file for writing that takes its name only when the block ends without error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        with open(temporary, "x", encoding="utf-8") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
        _sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_directory(path: str | Path) -> Iterator[Path]:
    """Give a temporary folder that replaces `path` when the block ends without error.

    A folder that stood there is kept until the new one is whole. All of it is on the disk, with the
    permissions that the user's umask leaves, before it takes its name.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    temporary.mkdir()
    try:
        yield temporary
        _open_to_umask(temporary)
        _sync_tree(temporary)
        _replace_directory(temporary, path)
        _sync(path.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def remove_leftovers(path: str | Path) -> None:
    """Remove the temporary folders that killed writers of the folder `path` left beside it.

    Only for a caller that knows of no other writer, as under a lock: it would lose its work.
    """
    path = Path(path)
    # Folders alone: a temporary file may be another one's, written by atomic_write.
    for folder in path.parent.glob(f".{glob.escape(path.name)}.*"):
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)


def _beside(path: Path) -> Path:
    return path.parent / f".{path.name}.{secrets.token_hex(8)}"


def _open_to_umask(folder: Path) -> None:
    # Safetensors makes its files readable by their owner alone; the folder has what umask leaves.
    left = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(path.stat().st_mode | left)


def _replace_directory(temporary: Path, path: Path) -> None:
    """Rename `temporary` to `path`, moving an older folder aside first."""
    if not path.exists():
        os.replace(temporary, path)
        return
    retired = _beside(path.with_name(f"{path.name}.old"))
    retired.mkdir()
    os.replace(path, retired / "old")
    try:
        os.replace(temporary, path)
    except OSError:
        os.replace(retired / "old", path)
        raise
    shutil.rmtree(retired, ignore_errors=True)


def _sync_tree(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() or path.is_dir():
            _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    """Write a file, or a folder's list of names, through to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network and container file systems cannot sync a folder.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


@contextmanager
def alone(folder: Path, refusal: UserError) -> Iterator[None]:
    """Keep a folder to one process while the block runs, by a lock file beside it.

    Raises `refusal` where another process has it.
    """
    # Resolved: one folder has one lock, however it is named.
    place = folder.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{place}.lock", timeout=0):
            yield
    except Timeout:
        raise refusal from None


class AppendLog:
    """Records of finished work, one a line, each on the disk before the next is begun."""

    def __init__(self, path: Path, remedy: str) -> None:
        """remedy: what to do about a line that is no JSON, for the error."""
        self.path = path
        self.remedy = remedy
        self._is_mended = False

    def mend(self) -> None:
        """Drop a last line that a kill has cut short; done once, before the first record."""
        # Reading does not: another process may be writing, or the folder be another user's.
        if not self._is_mended and self.path.is_file():
            _drop_torn_line(self.path)
        self._is_mended = True

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write records through to the disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.mend()
        with self.path.open("a", encoding="utf-8") as handle:
            for record in records:
                handle.write(json.dumps(record, ensure_ascii=False) + "\n")
            handle.flush()
            os.fsync(handle.fileno())

    def read(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield where each record stands (file and line) and the record; none without a file.

        A last line that was cut short is passed over.

        Raises:
            RecordError: a line that is no JSON.
        """
        if not self.path.is_file():
            return
        with self.path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith("\n"):
                    return
                where = f"{self.path}:{number}"
                try:
                    yield where, json.loads(line)
                except ValueError as error:
                    problem = f"malformed ({error})"
                    raise RecordError(where, "(line)", problem, self.remedy) from None


def _drop_torn_line(path: Path) -> None:
    with path.open("rb+") as handle:
        content = handle.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            handle.truncate(whole)


def file_sha256(*paths: str | Path) -> str:
    """Return the sha256 in hexadecimal of files, one after the other, read in pieces."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as handle:
            while piece := handle.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()


def is_disk_full(error: Exception) -> bool:
    """Return whether an error of the system or of safetensors means that a disk is full."""
    return _is_one_of(error, DISK_FULL)


def is_too_large(error: Exception) -> bool:
    """Return whether such an error means a file beyond the limit of the user or the disk."""
    return _is_one_of(error, (errno.EFBIG,))


def _is_one_of(error: Exception, codes: Sequence[int]) -> bool:
    # Safetensors wraps the system's error in one of its own and keeps only the text.
    return getattr(error, "errno", None) in codes or any(
        f"os error {code}" in str(error) for code in codes
    )
