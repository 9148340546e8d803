"""Texts with their triples in our own contract, with a filter by data set."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from common.licences import record_subsets
from data_gen.sources.checks import triples_sample
from data_gen.sources.rows import OnError, Row, convert_rows, read_rows
from models.formats.fields import FieldReader
from models.formats.prompts import passage_text
from models.formats.records import TriplesSample


def read_contract_triples(
    path: str | Path, datasets: Collection[str] | None = None, on_error: OnError | None = None
) -> Iterator[TriplesSample]:
    """Read JSON Lines of `{id?, text, triples, title?, dataset?, licence?}`.

    With `datasets`, only records whose `dataset` is among them are kept, so that a file of mixed
    licences can be used in part. Raises RecordError; with `on_error` the record is handed to it
    as that error and skipped.
    """
    rows = read_rows(path, on_error)
    if datasets is not None:
        rows = _of_datasets(rows, frozenset(datasets))
    return convert_rows(rows, convert, on_error)


def file_subsets(path: str | Path, datasets: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Return the data sets and licences that a file's lines name, those of `datasets` alone where
    given.

    Rows as `record_subsets` gives them.
    """
    rows = read_rows(path, lambda error: None)
    if datasets is not None:
        rows = _of_datasets(rows, frozenset(datasets))
    return record_subsets(row.value for row in rows if isinstance(row.value, dict))


def convert(row: Row) -> TriplesSample:
    """Return one row of the contract. Raises RecordError.

    A missing id becomes `<file stem>:<line>`. A title is put before the text as a passage's is
    when a model reads it (`passage_text`), since the text alone may say "he" for it.
    """
    reader = FieldReader(row.value, row.where)
    record = dict(reader.record)
    if record.get("id") is None:
        record["id"] = row.fallback_id
    title = reader.text("title", "")
    if title:
        record["text"] = passage_text(title, reader.text("text"))
    return triples_sample(record, row.where)


def _of_datasets(rows: Iterator[Row], datasets: frozenset[str]) -> Iterator[Row]:
    for row in rows:
        # What is not an object goes on to `convert`, which says so.
        if not isinstance(row.value, dict) or row.value.get("dataset") in datasets:
            yield row
