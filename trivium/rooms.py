"""The rooms of the code and the arrows between them, which tests hold and a page shows.

    trivium rooms [--write]

Prints the rooms as in docs/architecture.md; with --write puts all pictures there.
"""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import networkx

from common.commands import command_parser, one_line_errors
from common.errors import UserError
from common.files import atomic_write
from common.provenance import ROOT
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
)
# Folders that never meet in code: a checkpoint folder is what one hands to the other.
APART = {"training": {"inference", "data_gen"}, "evaluation": {"models"}}
# Commands lie at the top of these folders; in others the top is a room like any.
WITH_COMMANDS = frozenset({"data_gen", "training", "inference", "benchmarks"})
# Measurements and front ends see everything, which no picture is needed for.
NOT_DRAWN = frozenset({"benchmarks", "demo", "slurm", "trivium"})
PAGE = ROOT / "docs" / "architecture.md"
END = "<!-- end -->\n"


class PageError(UserError, ValueError):
    """The page has no place for the picture."""


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = command_parser(__doc__)
    parser.add_argument("--write", action="store_true", help="put the picture into the page")
    if not parser.parse_args().write:
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


def room(path: Path) -> str:
    """Return the room that a file lies in."""
    return path.parent.as_posix()


def imports(path: Path) -> set[str]:
    """Return the project's modules that a file imports, anywhere in it but for type checkers."""
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


def _node(floor: str) -> str:
    return floor.replace("/", "_")


if __name__ == "__main__":
    main()
