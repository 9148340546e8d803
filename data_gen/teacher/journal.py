"""Every call that a teacher was sent, in an append-only file: no answer is ever paid for twice."""

import fcntl
import json
import logging
import os
import shutil
import socket
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.errors import RecordError
from data_gen.teacher.prompts import Answer, TeacherCall
from data_gen.teacher.spending import Amount

_REMEDY = "Remove the line; its call is then made again"
_START = b'{"event": "begin"'
logger = logging.getLogger(__name__)

SYNC_SECONDS = 1.0
# No call is begun on a disk with less room: the answers under way must find their place.
LEAST_FREE_BYTES = 16 * 2**20


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


@dataclass
class JournalContents:
    """Everything that a journal tells.

    answers: by key. confirmed: what these cost. lost: the most that attempts without an answer
    may have cost. open: the upper bounds of attempts that have not ended, by key. failures: how
    many attempts ended so, by kind. whole_bytes: the length up to the last whole line. torn: what
    stands behind it.
    """

    answers: dict[str, Answer] = field(default_factory=dict)
    confirmed: Amount = field(default_factory=Amount)
    lost: Amount = field(default_factory=Amount)
    open: dict[str, Amount] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    whole_bytes: int = 0
    torn: bytes = b""

    def committed(self) -> Amount:
        """Return what was paid, what may have been paid for nothing, and what is under way."""
        return self.confirmed + self.lost_at_most()

    def lost_at_most(self) -> Amount:
        """Return what may have been paid for nothing, or is under way."""
        return sum(self.open.values(), self.lost)

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in one line's object. Raises KeyError, TypeError or ValueError on another form."""
        kind, key = event["event"], event["key"]
        if kind == "begin":
            # The attempt before it was cut off by a kill.
            self.lost += self.open.pop(key, Amount())
            self.open[key] = Amount(int(event["most_tokens"]), float(event["most_cost"]))
        elif kind == "answer":
            answer = Answer(
                str(event["text"]),
                str(event["finish_reason"]),
                int(event["input_tokens"]),
                int(event["output_tokens"]),
                float(event["cost"]),
            )
            self.answers[key] = answer
            self.confirmed += Amount(answer.input_tokens + answer.output_tokens, answer.cost)
            self.open.pop(key, None)
        elif kind == "failure":
            self.failures[str(event["error"])] += 1
            most = self.open.pop(key, Amount())
            self.lost += most if event["may_be_billed"] else Amount()
        else:
            raise ValueError(f"event {kind!r}")


def read_journal(path: Path) -> JournalContents:
    """Read a journal, also while another process writes it; half a line at the end is left out.

    Raises:
        RecordError: a line in its midst that is no event of a journal.
    """
    contents = JournalContents()
    if not path.is_file():
        return contents
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            problem = _take_line(contents, line)
            if not problem:
                contents.whole_bytes += len(line)
                continue
            # Of the last line a kill or a power cut may have left anything.
            if number == 1 and not line.startswith(_START[: len(line)]):
                remedy = "Name another file for the journal"
                raise RecordError(str(path), "(file)", "is there and is no journal", remedy)
            if lines.read(1):
                raise RecordError(f"{path}:{number}", "(line)", problem, _REMEDY)
            contents.torn = line
    return contents


def _take_line(contents: JournalContents, line: bytes) -> str:
    """Take one line in; what is wrong with it, or nothing."""
    if not line.endswith(b"\n"):
        return "cut short"
    try:
        contents.take(json.loads(line))
    except (ValueError, KeyError, TypeError) as error:
        return f"no event of a journal ({type(error).__name__}: {error})"
    return ""


class JournalError(OSError):
    """The journal cannot be written; what it holds is whole. The message says what to do."""


class Journal:
    """The one writer of a journal file."""

    def __init__(self, path: Path) -> None:
        """Open or create it; half a line at its end is moved to `<path>.torn` and logged.

        Raises:
            WriterLockError: another process writes it.
            RecordError: a line in its midst is no event.
        """
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = WriterLock(path)
        try:
            self.contents: JournalContents = read_journal(path)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._set_torn_line_aside()
        except BaseException:
            self._lock.release()
            raise
        self._synced_at = time.monotonic()
        self._broken: JournalError | None = None

    @property
    def answers(self) -> dict[str, Answer]:
        """Answers by key."""
        return self.contents.answers

    def committed(self) -> Amount:
        """Return what all calls together have cost or may yet cost, those of earlier runs too."""
        return self.contents.committed()

    def begin(self, key: str, call: TeacherCall, most: Amount) -> None:
        """Note that an attempt is about to be sent; `most` is its upper bound."""
        self._require_room()
        self._append(
            {
                "event": "begin",
                "key": key,
                "stage": call.stage,
                "subject": call.subject,
                "most_tokens": most.tokens,
                "most_cost": most.cost,
                "time": round(time.time(), 3),
            }
        )

    def answer(self, key: str, answer: Answer) -> None:
        """Keep an attempt's answer."""
        self._append({"event": "answer", "key": key, **vars(answer)})

    def failure(self, key: str, error: BaseException, may_be_billed: bool) -> None:
        """Keep why an attempt has no answer."""
        kind, message = type(error).__name__, " ".join(str(error).split())[:500]
        self._append(
            {
                "event": "failure",
                "key": key,
                "error": kind,
                "message": message,
                "may_be_billed": may_be_billed,
            }
        )

    def close(self) -> None:
        """Force it to the disk and let another process write; may be called twice."""
        if self._file < 0:
            return
        os.fsync(self._file)
        os.close(self._file)
        self._file = -1
        self._lock.release()

    def _append(self, event: dict[str, Any]) -> None:
        if self._broken is not None:
            raise self._broken
        line = (json.dumps(event, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        try:
            _write_whole(self._file, line)
        except OSError as error:
            self._broken = JournalError(
                f"{self.path}: cannot be written ({error.strerror}). {self._kept()} Free some "
                "space and run the command again"
            )
            # Without the half line the file ends with what was kept before.
            os.ftruncate(self._file, self.contents.whole_bytes)
            raise self._broken from error
        self.contents.take(event)
        self.contents.whole_bytes += len(line)
        now = time.monotonic()
        if now - self._synced_at >= SYNC_SECONDS:
            os.fsync(self._file)
            self._synced_at = now

    def _require_room(self) -> None:
        free = shutil.disk_usage(self.path.parent).free
        if free < LEAST_FREE_BYTES:
            raise JournalError(
                f"{self.path}: {free:,} bytes are free on its disk, too few to go on. "
                f"{self._kept()} Free some space and run the command again"
            )

    def _kept(self) -> str:
        return f"The {len(self.answers)} answers in it are kept, those under way may be lost."

    def _set_torn_line_aside(self) -> None:
        torn = self.contents.torn
        if not torn:
            return
        aside = Path(f"{self.path}.torn")
        with aside.open("ab") as handle:
            handle.write(torn + b"\n")
        os.ftruncate(self._file, self.contents.whole_bytes)
        logger.warning(
            "%s ended in half a line, which is now in %s; its call is made again", self.path, aside
        )


def _write_whole(file: int, line: bytes) -> None:
    """One write, and more only where the system took a part."""
    written = os.write(file, line)
    while written < len(line):
        written += os.write(file, line[written:])
