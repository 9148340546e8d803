"""The rows of a source file, one by one: JSON Lines, a JSON array, CSV, TSV or Parquet."""

import csv
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]

from data_gen.sources.json_array import iterate_json_array
from models.formats.fields import RecordError

OnError = Callable[[RecordError], None]
T = TypeVar("T")

_PARQUET_BATCH = 256
# A cell of a CSV file holds a whole passage, which the csv module's default limit would refuse.
_CELL_LIMIT = min(sys.maxsize, 2**31 - 1)


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
    """The path of an existing file. Raises FileNotFoundError or IsADirectoryError."""
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
