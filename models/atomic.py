"""Files and folders that appear whole or not at all."""

import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def atomic_write(path: str | Path) -> Iterator[TextIO]:
    """Open a text file for writing that takes its name only when the block ends without error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
        _sync(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def atomic_directory(path: str | Path) -> Iterator[Path]:
    """Give a temporary folder that replaces `path` when the block ends without error.

    A folder that stood there is kept until the new one is whole. All of it is on the disk before
    it takes its name.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield temporary
        os.chmod(temporary, 0o755)
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


def _replace_directory(temporary: Path, path: Path) -> None:
    """Rename `temporary` to `path`, moving an older folder aside first."""
    if not path.exists():
        os.replace(temporary, path)
        return
    retired = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old."))
    os.replace(path, retired / "old")
    try:
        os.replace(temporary, path)
    except OSError:
        os.replace(retired / "old", path)
        raise
    shutil.rmtree(retired, ignore_errors=True)


def _sync_tree(folder: Path) -> None:
    """Write everything in a folder through to the disk."""
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
