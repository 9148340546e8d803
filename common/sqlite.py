"""SQLite files that several processes share, also where they may only be read."""

import sqlite3
from pathlib import Path
from typing import Any

from common.errors import UserError


class UnmergedLogError(UserError, RuntimeError):
    """A database whose last changes cannot be read where it lies; names both and the remedy."""


def open_sqlite(
    path: Path,
    timeout: float,
    check_same_thread: bool = True,
    factory: type[sqlite3.Connection] = sqlite3.Connection,
) -> sqlite3.Connection:
    """Open a database, or begin one where there is none.

    Where nothing may be written, as on a read-only mount, it is opened as a file that nobody
    changes: sharing takes files beside it. timeout: seconds to wait for other processes.
    check_same_thread, factory: as in `sqlite3.connect`.

    Raises:
        sqlite3.Error: it cannot be opened, or is no database.
        UnmergedLogError: changes wait in its log, and cannot be merged there.
    """
    how: dict[str, Any] = {
        "timeout": timeout, "check_same_thread": check_same_thread, "factory": factory
    }  # fmt: skip
    try:
        return _opened(str(path), **how)
    except sqlite3.OperationalError as error:
        if not is_out_of_reach(error) or not path.is_file():
            raise
        log = path.with_name(f"{path.name}-wal")
        if log.is_file() and log.stat().st_size:
            raise UnmergedLogError(
                f"{path}: changes that wait in {log.name} cannot be read where nothing may be "
                "written. Open it once where it can be written, which merges them, and bring it "
                "here again"
            ) from error
        return _opened(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, **how)


def _opened(database: str, **how: Any) -> sqlite3.Connection:
    connection = sqlite3.connect(database, **how)
    try:
        # The first call that reads the file.
        connection.execute("PRAGMA user_version")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def share(connection: sqlite3.Connection) -> None:
    """Let other processes read a database while this one writes; one that is only read stays so."""
    try:
        connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.OperationalError as error:
        if not is_read_only(error):
            raise


def is_read_only(error: BaseException | None) -> bool:
    """Return whether SQLite refused to write what may only be read."""
    return _kind(error) == sqlite3.SQLITE_READONLY


def is_full(error: BaseException | None) -> bool:
    """Return whether SQLite found no room on the disk."""
    return _kind(error) == sqlite3.SQLITE_FULL


def is_out_of_reach(error: BaseException | None) -> bool:
    """Return whether SQLite may not open a file, or may not write it or beside it."""
    return _kind(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def _kind(error: BaseException | None) -> int:
    """Return the code of an error of SQLite, without what tells more of it; 0 for another's."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
