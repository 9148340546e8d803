"""The rows of a source file, one by one: JSON Lines, a JSON array, CSV, TSV or Parquet."""

import csv
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]

from common.errors import RecordError

_CHUNK = 1 << 20
# An item that is cut by the end of what was read fails within its last characters.
_CUT_MARGIN = 32
_SPACE = " \t\r\n"
OnError = Callable[[RecordError], None]
T = TypeVar("T")

_PARQUET_BATCH = 256
# A cell of a CSV file holds a whole passage, which the csv module's default limit would refuse.
_CELL_LIMIT = min(sys.maxsize, 2**31 - 1)


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
        """Return the next character that is not white space; empty at the end of the file."""
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


@dataclass(frozen=True)
class Row:
    """One row as its file holds it, with the place that errors name."""

    value: Any
    where: str
    fallback_id: str


def read_rows(path: str | Path, on_error: OnError | None = None) -> Iterator[Row]:
    """Read a file's rows without loading it whole; the form is known by content and suffix.

    A file that starts with `[` is a JSON array, one that starts with `{` is JSON Lines whatever
    its suffix (TekGen's are called .tsv); then .parquet, .csv and .tsv (with a header line).
    Raises RecordError for a malformed line, or hands it to `on_error` and goes on; a JSON array
    or a table that breaks off always raises, since what follows is lost.
    """
    path = require_file(path)
    if path.suffix == ".parquet":
        return _parquet_rows(path)
    start = _first_character(path)
    if start == "[":
        return _array_rows(path)
    if start != "{" and path.suffix in (".csv", ".tsv"):
        return _table_rows(path, on_error)
    return _line_rows(path, on_error)


def convert_rows(
    rows: Iterator[Row], convert: Callable[[Row], T], on_error: OnError | None = None
) -> Iterator[T]:
    """Turn rows into records; a RecordError is raised, or given to `on_error` and skipped."""
    for row in rows:
        try:
            record = convert(row)
        except RecordError as error:
            if on_error is None:
                raise
            on_error(error)
        else:
            yield record


def require_file(path: str | Path) -> Path:
    """Return the path of an existing file. Raises FileNotFoundError or IsADirectoryError."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder. Name one data file in it")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file. Check the path after NAME=")
    return path


def _first_character(path: Path) -> str:
    with open(path, "rb") as file:
        return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1].decode("latin-1")


def _array_rows(path: Path) -> Iterator[Row]:
    for index, value in enumerate(iterate_json_array(path)):
        yield Row(value, f"{path}[{index}]", f"{path.stem}:{index}")


def _line_rows(path: Path, on_error: OnError | None) -> Iterator[Row]:
    # Lines are split as bytes, so that one bad character costs one line and is named by it.
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                yield Row(_parse_line(line, where), where, f"{path.stem}:{number}")
            except RecordError as error:
                if on_error is None:
                    raise
                on_error(error)


def _parse_line(line: bytes, where: str) -> Any:
    try:
        return json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise RecordError(where, "(line)", str(error), "Save the file as UTF-8") from None
    except (json.JSONDecodeError, RecursionError) as error:
        problem = f"malformed JSON ({error})"
        raise RecordError(where, "(line)", problem, "Write one JSON object a line") from None


class _Tsv(csv.Dialect):
    """Tabs between cells; a quotation mark is text like any other character."""

    delimiter = "\t"
    quoting = csv.QUOTE_NONE
    lineterminator = "\n"


def _table_rows(path: Path, on_error: OnError | None) -> Iterator[Row]:
    csv.field_size_limit(_CELL_LIMIT)
    dialect = _Tsv if path.suffix == ".tsv" else csv.excel
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, dialect=dialect, strict=True)
        try:
            yield from _checked_cells(reader, path, on_error)
        except (csv.Error, UnicodeDecodeError) as error:
            where = f"{path}:{reader.line_num}"
            raise RecordError(where, "(line)", str(error), "Save it as UTF-8 CSV or TSV") from None


def _checked_cells(
    reader: "csv.DictReader[str]", path: Path, on_error: OnError | None
) -> Iterator[Row]:
    for row in reader:
        where = f"{path}:{reader.line_num}"
        if None not in row and None not in row.values():
            tsv = path.suffix == ".tsv"
            cells = {name: _unquote(cell) for name, cell in row.items()} if tsv else row
            yield Row(cells, where, f"{path.stem}:{reader.line_num}")
            continue
        problem = f"not as many cells as the header's {len(reader.fieldnames or ())}"
        error = RecordError(where, "(line)", problem, "Quote or remove the extra separators")
        if on_error is None:
            raise error
        on_error(error)


def _unquote(cell: str) -> str:
    """Undo the quoting of a cell, known by doubled marks inside (some tools quote TSV too)."""
    inside = cell[1:-1]
    quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '""' in inside
    return inside.replace('""', '"') if quoted and '"' not in inside.replace('""', "") else cell


def _parquet_rows(path: Path) -> Iterator[Row]:
    index = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_PARQUET_BATCH):
                for value in batch.to_pylist():
                    yield Row(value, f"{path}[{index}]", f"{path.stem}:{index}")
                    index += 1
    except pyarrow.ArrowException as error:
        where, remedy = f"{path}[{index}]", "Fetch the file again"
        raise RecordError(where, "(file)", f"not readable as Parquet ({error})", remedy) from None
