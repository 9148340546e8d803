"""The records of an audit's files: once with their faults counted, then the whole ones again."""

from collections.abc import Iterator, Sequence
from functools import partial

from tqdm import tqdm

from data_gen.audits.findings import Place
from data_gen.audits.inputs import SplitFile, count_lines
from data_gen.audits.schema import Schema
from data_gen.audits.table import RecordTable, Seen
from models.formats.records import RasSample, read_numbered


def read_and_check(
    files: Sequence[SplitFile], schema: Schema, table: RecordTable
) -> Iterator[Seen]:
    """Every whole record, entered in `table`; what is not whole goes to `schema` and no further."""
    for position, file in enumerate(files):
        table.start_file()
        on_error = partial(schema.broken, position)
        numbered = read_numbered(file.path, table.kind.record_type, on_error)
        total = count_lines(file.path)
        for line, record in tqdm(numbered, desc=str(file.path), unit="record", total=total):
            place = Place(position, line)
            if not schema.whole(place, record):
                continue
            try:
                seen = table.add(line, record)
            except UnicodeEncodeError:
                schema.not_unicode(place)
                continue
            schema.see(seen)
            yield seen


def read_again(files: Sequence[SplitFile], table: RecordTable) -> Iterator[tuple[Place, RasSample]]:
    """The planner and answerer samples that `table` holds, from their files once more."""
    for position, file in enumerate(files):
        lines = table.lines(position)
        entered = 0
        records = read_numbered(file.path, RasSample, lambda error: None)
        for line, record in tqdm(records, desc=f"{file.path}, answers", unit="record"):
            if entered < len(lines) and lines[entered] == line:
                entered += 1
                yield Place(position, line), record
