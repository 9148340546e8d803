"""A question's way and a sample's way through the code, as pictures of the functions they pass.

`trivium rooms --write` puts them into docs/architecture.md; a function that is no longer there is
an error.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.errors import UserError
from common.provenance import ROOT


class LostPlaceError(UserError, ValueError):
    """A way passes a function or class that its file does not define."""


@dataclass(frozen=True)
class Way:
    """Places by a short name, and the arrows between them.

    places: what happens there, the file, and the function or class in it.
    """

    places: Mapping[str, tuple[str, str, str]]
    arrows: Sequence[tuple[str, str, str]]


QUESTION = Way(
    {
        "ask": ("a command", "inference/ask.py", "main"),
        "open": ("a loop with all it needs", "inference/opening/loop.py", "open_loop"),
        "loop": ("plan, search, read, answer", "inference/loops/ras.py", "RasLoop.answer"),
        "search": ("passages", "inference/loops/model.py", "search_passages"),
        "extract": (
            "triples, each passage read once",
            "inference/indexes/extraction.py",
            "TripleExtractor.extract",
        ),
        "processor": (
            "ids and graph, as in training",
            "models/processors/ras.py",
            "RasProcessor.encode_prompt",
        ),
        "engine": (
            "batches, adapters, graphs",
            "inference/engines/contract.py",
            "Engine.generate",
        ),
        "formats": ("a plan, parsed", "models/formats/planning.py", "parse_plan"),
        "trace": ("trace, bill, score", "inference/runs/evaluation.py", "results_of"),
    },
    (
        ("ask", "open", ""),
        ("open", "loop", ""),
        ("loop", "search", "subquery"),
        ("search", "extract", "passages"),
        ("extract", "engine", "request"),
        ("loop", "processor", "history"),
        ("processor", "engine", "request"),
        ("engine", "formats", "text"),
        ("formats", "loop", ""),
        ("loop", "trace", ""),
    ),
)
SAMPLE = Way(
    {
        "source": (
            "rows of a public data set",
            "data_gen/sources/open_source.py",
            "read_questions",
        ),
        "facts": (
            "facts that annotation asks for",
            "data_gen/facts/solving_steps.py",
            "solving_steps",
        ),
        "samples": (
            "states of a loop, each with its label",
            "data_gen/samples/trajectories.py",
            "trajectory_samples",
        ),
        "build": (
            "left-out test questions, splits, card",
            "data_gen/builds/build.py",
            "Build.finish",
        ),
        "read": ("read and encoded once", "training/recipe/recipe.py", "encode_data"),
        "processor": ("ids and graph", "models/processors/ras.py", "RasProcessor.encode_sample"),
        "trainer": (
            "loss weighted by tokens",
            "training/loop/trainer.py",
            "ComponentTrainer.train",
        ),
        "folder": (
            "a component folder, whole or none",
            "models/files/checkpoint.py",
            "write_component",
        ),
        "engine": ("served", "inference/engines/component_loader.py", "ComponentLoader.load"),
    },
    (
        ("source", "facts", ""),
        ("facts", "samples", ""),
        ("samples", "build", ""),
        ("build", "read", "JSON Lines"),
        ("read", "processor", ""),
        ("processor", "trainer", ""),
        ("trainer", "folder", ""),
        ("folder", "engine", ""),
    ),
)


def draw(way: Way) -> str:
    """Return a way as a Mermaid flow chart.

    Raises:
        LostPlaceError: names the function and the file that lacks it.
    """
    lines = ["```mermaid", "flowchart LR"]
    for name, (what, file, function) in way.places.items():
        if function not in _defined(file):
            raise LostPlaceError(f"{file} defines no {function}: name another in trivium/ways.py")
        lines.append(f'  {name}["{what}<br/>{file}<br/>{function}"]')
    for start, end, label in way.arrows:
        lines.append(f"  {start} -->{f'|{label}|' if label else ''} {end}")
    return "\n".join([*lines, "```", ""])


def _defined(file: str) -> set[str]:
    """Return the functions, classes and methods of a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    outer = [node for node in tree.body if isinstance(node, kinds)]
    inner = ((o.name, n.name) for o in outer for n in o.body if isinstance(n, kinds))
    return {node.name for node in outer} | {".".join(names) for names in inner}
