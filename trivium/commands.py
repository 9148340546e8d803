"""The commands of the project, by what a person wants to do, and running one of them."""

import ast
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
from common.names import nearest_sentence

# What a person wants to do, and the modules that do it, in the order in which they are needed.
PURPOSES: dict[str, tuple[str, ...]] = {
    "Ask and evaluate": (
        "inference.ask",
        "inference.ingest",
        "inference.evaluate",
        "inference.evaluate_all",
        "inference.merge_evaluation",
        "inference.measure_triplets",
        "inference.rollout",
        "inference.reward",
        "evaluation.compare",
    ),
    "Build an index": (
        "inference.build_index",
        "inference.extract",
        "inference.build_kb",
        "inference.build_propositions",
        "inference.build_hierarchy",
        "inference.offer_topics",
    ),
    "Serve, show and export": (
        "inference.serve",
        "inference.view",
        "inference.export",
        "inference.export_graph",
    ),
    "Make data": (
        "data_gen.build_subq",
        "data_gen.build_answers",
        "data_gen.build_triples",
        "data_gen.build_conditions",
        "data_gen.build_helpers",
        "data_gen.build_reading",
        "data_gen.build_retrieval",
        "data_gen.build_hotpot_subq",
        "data_gen.build_hotpot_variants",
        "data_gen.build_world",
        "data_gen.build_plans_ahead",
        "data_gen.split_questions",
        "data_gen.merge_shards",
        "data_gen.audit",
        "data_gen.to_parquet",
    ),
    "Train": (
        "training.train_ras",
        "training.train_t2t",
        "training.train_tri_rag",
        "training.train_helper",
        "training.train_span_reader",
        "training.train_retriever",
        "training.improve",
        "training.compare",
        "training.average",
        "training.lower_rank",
        "training.ship",
        "training.recipe_table",
    ),
    "Measure": (
        "benchmarks.all",
        "benchmarks.gpu",
        "benchmarks.train_step",
        "benchmarks.profile_step",
        "benchmarks.engines",
        "benchmarks.ray_engines",
        "benchmarks.loop",
        "benchmarks.profile_loop",
        "benchmarks.conversations",
        "benchmarks.processes",
        "benchmarks.deep_prompt",
        "benchmarks.save_stall",
        "benchmarks.growth",
        "benchmarks.data_builds",
        "benchmarks.scripted_loops",
        "benchmarks.hierarchy",
        "benchmarks.growing_index",
        "benchmarks.derived_comparisons",
        "benchmarks.graph_width",
        "benchmarks.retrieval_key",
        "benchmarks.adaptations",
        "benchmarks.learning_curve",
        "benchmarks.retrieval_recall",
        "benchmarks.retrieval_scale",
        "benchmarks.retrieval_places",
        "benchmarks.outcomes",
        "benchmarks.improvements",
        "benchmarks.rollouts",
        "benchmarks.packed_weights",
        "benchmarks.sentence_ranking",
        "benchmarks.reading",
        "benchmarks.helpers",
        "benchmarks.perfect_extraction",
        "benchmarks.title_weight",
        "benchmarks.page_pictures",
        "benchmarks.record",
        "benchmarks.repeated_tests",
        "benchmarks.results_page",
    ),
    "Look at this machine and this code": ("trivium.doctor", "trivium.rooms", "trivium.page"),
}
# Two modules are called `compare`, some have the name of a room, and a page is of commands.
NAMES = {
    "training.compare": "compare-trainings",
    "benchmarks.loop": "benchmark-loop",
    "benchmarks.engines": "benchmark-engines",
    "benchmarks.hierarchy": "benchmark-hierarchy",
    "trivium.page": "commands",
}


class UnknownCommandError(UserError, ValueError):
    """No command has this name; the message has the nearest ones."""


def command_name(module: str) -> str:
    """Return the name under which `trivium` runs a module."""
    return NAMES.get(module, module.rpartition(".")[2].replace("_", "-"))


def commands() -> dict[str, str]:
    """Return the module of each command, by its name."""
    return {command_name(module): module for modules in PURPOSES.values() for module in modules}


def find_command(name: str) -> str:
    """Return the module of a command; underscores stand for hyphens.

    Raises:
        UnknownCommandError: names the nearest commands.
    """
    known = commands()
    wanted = name.replace("_", "-").lower()
    if wanted in known:
        return known[wanted]
    hint = f"{nearest_sentence(wanted, known)} `trivium` alone lists all of them.".lstrip()
    raise UnknownCommandError(f"no command '{name}'. {hint}")


def summary(module: str) -> str:
    """Return the first line of a module's docstring, without importing it."""
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None, module
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def run_command(name: str, arguments: Sequence[str]) -> None:
    """Run a command as its script by path would run.

    Raises:
        UnknownCommandError: names the nearest commands.
    """
    module = find_command(name)
    sys.argv = [f"trivium {command_name(module)}", *arguments]
    runpy.run_module(module, run_name="__main__")
