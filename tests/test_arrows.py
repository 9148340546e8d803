"""Which room may import which: arrows go down only, and commands are imported by nobody.

A room is a folder; commands lie at the top of a folder that has rooms. Imports for type checkers
alone do not count.
"""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.processes import ROOT

# From the ground floor upwards: a room imports itself and rooms below.
FLOORS = [
    "common",
    "models/formats",
    "models/facts",
    "models/kernels",
    "models/parts",
    "models/files",
    "models/processors",
    "models",
    "evaluation",
    "inference/engines",
    "inference/engines/transformers",
    "inference/engines/vllm",
    "inference/retrieval",
    "inference/indexes",
    "inference/indexes/knowledge_base",
    "inference/indexes/propositions",
    "inference/indexes/hierarchy",
    "inference/loops",
    "inference/opening",
    "inference/exports",
    "inference/runs",
    "inference/serving",
    "inference",
    "data_gen/streaming",
    "data_gen/sources",
    "data_gen/labelling",
    "data_gen/world",
    "data_gen/facts",
    "data_gen/samples",
    "data_gen/builds",
    "data_gen/teacher",
    "data_gen/hotpot_subq",
    "data_gen/audits",
    "data_gen",
    "training/recipe",
    "training/saving",
    "training/loop",
    "training/fit",
    "training/run",
    "training",
    "benchmarks/harness",
    "benchmarks/peers",
    "benchmarks/workers",
    "benchmarks/scripted_world",
    "benchmarks",
    "slurm",
    "demo",
    "trivium",
]
# Folders that never meet in code: a checkpoint folder is what one hands to the other.
APART = {"training": {"inference", "data_gen"}, "evaluation": {"models"}}
WITH_COMMANDS = {"data_gen", "training", "inference", "benchmarks"}
WITHOUT_TORCH = ("common", "models/formats", "models/facts")


@cache
def modules() -> dict[str, Path]:
    """Every module outside tests/ by its dotted name."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [Path(line) for line in listed.stdout.splitlines()]
    return {
        ".".join(path.with_suffix("").parts): path
        for path in paths
        if path.parts[0] != "tests" and path.name != "__init__.py" and (ROOT / path).is_file()
    }


def room(path: Path) -> str:
    return path.parent.as_posix()


def imports(path: Path) -> set[str]:
    """The project's modules that a file imports, anywhere in it."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names | {node.module}) & modules().keys()
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & modules().keys()
    return found


@cache
def arrows() -> list[tuple[Path, Path]]:
    """Each import between two files: the one that imports, the one that is imported."""
    return [(path, modules()[name]) for path in modules().values() for name in imports(path)]


def test_every_room_has_a_floor() -> None:
    assert {room(path) for path in modules().values()} == set(FLOORS)


def test_arrows_go_down() -> None:
    floor = {name: number for number, name in enumerate(FLOORS)}
    upwards = [f"{a} imports {b}" for a, b in arrows() if floor[room(a)] < floor[room(b)]]
    assert not upwards
    met = [f"{a} imports {b}" for a, b in arrows() if b.parts[0] in APART.get(a.parts[0], ())]
    assert not met


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
    # A benchmark measures commands as they are.
    assert [line for line in asked if not line.startswith(("benchmarks/", "demo/"))] == []


@pytest.mark.parametrize("folder", WITHOUT_TORCH)
def test_rooms_without_torch(folder: str) -> None:
    names = [name for name, path in modules().items() if room(path) == folder]
    program = f"import sys, {', '.join(names)}\nprint('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
