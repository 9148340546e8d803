"""The command line of every recipe; what trains or estimates is imported once it is read."""

import argparse
from pathlib import Path

from common.commands import command_parser
from training.fit.estimate import add_fit_options
from training.recipe.recipe import Recipe, SettingsT
from training.recipe.samples import SourceT


def run_command(recipe: Recipe[SettingsT, SourceT], description: str) -> None:
    """Read the command line, train and report, or estimate.

    An expected error ends with one line and code 1.
    """
    arguments = _parser(recipe.script, description).parse_args()
    # With transformers' Trainer, which takes seconds to import and --help does not need.
    from training.run.runner import carry_out

    carry_out(recipe, arguments)


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = command_parser(description, name)
    parser.add_argument("--config", type=Path, required=True, help="recipe, a YAML file")
    parser.add_argument(
        "--json", action="store_true", help="print the figures as one JSON object, last"
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="win over the file, as train.seed=1"
    )
    add_fit_options(parser)
    return parser
