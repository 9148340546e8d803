"""Texts with their triples: our own contract, WikiOFGraph, TekGen (the training part of KELM).

A reader turns one row into a sample, or raises RecordError.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from common.licences import record_subsets
from data_gen.sources.checks import triples_sample
from data_gen.sources.rows import OnError, Row, convert_rows, read_rows
from models.formats.fields import FieldReader
from models.formats.prompts import passage_text
from models.formats.records import TriplesSample
from models.formats.triples import parse_triples


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
    return convert_rows(rows, contract_sample, on_error)


def file_subsets(path: str | Path, datasets: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Return the data sets and licences that a file's lines name, those of `datasets` alone where
    given.

    Rows as `record_subsets` gives them.
    """
    rows = read_rows(path, lambda error: None)
    if datasets is not None:
        rows = _of_datasets(rows, frozenset(datasets))
    return record_subsets(row.value for row in rows if isinstance(row.value, dict))


def contract_sample(row: Row) -> TriplesSample:
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
        # What is not an object goes on to `contract_sample`, which says so.
        if not isinstance(row.value, dict) or row.value.get("dataset") in datasets:
            yield row


def tekgen_sample(row: Row) -> TriplesSample:
    """Return one row with `triples` and `sentence`. Raises RecordError.

    A qualified statement `[subject, value, qualifier, qualifier's value]` ("X", "Award Y",
    "received on", "1990") becomes the triple ("X", "Award Y received on", "1990").
    """
    return _sample(row, ("triples", "triple"), ("sentence", "text"), _join_qualifier)


def wikiofgraph_sample(row: Row) -> TriplesSample:
    """Return one row with `(<S> subject| <P> predicate| <O> object)` strings (RAS App. D.1).

    A text with a malformed or no triple is an error. Raises RecordError.
    """
    return _sample(row, ("triplet", "triplets", "triples", "graph"), ("text", "sentence"), list)


def _join_qualifier(parts: list[str]) -> list[str]:
    if len(parts) != 4:
        return parts
    subject, value, qualifier, qualified = parts
    return [subject, f"{value} {qualifier}", qualified]


def _sample(
    row: Row,
    triples: Sequence[str],
    text: Sequence[str],
    triple: Callable[[list[str]], list[str]],
) -> TriplesSample:
    """Return a row's sample.

    triples, text: names of its columns, of which the first that is there counts.
    """
    reader = FieldReader(row.value, row.where)
    found = _triples_column(reader, triples)
    if not found:
        raise reader.fail(triples[0], "holds no triple", "Give at least one or skip the record")
    sample = {
        "id": reader.text("id", row.fallback_id),
        "text": reader.text(_column(reader, text)),
        "triples": [triple(parts) for parts in found],
    }
    return triples_sample(sample, row.where)


def _column(reader: FieldReader, names: Sequence[str]) -> str:
    """Return the name of the first of these fields that the row has. Raises RecordError."""
    for name in names:
        if reader.record.get(name) is not None:
            return name
    choices = " or ".join(repr(name) for name in names)
    raise reader.fail(names[0], f"missing (fields: {', '.join(reader.record)})", f"Add {choices}")


def _triples_column(reader: FieldReader, names: Sequence[str]) -> list[Any]:
    """Return the row's triples: a list as it is, or read from a JSON or `(<S> ...)` text.

    Raises RecordError.
    """
    name = _column(reader, names)
    value = reader.record[name]
    if not isinstance(value, str):
        return reader.items(name, _as_list, "[subject, predicate, object]")
    if value.lstrip().startswith("["):
        try:
            return FieldReader({name: json.loads(value)}, reader.where).items(
                name, _as_list, "[subject, predicate, object]"
            )
        except json.JSONDecodeError as error:
            raise reader.fail(name, f"malformed JSON ({error})", "Write a JSON list") from None
    parsed = parse_triples(value)
    if parsed.malformed:
        problem = f"{parsed.malformed} malformed besides {len(parsed.triples)} well-formed triples"
        raise reader.fail(name, problem, "Write (<S> subject| <P> predicate| <O> object), ...")
    return [list(vars(triple).values()) for triple in parsed.triples]


def _as_list(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise TypeError("not a list of strings")
    return value
