"""The rooms of the code and the arrows between them, which tests hold and a page shows.

    trivium rooms [--write | --bags]

Prints the rooms as in docs/architecture.md; with --write puts all pictures there. With --bags
prints how far the objects go that carry what a person chose.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import networkx

from common.commands import command_parser, one_line_errors
from common.errors import UserError
from common.files import atomic_write
from common.provenance import ROOT
from common.tables import print_table
from trivium.ways import QUESTION, SAMPLE, draw

# From the ground floor upwards: a room imports itself and rooms below.
FLOORS = (
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
    "inference/engines/ray",
    "inference/retrieval",
    "inference/documents",
    "inference/indexes",
    "inference/indexes/knowledge_base",
    "inference/indexes/propositions",
    "inference/indexes/hierarchy",
    "inference/loops",
    "inference/opening",
    "inference/exports",
    "inference/page",
    "inference/runs",
    "inference/rollouts",
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
    "training/retriever",
    "training/rounds",
    "training",
    "benchmarks/harness",
    "benchmarks/peers",
    "benchmarks/workers",
    "benchmarks/scripted_world",
    "benchmarks/growth_curves",
    "benchmarks",
    "slurm",
    "demo",
    "trivium",
)
# Folders that never meet in code: a checkpoint folder is what one hands to the other.
APART = {"training": {"inference", "data_gen"}, "evaluation": {"models"}}
# Commands lie at the top of these folders; in others the top is a room like any.
WITH_COMMANDS = frozenset({"data_gen", "training", "inference", "benchmarks"})
# Measurements and front ends see everything, which no picture is needed for.
NOT_DRAWN = frozenset({"benchmarks", "demo", "slurm", "trivium"})
# Objects of options, by the function that takes them first.
BAGS = {
    "train_ras": "training.recipe.settings.T2TSettings",
    "open_loop": "inference.loops.kind.LoopOptions",
    "run_evaluation": "inference.runs.evaluation.Evaluation",
}
PAGE = ROOT / "docs" / "architecture.md"
END = "<!-- end -->\n"


class PageError(UserError, ValueError):
    """The page has no place for the picture."""


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = command_parser(__doc__)
    parser.add_argument("--write", action="store_true", help="put the picture into the page")
    parser.add_argument("--bags", action="store_true", help="count who takes options, and what of")
    arguments = parser.parse_args()
    if arguments.bags:
        for first, bag in BAGS.items():
            show_bag(first, takers(bag))
        return
    if not arguments.write:
        print(picture(), end="")
        return
    text = PAGE.read_text(encoding="utf-8")
    with atomic_write(PAGE) as handle:
        handle.write(with_picture(text))
    print(f"written {PAGE}")


@cache
def modules() -> dict[str, Path]:
    """Return every module outside tests/: its path from the project's root, by dotted name."""
    found = {}
    for top in sorted({floor.partition("/")[0] for floor in FLOORS}):
        for path in sorted((ROOT / top).rglob("*.py")):
            relative = path.relative_to(ROOT)
            if path.name != "__init__.py":
                found[".".join(relative.with_suffix("").parts)] = relative
    return found


def parsed(path: Path) -> ast.Module:
    """Return a file's syntax tree."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


@cache
def declared(path: Path) -> tuple[ast.AST, ...]:
    """Return a module's imports from others, classes, functions and assignments, at any depth."""
    kinds = ast.ImportFrom | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign
    return tuple(node for node in ast.walk(parsed(path)) if isinstance(node, kinds))


def room(path: Path) -> str:
    """Return the room that a file lies in."""
    return path.parent.as_posix()


def imports(path: Path) -> set[str]:
    """Return the project's modules that a file imports, anywhere in it but for type checkers."""
    tree = parsed(path)
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
    """Return each import between two files: the one that imports, the one that is imported."""
    return [(path, modules()[name]) for path in modules().values() for name in imports(path)]


def picture() -> str:
    """Return the rooms as a Mermaid flow chart, without arrows that others already say."""
    graph = networkx.DiGraph()
    sizes = Counter(room(path) for path in modules().values())
    drawn = [floor for floor in FLOORS if floor.partition("/")[0] not in NOT_DRAWN]
    graph.add_nodes_from(drawn)
    for importer, imported in arrows():
        above, below = room(importer), room(imported)
        if above != below and above in graph and below in graph:
            graph.add_edge(above, below)
    kept = networkx.transitive_reduction(graph)
    lines = ["```mermaid", "flowchart TD"]
    for top in dict.fromkeys(floor.partition("/")[0] for floor in drawn):
        lines.append(f"  subgraph {top}_[{top}/]")
        for floor in drawn:
            if floor.partition("/")[0] == top:
                label = floor.partition("/")[2] or ("commands" if top in WITH_COMMANDS else top)
                lines.append(f'    {_node(floor)}["{label} · {sizes[floor]}"]')
        lines.append("  end")
    order = {floor: number for number, floor in enumerate(FLOORS)}
    for above, below in sorted(kept.edges, key=lambda edge: (order[edge[0]], order[edge[1]])):
        lines.append(f"  {_node(above)} --> {_node(below)}")
    return "\n".join([*lines, "```", ""])


def with_picture(text: str) -> str:
    """Return the page with today's pictures in their places.

    Raises:
        PageError: the page has no place for one. LostPlaceError.
    """
    drawn = {"rooms": picture(), "question": draw(QUESTION), "sample": draw(SAMPLE)}
    for name, made in drawn.items():
        line = f"<!-- {name}: made by `trivium rooms --write` -->\n"
        before, begin, rest = text.partition(line)
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise PageError(f"{PAGE}: no lines {line.strip()} and {END.strip()} around the picture")
        text = f"{before}{line}{made}{END}{after}"
    return text


class Taker(NamedTuple):
    """A parameter that takes a bag: whose it is, and the bag's fields that its function names.

    passed: whether the function hands the whole bag on.
    """

    path: Path
    function: str
    fields: frozenset[str]
    passed: bool


def takers(bag: str) -> list[Taker]:
    """Return every parameter of a bag's class, of a subclass or of a class that holds a bag.

    bag: a class by its module and name. A class holds a bag that has one as an annotated field.
    """
    named = {name: _qualified(name) for name in modules()}
    nodes = {name: declared(path) for name, path in modules().items()}
    bags: set[str] = set()
    found = {bag}
    while bags != found:
        bags = set(found)
        for name, own in nodes.items():
            for node in own:
                match node:
                    case ast.ClassDef():
                        fields = (f.annotation for f in node.body if isinstance(f, ast.AnnAssign))
                        if any(
                            _mentions(part, named[name], bags) for part in (*node.bases, *fields)
                        ):
                            found.add(f"{name}.{node.name}")
                    case ast.Assign(
                        targets=[ast.Name(id=variable)], value=ast.Call(keywords=given)
                    ):
                        if any(
                            k.arg == "bound" and _mentions(k.value, named[name], bags)
                            for k in given
                        ):
                            found.add(f"{name}.{variable}")
    return [
        taker
        for name, own in nodes.items()
        for node in own
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for taker in _takers(modules()[name], node, named[name], bags)
    ]


def _takers(
    path: Path,
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    named: dict[str, str],
    bags: set[str],
) -> Iterator[Taker]:
    given = function.args
    for parameter in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        if parameter.annotation is None or not _mentions(parameter.annotation, named, bags):
            continue
        read = [
            node.attr
            for node in ast.walk(function)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == parameter.arg
        ]
        uses = sum(
            isinstance(node, ast.Name) and node.id == parameter.arg for node in ast.walk(function)
        )
        yield Taker(path, function.name, frozenset(read), uses > len(read))


def _qualified(name: str) -> dict[str, str]:
    """Return names of classes and variables in a module by what they are called there."""
    names: dict[str, str] = {}
    for node in declared(modules()[name]):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.ClassDef):
            names[node.name] = f"{name}.{node.name}"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names[node.targets[0].id] = f"{name}.{node.targets[0].id}"
    return names


def _mentions(annotation: ast.expr, named: dict[str, str], bags: set[str]) -> bool:
    """Tell whether a type is a bag or holds one; a class or function as a value is none."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    words = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    return not words & {"type", "Callable"} and any(named.get(word) in bags for word in words)


def show_bag(first: str, found: Sequence[Taker]) -> None:
    """Print how many files and parameters take a bag, and those that need two fields at most."""
    files = {taker.path for taker in found}
    rooms = {room(path) for path in files}
    print(f"{first}: {len(found)} parameters in {len(files)} files of {len(rooms)} rooms")
    few = [t for t in found if not t.passed and len(t.fields) <= 2]
    rows = [[t.path.as_posix(), t.function, ", ".join(sorted(t.fields))] for t in few]
    print_table(f"{first}: at most two fields", ["file", "function", "fields"], rows)


def _node(floor: str) -> str:
    return floor.replace("/", "_")


if __name__ == "__main__":
    main()
