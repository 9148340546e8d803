"""A folder for what a build keeps on disk while it runs, and what happens when the disk is full."""

import errno
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.atomic import atomic_directory

_FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}


class DiskFullError(OSError):
    """There was no room left for what a command writes."""


@contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """A temporary folder in `folder`, so on its disk, that is gone when the block ends."""
    path = Path(tempfile.mkdtemp(dir=folder, prefix=".work."))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def output(out: Path) -> Iterator[tuple[Path, Path]]:
    """A folder that becomes `out` when the block ends without error, and one to work in.

    Both lie beside `out`. Raises DiskFullError where the disk has no room for them.
    """
    with full_disk_errors(out), atomic_directory(out) as folder, workspace(folder) as work:
        yield folder, work


@contextmanager
def full_disk_errors(out: Path) -> Iterator[None]:
    """Turn a write that found no room into a DiskFullError that names `out` and the remedy."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if not _is_full(error):
            raise
        raise DiskFullError(
            f"{out}: writing failed ({error}): its disk is full, or files may not grow that large. "
            "What stood there is unchanged; make room, or name a folder elsewhere with --out"
        ) from error


def _is_full(error: OSError | sqlite3.Error) -> bool:
    if isinstance(error, sqlite3.Error):
        # A temporary table that cannot grow is reported as full or, past a file's limit, as I/O.
        return any(words in str(error) for words in ("disk is full", "disk I/O error"))
    return error.errno in _FULL or "No space left" in str(error) or "File too large" in str(error)
