"""One process at a time may write a file; the lock goes with its process, however that ends."""

import fcntl
import os
import socket
from pathlib import Path


class WriterLockError(OSError):
    """Another process writes the file; the message names it."""


class WriterLock:
    """An advisory lock on `<path>.lock`, which holds who has it."""

    def __init__(self, path: Path) -> None:
        """Take the lock at once. Raises WriterLockError when another process has it."""
        self._file = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 200).decode("utf-8", "replace").strip()
            os.close(self._file)
            raise WriterLockError(
                f"{path}: is being written by {holder or 'another process'}. Wait until it has "
                "ended, or name another journal"
            ) from None
        os.ftruncate(self._file, 0)
        os.write(self._file, f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def release(self) -> None:
        """Let others write. The file stays: removing it would let two processes lock two files."""
        os.close(self._file)
