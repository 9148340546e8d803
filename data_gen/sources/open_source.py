"""A source by its name: `--source NAME=PATH`, NAME one of the names below."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from common.names import did_you_mean
from data_gen.sources.contract import (
    arc_question,
    asqa_question,
    contract_question,
    has_short_answer,
    instruction,
    reading_question,
)
from data_gen.sources.hub import is_hub_reference, parse_hub_reference, read_hub_rows
from data_gen.sources.multi_hop import (
    hotpotqa_question,
    is_tree,
    musique_question,
    question_tree,
    twowiki_question,
)
from data_gen.sources.rows import OnError, Row, convert_rows, read_rows
from data_gen.sources.texts import contract_sample, read_webnlg, tekgen_sample, wikiofgraph_sample
from models.formats.records import QuestionRecord, TriplesSample

T = TypeVar("T")
Reader = Callable[[str | Path, OnError | None], Iterator[T]]


def converted(
    convert: Callable[[Row], T],
    pattern: str | None = None,
    wanted: Callable[[Row], bool] | None = None,
) -> Reader[T]:
    """Return a reader of a source whose rows `convert` turns into records.

    pattern: of the files to read where the path is a folder. wanted: which rows are taken (all).
    """

    def read(path: str | Path, on_error: OnError | None) -> Iterator[T]:
        rows = _open_rows(path, pattern, on_error)
        return convert_rows(filter(wanted, rows) if wanted else rows, convert, on_error)

    return read


# A new source is a converter of its rows and a line here.
QUESTION_SOURCES: dict[str, Reader[QuestionRecord]] = {
    "subquestions": converted(question_tree, wanted=is_tree),
    "hotpotqa": converted(hotpotqa_question),
    "2wikimultihopqa": converted(twowiki_question),
    "musique": converted(musique_question),
    "world": converted(contract_question, "questions_*.jsonl"),
    "contract": converted(contract_question),
    "arc": converted(arc_question),
    "asqa": converted(asqa_question),
    "instructions": converted(instruction),
    "reading": converted(reading_question, wanted=has_short_answer),
}
TRIPLE_SOURCES: dict[str, Reader[TriplesSample]] = {
    "webnlg": read_webnlg,
    "wikiofgraph": converted(wikiofgraph_sample),
    "tekgen": converted(tekgen_sample),
    "world": converted(contract_sample, "triples.jsonl"),
    "contract": converted(contract_sample),
}


def read_questions(
    name: str, path: str | Path, on_error: OnError | None = None
) -> Iterator[QuestionRecord]:
    """Read the questions of a source, its official form or our contract known by content.

    `name` is one of QUESTION_SOURCES. `path` is a file, `hub:org/name[:config]:split`, or for
    `world` the folder that build_world.py wrote (its questions_*.jsonl). Raises ValueError for
    another name, FileNotFoundError, and RecordError, which names file, line and field; with
    `on_error` the record is handed to it as that error and skipped.
    """
    return _reader(name, QUESTION_SOURCES)(path, on_error)


def read_triples(
    name: str, path: str | Path, on_error: OnError | None = None
) -> Iterator[TriplesSample]:
    """Read the texts and triples of a source; `name` is one of TRIPLE_SOURCES.

    `path` is as for `read_questions`; for `webnlg` an XML file or a folder of them, for `world`
    the folder (its triples.jsonl). Errors are those of `read_questions`.
    """
    return _reader(name, TRIPLE_SOURCES)(path, on_error)


def _reader(name: str, sources: Mapping[str, Reader[T]]) -> Reader[T]:
    if name not in sources:
        raise ValueError(
            f"source {name!r} is unknown, {did_you_mean(name, sources)}. Write NAME=PATH with "
            f"{', '.join(sources)}"
        )
    return sources[name]


def _open_rows(path: str | Path, pattern: str | None, on_error: OnError | None) -> Iterator[Row]:
    """Return the rows of a hub data set, of a folder's files of that pattern, or of one file."""
    if is_hub_reference(path):
        return read_hub_rows(parse_hub_reference(str(path)))
    if pattern is None or not Path(path).is_dir():
        return read_rows(path, on_error)
    files = sorted(Path(path).glob(pattern))
    if not files:
        raise FileNotFoundError(f"{path}: holds no {pattern}. Run data_gen/build_world.py first")
    return itertools.chain.from_iterable(read_rows(file, on_error) for file in files)
