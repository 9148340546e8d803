"""Folders where nothing may be written, for root too: a real mount, or SQLite's refusal alone."""

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from common import sqlite

WAYS = ("mounted", "refused")


@contextmanager
def read_only(folder: Path, way: str = "mounted") -> Iterator[None]:
    """Let nothing be written into a folder while the block runs; skips where it cannot be mounted.

    way: "refused" refuses databases alone, as SQLite does where a file beside them cannot be made.
    """
    if way == "refused":
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sqlite, "_opened", _refusing)
            yield
        return
    bind = ["mount", "--bind", str(folder), str(folder)]
    if os.geteuid() or subprocess.run(bind, capture_output=True).returncode:
        pytest.skip("mounting a folder takes root")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _refusing(database: str, uri: bool = False, **how: Any) -> sqlite3.Connection:
    if not uri:
        error = sqlite3.OperationalError("attempt to write a readonly database")
        # What SQLite adds for a file beside it that is missing.
        error.sqlite_errorcode = sqlite3.SQLITE_READONLY | 5 << 8
        raise error
    return sqlite3.connect(database, uri=True, **how)
