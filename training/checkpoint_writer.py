"""Checkpoints are written beside the training: a step only copies, a thread writes.

As in CheckFreq (Mohan et al., FAST 2021), a save is split into a snapshot, which stops the step,
and the writing of it, which does not.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

logger = logging.getLogger(__name__)


class CheckpointWriter:
    """Does one write at a time in a thread of its own.

    As a context it waits for the last write when the block ends. A failed write is raised, as the
    error that it was, by whichever of its methods is called next.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._under_way: Future[None] | None = None

    def submit(self, write: Callable[[], None]) -> None:
        """Start a write, after the one under way.

        Raises: what the one under way failed with; the new one is then not begun.
        """
        self.wait()
        self._under_way = self._thread.submit(write)

    def raise_failure(self) -> None:
        """Raise what a finished write failed with; one that is still under way is left alone."""
        if self._under_way is not None and self._under_way.done():
            self.wait()

    def wait(self) -> None:
        """Wait for the write under way, and raise what it failed with."""
        under_way = self._under_way
        if under_way is not None:
            # Forgotten only once it is over: an interrupted wait can be taken up again.
            try:
                under_way.result()
            finally:
                if under_way.done():
                    self._under_way = None

    def __enter__(self) -> "CheckpointWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.wait()
        except Exception as failure:
            if error is None:
                raise
            # The block's own error says more of why the training ended.
            logger.error("%s", failure)
