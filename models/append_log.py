"""An append-only JSON Lines file that a kill cannot spoil: what was finished before it stays."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from models.formats.fields import RecordError


class AppendLog:
    """Records of finished work, one a line, each on the disk before the next is begun."""

    def __init__(self, path: Path, remedy: str) -> None:
        """Open or create it; a last line that was cut short by a kill is dropped.

        remedy: what to do about a line that is no JSON, for the error.
        """
        self.path = path
        self.remedy = remedy
        if path.is_file():
            _drop_torn_line(path)

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write records through to the disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as handle:
            for record in records:
                handle.write(json.dumps(record, ensure_ascii=False) + "\n")
            handle.flush()
            os.fsync(handle.fileno())

    def read(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Where each record stands (file and line) and the record; none without a file.

        Raises:
            RecordError: a line that is no JSON.
        """
        if not self.path.is_file():
            return
        with self.path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                where = f"{self.path}:{number}"
                try:
                    yield where, json.loads(line)
                except ValueError as error:
                    problem = f"malformed ({error})"
                    raise RecordError(where, "(line)", problem, self.remedy) from None


def _drop_torn_line(path: Path) -> None:
    """Cut off what follows the last line end."""
    with path.open("rb+") as handle:
        content = handle.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            handle.truncate(whole)
