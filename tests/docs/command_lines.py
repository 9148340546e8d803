"""A command's own parser, asked in this process what it accepts."""

import argparse
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

from tests.docs.documents import ROOT
from tests.docs.shell import Command
from training.fit.estimate import OPEN_KEYS
from training.recipe.settings import load_config
from training.retriever.settings import RetrieverSettings

RETRIEVER = "training/train_retriever.py"
# Values for placeholders that a parser must be able to read.
PLACEHOLDERS = {
    "N": "2",
    "SEED": "1",
    "MINUTES": "1",
    "RATE": "0.001",
    "LOOP": "ras",
    "TASK": "decompose",
    "ADAPTATION": "lora",
}


class Parsed(BaseException):
    """Ends a main once its parser has accepted the arguments."""


def main_of(script: str) -> Callable[[], Any]:
    """A script's main; raises ImportError or AttributeError where there is none."""
    main: Callable[[], Any] = importlib.import_module(script[:-3].replace("/", ".")).main
    return main


def check_arguments(command: Command) -> None:
    """Let the script's parser read a command's arguments, and a training's recipe its keys.

    Raises AssertionError with what the parser says, or ConfigError.
    """
    arguments = [_filled(word) for word in command.arguments]
    if command.script.startswith("training/train_"):
        _check_recipe(command.script, arguments)
    else:
        _parse(command.script, arguments)


@cache
def options_of(script: str) -> frozenset[str]:
    """Every option that a script's parser knows, those of its stages too."""
    stages = getattr(importlib.import_module(script[:-3].replace("/", ".")), "STAGES", {})
    usages = [usage_of(script), *(usage_of(script, stage) for stage in stages)]
    return frozenset(option for usage in usages for option in re.findall(r"--?[\w-]+", usage))


def usage_of(script: str, *stage: str) -> str:
    """The usage that `--help` ends with after status 0; raises AssertionError for another."""
    shown: list[str] = []

    def print_help(self: argparse.ArgumentParser, file: object = None) -> None:
        assert self.format_help()
        shown.append(self.format_usage())

    with mock.patch.object(argparse.ArgumentParser, "print_help", print_help):
        status = _status(script, [*stage, "--help"])
    assert status == 0 and shown, f"{script} {' '.join(stage)} --help ends with {status}"
    return shown[0]


def _parse(script: str, arguments: Sequence[str]) -> None:
    original = argparse.ArgumentParser.parse_args

    def parse_args(self: argparse.ArgumentParser, args: Any = None, namespace: Any = None) -> None:
        # What is documented is the whole name.
        self.allow_abbrev = False
        raise Parsed(original(self, args, namespace))

    with mock.patch.object(argparse.ArgumentParser, "parse_args", parse_args):
        status = _status(script, arguments)
    assert status == "parsed", f"{script} ends with {status}"


def _check_recipe(script: str, arguments: Sequence[str]) -> None:
    """A training: its options by its parser, its recipe and overrides by its settings' type."""
    module = importlib.import_module(script[:-3].replace("/", "."))
    _parse(script, arguments)
    settings_type = RetrieverSettings
    if script != RETRIEVER:
        with mock.patch.object(module, "run_command") as run_command:
            module.main()
        settings_type = run_command.call_args.args[0].settings_type
    recipe = ROOT / arguments[arguments.index("--config") + 1]
    overrides = [word for word in arguments if "=" in word and not word.startswith("-")]
    open_keys = OPEN_KEYS if "--estimate" in arguments else ()
    load_config(settings_type, recipe, overrides, open_keys)


def _status(script: str, arguments: Sequence[str]) -> object:
    """How a script's main ends with these arguments."""
    with _argv(script, arguments):
        try:
            return main_of(script)()
        except SystemExit as ended:
            return ended.code or 0
        except Parsed:
            return "parsed"


@contextmanager
def _argv(script: str, arguments: Sequence[str]) -> Iterator[None]:
    with mock.patch.object(sys, "argv", [script, *arguments]):
        yield


def _filled(word: str) -> str:
    """A word without the brackets of an optional part, its placeholder filled in."""
    bare = word[1:] if word.startswith("[--") else word
    bare = bare[:-1] if bare.endswith("]") and "[" not in bare else bare
    key, equals, value = bare.rpartition("=")
    return key + equals + PLACEHOLDERS.get(value, value)
