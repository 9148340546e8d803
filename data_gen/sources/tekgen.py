"""TekGen (the KELM corpus's training part): Wikipedia sentences with Wikidata triples."""

from collections.abc import Iterator
from pathlib import Path

from data_gen.sources.checks import triples_sample
from data_gen.sources.rows import OnError, Row, convert_rows, read_rows
from data_gen.sources.triple_columns import text_column, triples_column
from models.formats.fields import FieldReader
from models.formats.records import TriplesSample

_TRIPLES = ("triples", "triple")
_TEXT = ("sentence", "text")


def read(path: str | Path, on_error: OnError | None = None) -> Iterator[TriplesSample]:
    """Read quadruples-*.tsv (JSON Lines in spite of the name), a table with a header, or Parquet.

    Raises RecordError; with `on_error` the record is handed to it as that error and skipped.
    """
    return convert_rows(read_rows(path, on_error), convert, on_error)


def convert(row: Row) -> TriplesSample:
    """Return one row with `triples` and `sentence`. Raises RecordError.

    A qualified statement `[subject, value, qualifier, qualifier's value]` ("X", "Award Y",
    "received on", "1990") becomes the triple ("X", "Award Y received on", "1990").
    """
    reader = FieldReader(row.value, row.where)
    triples = triples_column(reader, _TRIPLES)
    if not triples:
        raise reader.fail(_TRIPLES[0], "holds no triple", "Give at least one or skip the record")
    sample = {
        "id": reader.text("id", row.fallback_id),
        "text": text_column(reader, _TEXT),
        "triples": [_join_qualifier(parts) for parts in triples],
    }
    return triples_sample(sample, row.where)


def _join_qualifier(parts: list[str]) -> list[str]:
    if len(parts) != 4:
        return parts
    subject, value, qualifier, qualified = parts
    return [subject, f"{value} {qualifier}", qualified]
