"""A source by its name: `--source NAME=PATH`, NAME one of the names below."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from common.commands import nearest
from data_gen.sources import (
    arc,
    asqa,
    contract,
    contract_triples,
    hotpotqa,
    instructions,
    musique,
    subquestions,
    tekgen,
    twowiki,
    webnlg,
    wikiofgraph,
)
from data_gen.sources.hub import is_hub_reference, parse_hub_reference, read_hub_rows
from data_gen.sources.rows import OnError, Row, convert_rows, read_rows
from models.formats.records import QuestionRecord, TriplesSample

_QUESTIONS: dict[str, Callable[[Row], QuestionRecord]] = {
    "hotpotqa": hotpotqa.convert,
    "2wikimultihopqa": twowiki.convert,
    "musique": musique.convert,
    "world": contract.convert,
    "contract": contract.convert,
    "arc": arc.convert,
    "asqa": asqa.convert,
    "instructions": instructions.convert,
}
_TRIPLES: dict[str, Callable[[Row], TriplesSample]] = {
    "wikiofgraph": wikiofgraph.convert,
    "tekgen": tekgen.convert,
    "world": contract_triples.convert,
    "contract": contract_triples.convert,
}
QUESTION_SOURCES = ("subquestions", *_QUESTIONS)
TRIPLE_SOURCES = ("webnlg", *_TRIPLES)


def read_questions(
    name: str, path: str | Path, on_error: OnError | None = None
) -> Iterator[QuestionRecord]:
    """Read the questions of a source, its official form or our contract known by content.

    `name` is one of QUESTION_SOURCES. `path` is a file, `hub:org/name[:config]:split`, or for
    `world` the folder that build_world.py wrote (its questions_*.jsonl). Raises ValueError for
    another name, FileNotFoundError, and RecordError, which names file, line and field; with
    `on_error` the record is handed to it as that error and skipped.
    """
    _check_name(name, QUESTION_SOURCES)
    if name == "subquestions":
        return subquestions.read(path, on_error)
    pattern = "questions_*.jsonl" if name == "world" else None
    return convert_rows(_open_rows(path, pattern, on_error), _QUESTIONS[name], on_error)


def read_triples(
    name: str, path: str | Path, on_error: OnError | None = None
) -> Iterator[TriplesSample]:
    """Read the texts and triples of a source; `name` is one of TRIPLE_SOURCES.

    `path` is as for `read_questions`; for `webnlg` an XML file or a folder of them, for `world`
    the folder (its triples.jsonl). Errors are those of `read_questions`.
    """
    _check_name(name, TRIPLE_SOURCES)
    if name == "webnlg":
        return webnlg.read(path, on_error)
    pattern = "triples.jsonl" if name == "world" else None
    return convert_rows(_open_rows(path, pattern, on_error), _TRIPLES[name], on_error)


def _check_name(name: str, names: tuple[str, ...]) -> None:
    if name not in names:
        known = f"Write NAME=PATH with {', '.join(names)}"
        raise ValueError(f"source {name!r} is unknown. {nearest(name, names)} {known}")


def _open_rows(path: str | Path, pattern: str | None, on_error: OnError | None) -> Iterator[Row]:
    """Rows of a hub data set, of a folder's files of that pattern, or of one file."""
    if is_hub_reference(path):
        return read_hub_rows(parse_hub_reference(str(path)))
    if pattern is None or not Path(path).is_dir():
        return read_rows(path, on_error)
    files = sorted(Path(path).glob(pattern))
    if not files:
        raise FileNotFoundError(f"{path}: holds no {pattern}. Run data_gen/build_world.py first")
    return itertools.chain.from_iterable(read_rows(file, on_error) for file in files)
