"""Records that are written to disk once and read again as often as needed, in their order."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar


class Spooled(Protocol):
    """What can be spooled: it goes to a JSON object and comes back as it was."""

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read the JSON object."""
        ...

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        ...


SpooledT = TypeVar("SpooledT", bound=Spooled)


def to_line(record: Spooled) -> str:
    """A record as one line of ASCII, which holds any text, lone surrogates too."""
    return json.dumps(record.to_json())


def from_line(line: str | bytes, record_type: type[SpooledT]) -> SpooledT:
    """The record that `to_line` wrote."""
    return record_type.from_json(json.loads(line))


class Spool(Generic[SpooledT]):
    """A file of records of one type: first `add` them all, then iterate, any number of times."""

    def __init__(self, file: Path, record_type: type[SpooledT]) -> None:
        self.file, self._type = file, record_type
        self._handle = open(file, "w", encoding="ascii")  # noqa: SIM115
        self._count = 0

    def add(self, record: SpooledT) -> None:
        """Append a record."""
        self._handle.write(to_line(record) + "\n")
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[SpooledT]:
        self._handle.close()
        with open(self.file, "rb") as lines:
            for line in lines:
                yield from_line(line, self._type)
