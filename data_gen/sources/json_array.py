"""The items of one large JSON array, read piece by piece."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from models.formats.fields import RecordError

_CHUNK = 1 << 20
# An item that is cut by the end of what was read fails within its last characters.
_CUT_MARGIN = 32
_SPACE = " \t\r\n"


def iterate_json_array(path: str | Path, chunk_size: int = _CHUNK) -> Iterator[Any]:
    """Yield the items of a file that is one JSON array, holding one piece in memory.

    The official HotpotQA and 2WikiMultihopQA files are such arrays of half a gigabyte.
    `chunk_size` is in characters. Raises RecordError, which names the item, when the array is
    malformed or cut; no item after that place can be read.
    """
    with open(path, encoding="utf-8-sig") as file:
        yield from _ArrayReader(file, str(path), chunk_size).items()


class _ArrayReader:
    """A window over the file's text: `buffer[position:]` is read but not yet consumed."""

    def __init__(self, file: TextIO, path: str, chunk_size: int) -> None:
        self.file, self.path, self.chunk_size = file, path, chunk_size
        self.buffer, self.position, self.index = "", 0, 0
        self.at_end = False
        self.decoder = json.JSONDecoder()

    def items(self) -> Iterator[Any]:
        self._expect("[")
        if self._peek() == "]":
            self.position += 1
        else:
            yield self._item()
            while self._expect(",]") == ",":
                yield self._item()
        if self._peek():
            raise self._fail("text follows the closing ']'", "Keep one JSON array a file")

    def _item(self) -> Any:
        self._peek()
        size = self.chunk_size
        while True:
            try:
                value, end = self.decoder.raw_decode(self.buffer, self.position)
            except json.JSONDecodeError as error:
                if self.at_end or not self._is_cut(error):
                    problem = f"malformed JSON ({error.msg})"
                    raise self._fail(
                        problem, "The file is damaged or cut: fetch it again"
                    ) from None
            else:
                # A number near the end may go on in the next piece ("1." of "1.5").
                if self.at_end or not self._is_open_number(value, end):
                    self.position, self.index = end, self.index + 1
                    return value
            # Doubling keeps an item that is larger than a piece from costing quadratic time.
            self._read(size)
            size *= 2

    def _is_cut(self, error: json.JSONDecodeError) -> bool:
        unterminated = error.msg.startswith("Unterminated string")
        return unterminated or error.pos >= len(self.buffer) - _CUT_MARGIN

    def _is_open_number(self, value: Any, end: int) -> bool:
        return not isinstance(value, dict | list | str) and end >= len(self.buffer) - _CUT_MARGIN

    def _peek(self) -> str:
        """The next character that is not white space; empty at the end of the file."""
        while True:
            while self.position < len(self.buffer):
                if self.buffer[self.position] not in _SPACE:
                    return self.buffer[self.position]
                self.position += 1
            if self.at_end:
                return ""
            self._read(self.chunk_size)

    def _expect(self, characters: str) -> str:
        found = self._peek()
        if not found or found not in characters:
            wanted = " or ".join(repr(character) for character in characters)
            problem = f"expected {wanted}, found {found!r}" if found else "the array is cut"
            raise self._fail(problem, "The file is damaged or cut: fetch it again")
        self.position += 1
        return found

    def _read(self, size: int) -> None:
        try:
            chunk = self.file.read(size)
        except UnicodeDecodeError as error:
            raise self._fail(str(error), "Save the file as UTF-8") from None
        self.buffer = self.buffer[self.position :] + chunk
        self.position = 0
        self.at_end = not chunk

    def _fail(self, problem: str, remedy: str) -> RecordError:
        return RecordError(f"{self.path}[{self.index}]", "(item)", problem, remedy)
