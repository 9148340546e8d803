"""The user's cache folder: where it lies, whether it has room, and what is said when it fails."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock
from safetensors import SafetensorError

from common.errors import UserError
from common.files import is_disk_full, is_too_large, remove_leftovers

CACHE_VARIABLE = "TRIVIUM_CACHE"


class CacheFolderError(UserError, RuntimeError):
    """The cache folder cannot be used; the message names it and the remedy."""


def cache_folder() -> Path:
    """Return the folder of converted models: `$TRIVIUM_CACHE`, else `~/.cache/trivium`.

    Raises:
        CacheFolderError: where the user has no home and the variable is not set.
    """
    try:
        configured = os.environ.get(CACHE_VARIABLE)
        return Path(configured).expanduser() if configured else Path.home() / ".cache" / "trivium"
    except RuntimeError as error:
        raise CacheFolderError(
            f"no folder for caches ({error}). Set {CACHE_VARIABLE} to a folder that can be written."
        ) from error


def check_cache_room(folder: Path, needed_bytes: int) -> None:
    """Refuse to write into an existing cache folder that will not hold so much.

    Raises:
        CacheFolderError: names the folder, what is needed and what is free.
    """
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise _disk_full(folder, needed_bytes, free)


@contextmanager
def only_writer(folder: Path, needed_bytes: int = 0) -> Iterator[None]:
    """Make this process the only one that writes a cached folder while the block runs.

    Another one waits here and then finds the folder whole; what killed ones left of it is removed.

    Args:
        needed_bytes: as in `cache_errors`.

    Raises:
        CacheFolderError: the folder around it cannot be written.
    """
    with cache_errors(folder.parent, needed_bytes):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            remove_leftovers(folder)
            yield


@contextmanager
def cache_errors(folder: Path, needed_bytes: int = 0) -> Iterator[None]:
    """Turn what the system refuses while the block writes into `folder` into CacheFolderError.

    Args:
        needed_bytes: about what is written, for the message; 0 where unknown.
    """
    try:
        yield
    except (OSError, NotImplementedError, SafetensorError) as error:
        if is_disk_full(error):
            raise _disk_full(folder, needed_bytes, None) from error
        if is_too_large(error):
            raise _too_large(folder, needed_bytes) from error
        if isinstance(error, OSError) and error.errno is None:
            # Not the system's: a library that did not find what it was to read.
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise CacheFolderError(
            f"the cache folder {folder} cannot be written ({reason}). Make it writable, or set "
            f"{CACHE_VARIABLE} to a folder that is."
        ) from error


def _disk_full(folder: Path, needed: int, free: int | None) -> CacheFolderError:
    """`free` None: not known any more."""
    about = f"about {needed / 1e6:.0f} MB are needed there" if needed else "more is needed there"
    left = "" if free is None else f" and {free / 1e6:.0f} MB are free"
    return CacheFolderError(
        f"the disk of the cache folder {folder} is full: {about}{left}. Free some space, or set "
        f"{CACHE_VARIABLE} to a folder on another disk."
    )


def _too_large(folder: Path, needed: int) -> CacheFolderError:
    about = f": about {needed / 1e6:.0f} MB are needed" if needed else ""
    return CacheFolderError(
        f"the cache folder {folder} takes no file so large{about}. Lift the limit (ulimit -f), or "
        f"set {CACHE_VARIABLE} to a folder on another disk."
    )
