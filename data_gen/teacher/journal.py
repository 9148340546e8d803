"""Every call that a teacher was sent, in an append-only file: no answer is ever paid for twice.

One JSON object a line. `begin`: an attempt is about to be sent, with the most that it can cost.
`answer`: its text and what it cost. `failure`: its kind and message, and whether the endpoint may
have charged for it; a call that failed is made again by the next run. An attempt that was begun
and has neither was in flight when the process was killed.

A line goes to the operating system in one write before anything is built on it, so that a killed
process loses nothing that it knew. It is forced to the disk at most once in SYNC_SECONDS and when
the journal is closed: a power cut may cost the answers since then, which are then paid for again.
"""

import json
import logging
import os
import shutil
import time
from pathlib import Path
from typing import Any

from data_gen.teacher.calls import Answer, TeacherCall
from data_gen.teacher.journal_lines import JournalContents, read_journal
from data_gen.teacher.spending import Amount
from data_gen.teacher.writer_lock import WriterLock

logger = logging.getLogger(__name__)

SYNC_SECONDS = 1.0
# No call is begun on a disk with less room: the answers under way must find their place.
LEAST_FREE_BYTES = 16 * 2**20


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
        """What all calls together have cost or may yet cost, those of earlier runs too."""
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
            self._broken = self._write_error(error)
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

    def _write_error(self, error: OSError) -> JournalError:
        return JournalError(
            f"{self.path}: cannot be written ({error.strerror}). {self._kept()} Free some space "
            "and run the command again"
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
