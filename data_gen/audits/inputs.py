"""The files that an audit reads: their kind, records fetched from them, their sources' licences."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import RecordError
from common.licences import is_named, is_non_commercial
from data_gen.audits.findings import Finding, Place, Severity, graded
from data_gen.facts.held_out import question_wording, wording
from data_gen.samples.labels import sample_prompt
from data_gen.sources.arguments import NamedPath, known_licence
from data_gen.sources.open_source import read_questions
from data_gen.sources.splits import SPLITS
from models.formats.conditions import format_condition
from models.formats.prompts import conditions_prompt, triples_prompt
from models.formats.records import (
    ConditionSample,
    InstructionSample,
    QuestionRecord,
    RasSample,
    TriplesSample,
)
from models.formats.triples import format_triples

Sample = RasSample | TriplesSample | ConditionSample | InstructionSample
MOST_RAW_CHARACTERS = 500


@dataclass(frozen=True)
class Kind:
    """The audit of records of one contract.

    prompt, label: the texts that a model reads and writes; they raise ValueError on a blank field.
    owner: the question's or passage's id, whose records share a split.
    wording: what tells the question or passage by its words.
    one_label: whether a prompt has one label; a passage's condition triplets share theirs.
    """

    name: str
    unit: str
    record_type: type[Any]
    prompt: Callable[[Any], str]
    label: Callable[[Any], str]
    owner: Callable[[Any], str]
    wording: Callable[[Any], str]
    one_label: bool = True


PLANS_AND_ANSWERS = Kind(
    "planner and answerer samples", "question", RasSample,
    prompt=sample_prompt,
    label=lambda sample: sample.label,
    owner=lambda sample: sample.question_id,
    wording=lambda sample: question_wording(sample.question),
)  # fmt: skip
TRIPLES = Kind(
    "text-to-triples samples", "passage", TriplesSample,
    prompt=lambda sample: triples_prompt(sample.text),
    label=lambda sample: format_triples(sample.triples),
    owner=lambda sample: sample.id,
    wording=lambda sample: wording(sample.text),
)  # fmt: skip
CONDITIONS = Kind(
    "condition triplets", "passage", ConditionSample,
    prompt=lambda sample: conditions_prompt(sample.text),
    label=lambda sample: format_condition(sample.triplet),
    owner=lambda sample: sample.id.rsplit("/", 1)[0],
    wording=lambda sample: wording(sample.text),
    one_label=False,
)  # fmt: skip
HELPERS = Kind(
    "helper samples", "question", InstructionSample,
    prompt=lambda sample: sample.prompt,
    label=lambda sample: sample.label,
    owner=lambda sample: sample.source_id,
    wording=lambda sample: wording(sample.prompt),
)  # fmt: skip


def kind_of(record: Any) -> Kind | None:
    """Return kind of a JSON object, known by a field that only it has; None for another object."""
    if not isinstance(record, dict):
        return None
    by_field = {
        "prompt": HELPERS, "task": PLANS_AND_ANSWERS, "condition": CONDITIONS, "triples": TRIPLES
    }  # fmt: skip
    return next((kind for field, kind in by_field.items() if field in record), None)


@dataclass(frozen=True)
class SplitFile:
    """One file of samples and the split that it belongs to."""

    split: str
    path: Path


def split_files(arguments: Sequence[str]) -> list[SplitFile]:
    """Return the files that arguments name: folders with train, dev and test files, or SPLIT=FILE.

    Raises ValueError for a folder without any such file or another split's name, and
    FileNotFoundError.
    """
    files: list[SplitFile] = []
    for argument in arguments:
        if Path(argument).is_dir():
            files.extend(_folder_files(Path(argument)))
            continue
        split, separator, path = argument.partition("=")
        if not separator or split not in SPLITS:
            raise ValueError(
                f"{argument}: not a folder. Name a folder or SPLIT=FILE, "
                f"SPLIT one of {', '.join(SPLITS)}"
            )
        if not Path(path).is_file():
            raise FileNotFoundError(f"{path}: no such file. Check the path after {split}=")
        files.append(SplitFile(split, Path(path)))
    seen: set[Path] = set()
    for file in files:
        if file.path.resolve() in seen:
            raise ValueError(f"{file.path}: named twice. Name each file once")
        seen.add(file.path.resolve())
    return files


def _folder_files(folder: Path) -> list[SplitFile]:
    found = [SplitFile(split, folder / f"{split}.jsonl") for split in SPLITS]
    found = [file for file in found if file.path.is_file()]
    if not found:
        names = ", ".join(f"{split}.jsonl" for split in SPLITS)
        raise ValueError(f"{folder}: holds none of {names}. Name a folder that a builder wrote")
    return found


def common_kind(files: Sequence[SplitFile]) -> Kind:
    """Return kind that all files are of. Raises ValueError for a mixture or where none is known."""
    kinds = {file.path: kind for file in files if (kind := file_kind(file.path)) is not None}
    if not kinds:
        names = ", ".join(str(file.path) for file in files)
        raise ValueError(
            f"{names}: no record of a known kind. Name files that build_subq.py, "
            "build_triples.py, build_conditions.py or build_helpers.py wrote"
        )
    (first, kind), *others = kinds.items()
    for path, other in others:
        if other is not kind:
            raise ValueError(
                f"{path} holds {other.name}, {first} {kind.name}. Audit one kind at a time"
            )
    return kind


def file_kind(path: Path) -> Kind | None:
    """Return the kind of the first record that is of a known one."""
    with path.open("rb") as lines:
        for line in lines:
            try:
                kind = kind_of(json.loads(line))
            except ValueError:
                continue
            if kind is not None:
                return kind
    return None


def count_lines(path: Path) -> int:
    """Return how many lines a file has, the last one's break missing or not."""
    with path.open("rb") as lines:
        return sum(1 for _ in lines)


def fetch(files: Sequence[SplitFile], places: Collection[Place]) -> dict[Place, Any]:
    """Return the records at these places; of what is not JSON the text's first 500 characters."""
    found: dict[Place, Any] = {}
    for position, file in enumerate(files):
        wanted = {place.line for place in places if place.file == position}
        with file.path.open("rb") as lines:
            for number, line in zip(range(1, max(wanted, default=0) + 1), lines, strict=False):
                if number in wanted:
                    found[Place(position, number)] = _readable(line)
    return found


def _readable(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line.decode("utf-8", "replace").rstrip("\n")[:MOST_RAW_CHARACTERS]


class QuestionFiles:
    """Reads questions in the contract's form; counts those that break it, and goes on."""

    def __init__(self) -> None:
        self.read = 0
        self.broken: list[RecordError] = []

    def questions(self, files: Sequence[Path | NamedPath]) -> Iterator[QuestionRecord]:
        """Yield the whole questions of the files. Raises FileNotFoundError."""
        for file in files:
            named = file if isinstance(file, NamedPath) else NamedPath("contract", str(file))
            for record in read_questions(named.name, named.path, self.broken.append):
                self.read += 1
                yield record

    def findings(self) -> list[Finding]:
        """Return how many questions could not be read, and so were compared with nothing."""
        if not self.read and not self.broken:
            return []
        count = len(self.broken)
        first = f", the first is {self.broken[0]}" if count else ""
        return [
            Finding(
                "unread_question",
                graded(Severity.WARNING, count),
                count,
                self.read + count,
                "questions of --exclude and --questions",
                f"break their contract and were compared with nothing{first}",
                "correct them, so that a leak of theirs can be found",
            )
        ]


def card_files(files: Iterable[SplitFile]) -> list[Path]:
    """Return the cards beside the files, there or not, each once."""
    return list(dict.fromkeys(file.path.parent / "card.json" for file in files))


def card_sources(card: Path) -> list[dict[str, Any]]:
    """Return sources that a card names; none for a missing card. Raises ValueError on no card."""
    if not card.is_file():
        return []
    try:
        sources = json.loads(card.read_text(encoding="utf-8")).get("sources", [])
        return [dict(source) for source in sources]
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{card}: not a builder's card ({error}). Build the set again") from None


def licence_findings(cards: Sequence[Path]) -> list[Finding]:
    """Sets without sources, sources without a licence, and licences that forbid commercial use."""
    without = [card for card in cards if not card_sources(card)]
    sources = [source for card in cards for source in card_sources(card)]
    unnamed = [source for source in sources if not is_named(licence_of(source))]
    restricted = [source for source in sources if is_non_commercial(licence_of(source))]
    return [
        Finding(
            "no_sources", graded(Severity.WARNING, len(without)), len(without), len(cards),
            "folders", f"have no card.json that names their sources{_listed(without)}",
            "audit the folder that a builder wrote; keep card.json beside the files",
        ),
        Finding(
            "licence_unknown", graded(Severity.WARNING, len(unnamed)), len(unnamed), len(sources),
            "sources", f"have no licence named{_listed(map(_hint, unnamed))}",
            "find it out before what is trained on them ships; add it to LICENCES "
            "(data_gen/sources/arguments.py) or to the records ('licence')",
        ),
        Finding(
            "licence_non_commercial", graded(Severity.WARNING, len(restricted)), len(restricted),
            len(sources), "sources", "forbid commercial use"
            f"{_listed(f'{_name(source)}: {licence_of(source)}' for source in restricted)}",
            "evaluate on them, train what ships on others, or say so in its manifest",
        ),
    ]  # fmt: skip


def licence_of(source: dict[str, Any]) -> str:
    """Return the licence that the card gives a source."""
    return str(source.get("licence") or "")


def _name(source: dict[str, Any]) -> str:
    return f"{source.get('name', '?')} ({source.get('file', '?')})"


def _hint(source: dict[str, Any]) -> str:
    known = known_licence(str(source.get("name", "")), str(source.get("file", "")))
    return f"{_name(source)}, known as {known}" if known else _name(source)


def _listed(items: Iterable[object]) -> str:
    listed = "; ".join(map(str, items))
    return f": {listed}" if listed else ""
