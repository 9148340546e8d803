"""What a reader is to read for the loop's subqueries, and what it found there."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from data_gen.streaming.groups import DiskGroups
from models.formats.passages import AskedPassage
from models.formats.records import PassageRecord, read_records
from models.formats.triples import Triple


class AskedWriter:
    """Writes, each once, what a reader is to read; the file is there when all is written."""

    def __init__(self, path: Path, folder: Path) -> None:
        """folder: for the file before it is whole, and for what was written."""
        self._path, self._part = path, folder / "asked.jsonl"
        self._written = DiskGroups(folder)
        self._file = open(self._part, "w", encoding="utf-8")  # noqa: SIM115

    def add(self, subquery: str, passages: Iterable[PassageRecord]) -> None:
        """Write the passages that a subquery found."""
        for passage in passages:
            asked = AskedPassage(subquery, passage)
            if asked.key not in self._written:
                self._written.add(asked.key)
                self._file.write(json.dumps(asked.to_json(), ensure_ascii=False) + "\n")

    def finish(self) -> None:
        """Put the whole file in its place."""
        self._file.close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._part.replace(self._path)


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
