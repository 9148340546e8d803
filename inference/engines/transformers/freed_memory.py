"""Giving memory that is no longer used back to the system."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable


class FreedMemory:
    """Memory that this process freed and the C library keeps, in holes between what is in use.

    Key-value caches whose sizes keep changing leave such holes: an engine on a CPU that draws for a
    rollout would hold twice the memory that it needs after a quarter of an hour.
    """

    def __init__(self, seconds: float = 10.0) -> None:
        """seconds: least between two times, since finding what is free takes time itself."""
        self.seconds = seconds
        self._last = time.monotonic()
        self._trim: Callable[[int], int] | None
        try:
            self._trim = ctypes.CDLL(None).malloc_trim
        except (AttributeError, OSError, TypeError):
            # Other C libraries than glibc keep less, and have no such call.
            self._trim = None

    def give_back(self) -> bool:
        """Give it back unless that was done within `seconds`; returns whether it did."""
        if self._trim is None or time.monotonic() - self._last < self.seconds:
            return False
        self._trim(0)
        self._last = time.monotonic()
        return True
