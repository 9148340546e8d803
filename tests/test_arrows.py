"""Which room may import which: arrows go down only, and commands are imported by nobody."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT
from trivium.rooms import (
    APART,
    BAGS,
    FLOORS,
    PAGE,
    WITH_COMMANDS,
    PageError,
    arrows,
    modules,
    room,
    takers,
    with_picture,
)

WITHOUT_TORCH = ("common", "models/formats", "models/facts")
# Commands that are a library to another: a benchmark, or a page about all recipes.
MAY_IMPORT_COMMANDS = ("benchmarks/", "demo/")


def test_every_room_has_a_floor() -> None:
    assert {room(path) for path in modules().values()} == set(FLOORS)
    assert len(modules()) > 300 and len(arrows()) > 1500


def test_arrows_go_down() -> None:
    floor = {name: number for number, name in enumerate(FLOORS)}
    upwards = [f"{a} imports {b}" for a, b in arrows() if floor[room(a)] < floor[room(b)]]
    assert not upwards
    met = [f"{a} imports {b}" for a, b in arrows() if b.parts[0] in APART.get(a.parts[0], ())]
    assert not met


def test_commands_open_their_parsers_in_one_place() -> None:
    opened = re.compile(r"(Argument|Command)Parser\(")
    files = [path for path in modules().values() if opened.search((ROOT / path).read_text("utf-8"))]
    assert files == [Path("common/commands.py")]


def test_no_circles() -> None:
    below: dict[Path, set[Path]] = {path: set() for path in modules().values()}
    for importer, imported in arrows():
        below[importer].add(imported)
    while free := [path for path, others in below.items() if not others]:
        for path in free:
            del below[path]
        for others in below.values():
            others.difference_update(free)
    assert not below


def test_commands_are_imported_by_no_room() -> None:
    commands = {path for path in modules().values() if room(path) in WITH_COMMANDS}
    asked = [f"{a} imports {b}" for a, b in arrows() if b in commands and a not in commands]
    assert [line for line in asked if not line.startswith(MAY_IMPORT_COMMANDS)] == []


@pytest.mark.parametrize(("first", "bag"), BAGS.items())
def test_who_takes_options_is_found(first: str, bag: str) -> None:
    found = {taker.function: taker for taker in takers(bag)}
    first = {"train_ras": "run_training"}.get(first, first)
    assert first in found and found[first].passed and found[first].fields


@pytest.mark.parametrize("folder", WITHOUT_TORCH)
def test_rooms_without_torch(folder: str) -> None:
    names = [name for name, path in modules().items() if room(path) == folder]
    program = f"import sys, {', '.join(names)}\nprint('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_the_page_shows_the_rooms_of_today() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_picture(text) == text, "run `trivium rooms --write`"
    with pytest.raises(PageError, match="around the picture"):
        with_picture("nothing")
