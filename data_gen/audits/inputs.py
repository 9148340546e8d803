"""The files that an audit reads: which there are, of what kind, and records fetched again."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_gen.audits.findings import Place
from data_gen.audits.kinds import Kind, kind_of
from data_gen.splits import SPLITS

MOST_RAW_CHARACTERS = 500


@dataclass(frozen=True)
class SplitFile:
    """One file of samples and the split that it belongs to."""

    split: str
    path: Path


def split_files(arguments: Sequence[str]) -> list[SplitFile]:
    """The files that arguments name: folders with train, dev and test files, or SPLIT=FILE.

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
    _refuse_twice(files)
    return files


def _folder_files(folder: Path) -> list[SplitFile]:
    found = [SplitFile(split, folder / f"{split}.jsonl") for split in SPLITS]
    found = [file for file in found if file.path.is_file()]
    if not found:
        names = ", ".join(f"{split}.jsonl" for split in SPLITS)
        raise ValueError(f"{folder}: holds none of {names}. Name a folder that a builder wrote")
    return found


def _refuse_twice(files: Sequence[SplitFile]) -> None:
    seen: set[Path] = set()
    for file in files:
        if file.path.resolve() in seen:
            raise ValueError(f"{file.path}: named twice. Name each file once")
        seen.add(file.path.resolve())


def common_kind(files: Sequence[SplitFile]) -> Kind:
    """The kind that all files are of. Raises ValueError for a mixture or where none is known."""
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
    """The kind of the first record that is of a known one."""
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
    """How many lines a file has, the last one's break missing or not."""
    with path.open("rb") as lines:
        return sum(1 for _ in lines)


def fetch(files: Sequence[SplitFile], places: Collection[Place]) -> dict[Place, Any]:
    """The records at these places; what is not JSON comes as its text, cut after 500 characters."""
    found: dict[Place, Any] = {}
    for position, file in enumerate(files):
        wanted = {place.line for place in places if place.file == position}
        for number, line in _lines_up_to(file.path, max(wanted, default=0)):
            if number in wanted:
                found[Place(position, number)] = _readable(line)
    return found


def _lines_up_to(path: Path, last: int) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as lines:
        yield from zip(range(1, last + 1), lines, strict=False)


def _readable(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line.decode("utf-8", "replace").rstrip("\n")[:MOST_RAW_CHARACTERS]
