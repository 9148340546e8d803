"""Where the threads of this process spend their seconds: samples of their stacks, by part.

Every few hundredths of a second each thread's stack is looked at, and what passed since the look
before goes to the part that the stack shows: seconds on a processor, seconds of waiting for one,
and the rest, in which the thread waited for something else. Nothing is patched. Linux tells the
first two; elsewhere all is waiting.
"""

import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple, Self

INTERVAL_SECONDS = 0.02
TASKS = Path("/proc/self/task")
Classify = Callable[[FrameType], str]


class Rule(NamedTuple):
    """A part's frames: those of files whose path has `path` in it, and of a qualified name there.

    name: its beginning; "" takes all of the file.
    """

    path: str
    name: str
    part: str


class ScheduledSeconds(NamedTuple):
    """A thread's seconds on a processor, and those in which it could have run and none was free."""

    processor: float
    queued: float


@dataclass
class Spent:
    """Seconds of a part: all of them, on a processor, and ready for one; the rest was waiting."""

    wall: float = 0.0
    processor: float = 0.0
    queued: float = 0.0

    @property
    def waiting(self) -> float:
        """Return the seconds of waiting for something else than a processor."""
        return max(self.wall - self.processor - self.queued, 0.0)


class StackRules:
    """Names a stack's part: of the innermost frame that a rule is for; else `otherwise`."""

    def __init__(self, rules: list[Rule], idle: list[Rule], otherwise: str) -> None:
        """idle: rules that hold for the innermost frame alone, where a thread waits for work."""
        self.rules = rules
        self.idle = idle
        self.otherwise = otherwise
        self._known: dict[CodeType, tuple[str | None, str | None]] = {}

    def __call__(self, frame: FrameType) -> str:
        """Return the part of a stack, given its innermost frame."""
        idle = self._of(frame.f_code)[1]
        each: FrameType | None = frame
        while each is not None:
            part = self._of(each.f_code)[0]
            if part is not None:
                return part
            each = each.f_back
        return idle or self.otherwise

    def _of(self, code: CodeType) -> tuple[str | None, str | None]:
        if code not in self._known:
            self._known[code] = (_first(self.rules, code), _first(self.idle, code))
        return self._known[code]


def _first(rules: list[Rule], code: CodeType) -> str | None:
    path = code.co_filename.replace(os.sep, "/")
    found = (r for r in rules if r.path in path and code.co_qualname.startswith(r.name))
    return next((rule.part for rule in found), None)


class ThreadSampler:
    """Samples all threads of this process but its own for as long as the block runs."""

    def __init__(
        self,
        classify: Classify,
        group: Callable[[str], str] = str,
        interval_seconds: float = INTERVAL_SECONDS,
        idle: str = "idle",
    ) -> None:
        """classify: a stack's part. group: what a thread counts under, by its name.

        idle: the part of a thread that has nothing to do. Its seconds on a processor are looked up
        once it has, as a look costs more than such a thread does.
        """
        self.classify = classify
        self.idle = idle
        self.group = group
        self.interval_seconds = interval_seconds
        self.spent: dict[str, dict[str, Spent]] = defaultdict(lambda: defaultdict(Spent))
        self.samples = 0
        self.wall_seconds = 0.0
        # Of the whole process, of threads that run no Python, and of the sampler itself.
        self.process_seconds = 0.0
        self.other_threads_seconds = 0.0
        self.own_seconds = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._seen: dict[int, ScheduledSeconds] = {}
        self._parts: dict[int, str] = {}

    def __enter__(self) -> Self:
        """Start."""
        self._started = self._last = time.perf_counter()
        self._process = time.process_time()
        for thread in threading.enumerate():
            if thread.native_id is not None and (now := scheduled(thread.native_id)):
                self._seen[thread.native_id] = now
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Take the last sample and stop."""
        self._end.set()
        self._thread.join()
        self.wall_seconds = time.perf_counter() - self._started
        self.process_seconds = time.process_time() - self._process
        known = sum(part.processor for parts in self.spent.values() for part in parts.values())
        self.other_threads_seconds = max(self.process_seconds - known - self.own_seconds, 0.0)

    def _run(self) -> None:
        begun = time.thread_time()
        while not self._end.wait(self.interval_seconds):
            self._sample()
        self._sample()
        self.own_seconds = time.thread_time() - begun

    def _sample(self) -> None:
        frames = sys._current_frames()
        now = time.perf_counter()
        passed, self._last = now - self._last, now
        self.samples += 1
        for thread in threading.enumerate():
            frame = frames.get(thread.ident or 0)
            if frame is None or thread is self._thread or thread.native_id is None:
                continue
            part = self.classify(frame)
            spent = self.spent[self.group(thread.name)][part]
            spent.wall += passed
            before = self._parts.get(thread.native_id, self.idle)
            self._parts[thread.native_id] = part
            if part == before == self.idle:
                continue
            at = scheduled(thread.native_id)
            if at is not None:
                seen = self._seen.get(thread.native_id, ScheduledSeconds(0.0, 0.0))
                spent.processor += at.processor - seen.processor
                spent.queued += at.queued - seen.queued
                self._seen[thread.native_id] = at

    def rows(self) -> Iterator[tuple[str, str, Spent]]:
        """Yield each thread's parts, those first that took longest."""
        for group, parts in sorted(self.spent.items()):
            for part, spent in sorted(parts.items(), key=lambda item: -item[1].wall):
                yield group, part, spent


def scheduled(native_id: int) -> ScheduledSeconds | None:
    """Return a thread's seconds so far; None where the system does not tell or it has ended."""
    try:
        fields = (TASKS / str(native_id) / "schedstat").read_bytes().split()
    except OSError:
        return None
    return ScheduledSeconds(int(fields[0]) / 1e9, int(fields[1]) / 1e9)
