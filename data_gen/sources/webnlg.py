"""WebNLG: the XML releases (v2, v3), one sample a text."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

from common.errors import RecordError
from data_gen.sources.checks import triples_sample
from data_gen.sources.rows import OnError
from models.formats.records import TriplesSample

_SEPARATOR = " | "


def read(path: str | Path, on_error: OnError | None = None) -> Iterator[TriplesSample]:
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
    """Yield each `entry`, taken out after use so that a large file never stands in memory
    whole.
    """
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
