"""What a reader is to read for the loop's subqueries, and what it found there."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from data_gen.streaming.files import Spool
from data_gen.streaming.groups import DiskGroups
from models.formats.passages import AskedPassage
from models.formats.records import PassageRecord, read_records, write_records
from models.formats.triples import Triple


class AskedWriter:
    """Writes, each once, what a reader is to read; the file is there when all is written."""

    def __init__(self, path: Path, folder: Path) -> None:
        """folder: for what is to be written, until it is whole."""
        self._path = path
        self._asked = Spool(folder / "asked", AskedPassage)
        self._keys = DiskGroups(folder)

    def add(self, subquery: str, passages: Iterable[PassageRecord]) -> None:
        """Take in the passages that a subquery found."""
        for passage in passages:
            asked = AskedPassage(subquery, passage)
            if asked.key not in self._keys:
                self._keys.add(asked.key)
                self._asked.add(asked)

    def finish(self) -> None:
        """Write the file."""
        write_records(self._path, self._asked)


class Readings:
    """Looks up what a reader found in a passage for a subquery."""

    def __init__(self, path: Path, folder: Path) -> None:
        """path: JSON Lines of `AskedPassage`. folder: for the table. Raises RecordError."""
        self._path = path
        self._found = DiskGroups(folder)
        for asked in read_records(path, AskedPassage):
            self._found.add(asked.key, json.dumps(asked.to_json()["triples"]), replace=True)

    def of(self, passage: PassageRecord, subquery: str) -> Sequence[Triple]:
        """Return the triples. Raises ValueError for a passage that was not read for it."""
        text = self._found.payload(AskedPassage(subquery, passage).key)
        if text is None:
            raise ValueError(
                f"{self._path}: the passage {passage.title!r} was not read for {subquery!r}. "
                "Write what is asked with --asked and the same options, and read all of it with "
                "inference/extract.py --asked"
            )
        return [Triple(*parts) for parts in json.loads(text)]
