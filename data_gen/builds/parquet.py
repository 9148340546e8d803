"""Samples as Parquet rows, with the card of a data set in the form of the Hugging Face hub."""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
from huggingface_hub import DatasetCardData

from common.errors import RecordError
from common.tables import markdown_table
from models.formats.records import ConditionSample, RasSample, Record, TriplesSample

# Rows of a row group, which is what a reader holds of a file at least.
ROWS_OF_A_GROUP = 10_000
_TEXT = pyarrow.string()
# [subject, predicate, object], as in JSON Lines.
_TRIPLES = pyarrow.list_(pyarrow.list_(_TEXT))
# The texts are null where a step has none.
_STEP = [("subquery", _TEXT), ("triples", _TRIPLES), ("texts", pyarrow.list_(_TEXT))]
_HISTORY = pyarrow.list_(pyarrow.struct(_STEP))
_SCHEMAS: dict[type[Record], Any] = {
    RasSample: pyarrow.schema(
        [("id", _TEXT), ("task", _TEXT), ("question", _TEXT), ("history", _HISTORY),
         ("label", _TEXT)]
    ),
    TriplesSample: pyarrow.schema([("id", _TEXT), ("text", _TEXT), ("triples", _TRIPLES)]),
    ConditionSample: pyarrow.schema(
        [(name, _TEXT) for name in ("id", "text", "condition", "proof", "conclusion")]
    ),
}  # fmt: skip
# The hub's ids of licences; another licence is "other" there, and one not stated "unknown".
_LICENCE_IDS = {
    "Apache-2.0": "apache-2.0",
    "CC BY 4.0": "cc-by-4.0",
    "CC BY-SA 3.0": "cc-by-sa-3.0",
    "CC BY-SA 4.0": "cc-by-sa-4.0",
    "CC BY-NC-SA 4.0": "cc-by-nc-sa-4.0",
    "MIT": "mit",
    "ODC-BY 1.0": "odc-by",
}
_NOT_STATED = {"see the source's records", "not stated", ""}
_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B")


class RowWriter:
    """Writes the records of JSON Lines files of one contract to Parquet files, in pieces.

    The contract is known by the fields of the first record: planner and answerer samples,
    text-to-triples samples, condition triplets, or any records whose fields are all texts.
    """

    def __init__(self, first: Path) -> None:
        where, record = next(_objects(first), (str(first), None))
        if record is None:
            raise RecordError(where, "(file)", "holds no record", "Name a folder with samples")
        if not isinstance(record, dict):
            raise RecordError(where, "(record)", "not a JSON object", "Write one object a line")
        types = {frozenset(schema.names): kind for kind, schema in _SCHEMAS.items()}
        self._type = types.get(frozenset(record))
        if self._type is not None:
            self.schema = _SCHEMAS[self._type]
        elif all(isinstance(value, str) for value in record.values()):
            self.schema = pyarrow.schema([(name, _TEXT) for name in record])
        else:
            problem = f"of no known contract (fields: {', '.join(record)})"
            raise RecordError(where, "(record)", problem, "Name a folder that a builder wrote")

    def write(self, source: Path, target: Path) -> int:
        """Write one file; how many rows it has. Raises RecordError, which names line and field."""
        count = 0
        waiting: list[tuple[str, dict[str, Any]]] = []
        with pyarrow.parquet.ParquetWriter(target, self.schema, compression="zstd") as writer:
            for where, record in _objects(source):
                waiting.append((where, self._checked(record, where)))
                count += 1
                if len(waiting) == ROWS_OF_A_GROUP:
                    writer.write_batch(self._batch(waiting))
                    waiting = []
            if waiting:
                writer.write_batch(self._batch(waiting))
        return count

    def _checked(self, record: Any, where: str) -> dict[str, Any]:
        if self._type is not None:
            return self._type.from_json(record, where).to_json()
        if not isinstance(record, dict) or list(record) != self.schema.names:
            names = ", ".join(self.schema.names)
            raise RecordError(where, "(record)", "has other fields", f"Write {names}")
        for name, value in record.items():
            if not isinstance(value, str):
                kind = type(value).__name__
                raise RecordError(where, name, f"is {kind}, not a string", "Write a text")
        return record

    def _batch(self, rows: Sequence[tuple[str, dict[str, Any]]]) -> Any:
        try:
            return pyarrow.RecordBatch.from_pylist([row for _, row in rows], self.schema)
        except (UnicodeError, pyarrow.ArrowException) as error:
            if len(rows) > 1:
                for row in rows:
                    self._batch([row])
            problem = f"cannot be written ({error})"
            raise RecordError(rows[0][0], "(record)", problem, "Correct the text") from None


def _objects(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the JSON values of a file's lines, each with its place. Raises RecordError."""
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                where = f"{path}:{number}"
                try:
                    yield where, json.loads(line)
                except ValueError as error:
                    problem = f"malformed JSON ({error})"
                    raise RecordError(where, "(line)", problem, "Build the folder again") from None


def hub_page(
    card: Mapping[str, Any],
    rows: Mapping[str, int],
    hashes: Mapping[str, str],
    fields: Mapping[str, str],
) -> str:
    """Return README.md of a folder of Parquet files.

    card: of the build. rows, hashes: of each split's Parquet file, where it has one. fields: name
    and type of each.
    """
    sources: Sequence[Mapping[str, Any]] = card.get("sources", [])
    digits = len(str(sum(rows.values())))
    data = DatasetCardData(
        license=licence_ids(sources),
        pretty_name=card["title"],
        size_categories=[_SIZES[min(max(digits - 3, 0), len(_SIZES) - 1)]],
        configs=[
            {
                "config_name": "default",
                "data_files": [{"split": name, "path": f"{name}.parquet"} for name in rows],
            }
        ],
    )
    splits = [(name, count, hashes[name]) for name, count in rows.items()]
    lines = ["---", data.to_yaml(), "---", "", f"# {card['title']}", ""]
    lines += ["## Splits", "", *markdown_table(["split", "rows", "sha256"], splits)]
    empty = [name for name, count in card.get("splits", {}).items() if not count]
    if empty:
        lines += ["", f"Without records, so without a file: {', '.join(empty)}."]
    lines += ["", "## Fields", "", *markdown_table(["field", "type"], fields.items())]
    columns = ["source", "file", "version", "sha256", "licence", "records"]
    named = markdown_table(columns, map(_source_row, sources))
    lines += ["", "## Sources", "", *(named if sources else ["The build's card names none."])]
    lines += ["", "## How it was made", "", *_made(card), ""]
    return "\n".join(lines)


def licence_ids(sources: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the hub's ids of the sources' licences, each once."""
    named = [part for row in sources for part in str(row.get("licence", "")).split("; ")]
    ids = ("unknown" if n in _NOT_STATED else _LICENCE_IDS.get(n, "other") for n in named)
    return list(dict.fromkeys(ids)) or ["unknown"]


def _source_row(source: Mapping[str, Any]) -> list[Any]:
    file, sha256 = str(source.get("file", "")), source.get("sha256", "")
    # A data set of the hub is read at a revision: NAME@REVISION:SPLIT.
    revision = file.partition("@")[2].partition(":")[0]
    named = revision or ("the file's, by its sha256" if sha256 else "not stated")
    return [source.get("name"), file, named, sha256 or "-", source.get("licence"),
            source.get("records")]  # fmt: skip


def _made(card: Mapping[str, Any]) -> list[str]:
    packages = [f"{name} {_version(name)}" for name in ("trivium-rag", "pyarrow", "datasets")]
    options = [f"- {name}: {value}" for name, value in card.get("options", {}).items()]
    options += [f"- seed: {card['seed']}"] if "seed" in card else []
    return ["`card.json` beside this page is the build's own card, with all figures.", "",
            *options, f"- written with {', '.join(packages)}"]  # fmt: skip


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of a checkout"
