"""Texts with their triples: our own contract, WikiOFGraph, TekGen (of KELM), WebNLG's XML (v2, v3).

A reader turns one row into a sample, or raises RecordError.
"""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from common.errors import RecordError
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
    """Return the data sets and licences that a file's lines name, of `datasets` alone if given.

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


_SEPARATOR = " | "


def read_webnlg(path: str | Path, on_error: OnError | None = None) -> Iterator[TriplesSample]:
    """Read one XML file or every one below a folder; each English `lex` is a sample.

    Underscores of entities become spaces, quotation marks around a literal go. The id is
    `<file>/<category>/<size>/<eid>/<lid>`. Raises RecordError, which names file and entry; with
    `on_error` the entry is handed to it as that error and skipped. XML that is not well formed
    always raises, since what follows is lost.
    """
    root = Path(path)
    files = sorted(root.rglob("*.xml")) if root.is_dir() else [root]
    if not files or not all(file.is_file() for file in files):
        raise FileNotFoundError(f"{root}: no XML file. Give one, or the folder that holds them")
    return _read_files(root, files, on_error)


def _read_files(root: Path, files: list[Path], on_error: OnError | None) -> Iterator[TriplesSample]:
    for file in files:
        relative = file.relative_to(root) if file != root else Path(file.name)
        for index, entry in enumerate(_entries(file)):
            try:
                samples = _samples(entry, file, index, relative.with_suffix("").as_posix())
            except RecordError as error:
                if on_error is None:
                    raise
                on_error(error)
            else:
                yield from samples


def _entries(file: Path) -> Iterator[ElementTree.Element]:
    """Yield each `entry`, then drop it, so that a large file is never in memory whole."""
    above: list[ElementTree.Element] = []
    try:
        for event, element in ElementTree.iterparse(file, events=("start", "end")):
            if event == "start":
                above.append(element)
                continue
            above.pop()
            if element.tag == "entry":
                yield element
                for parent in above[-1:]:
                    parent.remove(element)
    except ElementTree.ParseError as error:
        line, column = error.position
        problem, remedy = f"malformed XML at column {column} ({error})", "Fetch the file again"
        raise RecordError(f"{file}:{line}", "(XML)", problem, remedy) from None


def _samples(entry: ElementTree.Element, file: Path, index: int, name: str) -> list[TriplesSample]:
    where = f"{file}[{index}] (entry {entry.get('eid', '?')})"
    triples = [
        _triple(element.text, where) for element in entry.findall("modifiedtripleset/mtriple")
    ]
    if not triples:
        raise RecordError(where, "modifiedtripleset", "holds no mtriple", "Add one or skip it")
    labels = [entry.get(key, "") for key in ("category", "size", "eid")]
    samples = []
    for number, element in enumerate(entry.iterfind("lex"), start=1):
        if element.get("lang", "en") != "en":
            continue
        identity = "/".join([name, *filter(None, labels), element.get("lid") or f"Id{number}"])
        record = {"id": identity, "text": _text(element, where), "triples": triples}
        samples.append(triples_sample(record, where))
    return samples


def _text(element: ElementTree.Element, where: str) -> str:
    """Return a lex's text; enriched releases keep it in a `text` element."""
    text = " ".join((element.findtext("text") or element.text or "").split())
    if not text:
        raise RecordError(where, "lex", "has no text", "Fill it in or remove the element")
    return text


def _triple(text: str | None, where: str) -> list[str]:
    parts = (text or "").strip().split(_SEPARATOR)
    if len(parts) != 3:
        problem = f"{text!r} has {len(parts)} parts, not 3"
        raise RecordError(where, "mtriple", problem, "Write subject | predicate | object")
    subject, predicate, object_ = parts
    return [_entity(subject), predicate.strip(), _entity(object_)]


def _entity(text: str) -> str:
    return text.strip().strip('"').replace("_", " ").strip()
