"""WikiOFGraph: texts with `(<S> subject| <P> predicate| <O> object)` strings (RAS App. D.1)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_gen.sources.checks import triples_sample
from data_gen.sources.rows import OnError, Row, convert_rows, read_rows
from data_gen.sources.triple_columns import text_column, triples_column
from models.formats.fields import FieldReader
from models.formats.records import TriplesSample

_TRIPLES = ("triplet", "triplets", "triples", "graph")
_TEXT = ("text", "sentence")


def read(path: str | Path, on_error: OnError | None = None) -> Iterator[TriplesSample]:
    """Read JSON Lines, a JSON array, Parquet, or CSV or TSV with a header line.

    Raises RecordError; with `on_error` the record is handed to it as that error and skipped.
    """
    return convert_rows(read_rows(path, on_error), convert, on_error)


def convert(row: Row) -> TriplesSample:
    """Return one row; a text with a malformed or no triple is an error. Raises RecordError."""
    reader = FieldReader(row.value, row.where)
    triples = triples_column(reader, _TRIPLES)
    if not triples:
        raise reader.fail(_TRIPLES[0], "holds no triple", "Give at least one or skip the record")
    sample: dict[str, Any] = {
        "id": reader.text("id", row.fallback_id),
        "text": text_column(reader, _TEXT),
        "triples": triples,
    }
    return triples_sample(sample, row.where)
