"""The cost of model calls: the bill of an answer, and the log of an index over all its additions.

Every builder writes the log in the same way, as lines of `indexing_cost.jsonl` in the index's
folder; a line every few seconds, so that a build that is killed keeps what it paid for.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from common.files import AppendLog
from inference.engines.contract import Completion, Engine, Request, WrappedEngine
from models.formats.trajectories import OUTPUT_TOKEN_WEIGHT

COST_FILE = "indexing_cost.jsonl"
COUNTS = ("llm_calls", "input_tokens", "output_tokens", "weighted_tokens", "seconds")
REMEDY = "Remove the line; what it told of is then missing from the index's cost"
_SECONDS_BETWEEN_LINES = 5.0


@dataclass
class Bill:
    """The cost of an answer; `seconds` is wall-clock by stage, waiting for the engine included.

    Stages that ran beside each other are counted whole, each.
    """

    llm_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def weighted_tokens(self) -> int:
        """Input plus four times output tokens (T²RAG App. B.4)."""
        return self.input_tokens + OUTPUT_TOKEN_WEIGHT * self.output_tokens

    def charge(self, completions: Iterable[Completion]) -> None:
        """Add calls to a model."""
        for completion in completions:
            self.llm_calls += 1
            self.input_tokens += completion.input_tokens
            self.output_tokens += completion.output_tokens

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a block under a stage's name."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


class CostLog(AbstractContextManager["CostLog"]):
    """Counts a build's calls, and its time from here to the end of the block."""

    def __init__(self, folder: Path) -> None:
        """folder: the index's; it may be made later than this, before the first call."""
        self._log = AppendLog(folder / COST_FILE, REMEDY)
        self._bill = Bill()
        self._last = time.perf_counter()

    def metered(self, engine: Engine) -> Engine:
        """Return the engine with every completed request counted here."""
        return _MeteredEngine(engine, self)

    def charge(self, completions: Sequence[Completion]) -> None:
        """Count calls."""
        self._bill.charge(completions)
        if time.perf_counter() - self._last >= _SECONDS_BETWEEN_LINES:
            self._write()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A build that found nothing to do leaves no folder behind, and one that failed its costs.
        if self._bill.llm_calls or self._log.path.parent.is_dir():
            self._write()

    def _write(self) -> None:
        now = time.perf_counter()
        counts = {name: getattr(self._bill, name) for name in COUNTS if name != "seconds"}
        self._log.append([{**counts, "seconds": round(now - self._last, 3)}])
        self._bill, self._last = Bill(), now


class _MeteredEngine(WrappedEngine):
    """An engine whose completions are charged to a log."""

    def __init__(self, engine: Engine, log: CostLog) -> None:
        super().__init__(engine)
        self._log = log

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return the engine's own."""
        completions = await self._engine.generate(requests)
        self._log.charge(completions)
        return completions


def read_cost(folder: Path | None) -> dict[str, Any] | None:
    """Return what an index cost so far, `COUNTS` by name; None where nothing tells.

    Raises RecordError for a line that is no JSON.
    """
    lines = (
        [] if folder is None else [row for _, row in AppendLog(folder / COST_FILE, REMEDY).read()]
    )
    if not lines:
        return None
    return {name: sum(line[name] for line in lines) for name in COUNTS}
