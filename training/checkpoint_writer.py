"""Checkpoints are written in the step, or beside the training: a step only copies, a thread writes.

Beside it a save is split, as in CheckFreq (Mohan et al., FAST 2021), into a snapshot, which stops
the step, and the writing of it, which does not. On a CPU the writing takes its time from the steps.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

logger = logging.getLogger(__name__)


class CheckpointWriter:
    """Does one write at a time in a thread of its own, and waits for each unless `in_background`.

    As a context it waits for the last write when the block ends. A failed write is raised, as the
    error that it was, by whichever of its methods is called next.
    """

    def __init__(self, in_background: bool) -> None:
        self.in_background = in_background
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._under_way: Future[None] | None = None

    def submit(self, write: Callable[[], None]) -> None:
        """Start a write, after the one under way; without `in_background` it is done on return.

        Raises: what the one under way failed with; the new one is then not begun. Without
            `in_background` also what the new one fails with.
        """
        self.wait()
        self._under_way = self._thread.submit(write)
        if not self.in_background:
            self.wait()

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
