"""The page of all commands with their options, made from the commands' own parsers.

    trivium commands [--write]

Prints docs/commands.md; with --write puts it there.
"""

import argparse
import importlib
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from unittest import mock

from common.commands import CommandParser, command_parser, one_line_errors
from common.files import atomic_write
from common.provenance import ROOT
from data_gen.sources.arguments import add_common_options
from inference.opening.arguments import add_engine_arguments
from inference.opening.loop_options import add_loop_arguments
from training.fit.estimate import add_fit_options
from trivium.commands import PURPOSES, command_name, summary

PAGE = ROOT / "docs" / "commands.md"
HEADER = """\
# Commands

Made by `trivium commands --write` from the parsers of the commands; a test holds the page to them.

`trivium` lists the commands, `trivium NAME` runs one, and so does its script by path, from any
folder, once the environment is active (`source .venv/bin/activate`). Each has `--help`, shows its
progress, ends with a table, and with `--json` prints one JSON object as the last line of standard
output. A wrong input ends it with one line and status 1, a wrong option with status 2; both say
what to do, and the nearest name where one is unknown. A training of several processes goes through
`accelerate launch` ([training](training.md)), a cluster's through [slurm/](../slurm/README.md), and
[benchmarks/README.md](../benchmarks/README.md) says what each measurement compares.
"""
# Options that several commands have, in a section of their own. Of an action that two of them add,
# the first has it.
SHARED: dict[str, Callable[[CommandParser], object]] = {
    "Options of engines": add_engine_arguments,
    "Options of loops": add_loop_arguments,
    "Options of data builds": add_common_options,
    "Options of estimates": add_fit_options,
}
_PATTERN = re.compile(r"([*<|])")
_COMMAND = re.compile(r"^(?:    |python |accelerate |\S+\.py .*--)")
Key = tuple[tuple[str, ...], str | None]
Shared = dict[str, list[argparse.Action]]


class _Asked(BaseException):
    """Ends a main that has its parser ready."""

    def __init__(self, parser: CommandParser) -> None:
        self.parser = parser


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = command_parser(__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/commands.md")
    if not parser.parse_args().write:
        print(page(), end="")
        return
    text = page()
    with atomic_write(PAGE) as handle:
        handle.write(text)
    print(f"written {PAGE}")


def page() -> str:
    """Return the page of all commands."""
    shared, sections = _shared_options(), []
    for purpose, modules in PURPOSES.items():
        sections.append(f"## {purpose}\n")
        sections += [_section(module, shared) for module in modules]
    for title, actions in shared.items():
        sections.append(f"## {title}\n\n{_table(actions)}")
    return "\n".join([HEADER, *sections])


def parser_of(module: str) -> CommandParser:
    """Return the parser of a command's module, as its main is about to use it."""

    def parse_args(self: CommandParser, *_: object) -> None:
        raise _Asked(self)

    main_of_module = importlib.import_module(module).main
    with (
        mock.patch.object(CommandParser, "parse_args", parse_args),
        mock.patch.object(sys, "argv", [_script(module)]),
    ):
        try:
            main_of_module()
        except _Asked as asked:
            return asked.parser
    raise AssertionError(f"{module} asks no parser")


def _shared_options() -> Shared:
    seen: set[Key] = set()
    found = {}
    for title, add in SHARED.items():
        parser = command_parser(None)
        add(parser)
        found[title] = [action for action in _options(parser) if _key(action) not in seen]
        seen.update(map(_key, found[title]))
    return found


def _section(module: str, shared: Shared) -> str:
    parser = parser_of(module)
    lines = [f"### {command_name(module)}", "", *_prose(parser.description or summary(module))]
    lines += ["```usage", _synopsis(module, parser), "```", ""]
    lines += _described(parser, shared)
    for stage, of_stage in _stages(parser).items():
        lines += [f"`{stage}`: {_escaped((of_stage.description or '').splitlines()[0])}", ""]
        lines += _described(of_stage, shared)
    return "\n".join(lines)


def _described(parser: argparse.ArgumentParser, shared: Shared) -> list[str]:
    """Return a parser's own options, and links to those that it shares."""
    given = {_key(action): action for action in _options(parser)}
    titles = [title for title in shared if {*map(_key, shared[title])} <= given.keys()]
    elsewhere = {_key(action) for title in titles for action in shared[title]}
    own = [action for key, action in given.items() if key not in elsewhere]
    links = [f"[{title[0].lower()}{title[1:]}](#{title.lower().replace(' ', '-')})"
             for title in titles]  # fmt: skip
    lines = [_table(own)] if own else []
    return [*lines, *([f"Also: {', '.join(links)}.", ""] if links else [])]


def _options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield what a command line may hold, but for --help and stages."""
    for action in parser._actions:
        hidden = action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction)
        if not hidden and not isinstance(action, argparse._SubParsersAction):
            yield action


def _stages(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = (a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {name: stage for choices in found for name, stage in choices.items()}


def _key(action: argparse.Action) -> Key:
    return tuple(action.option_strings), action.help


def _script(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def _synopsis(module: str, parser: argparse.ArgumentParser) -> str:
    needed = [action for action in _options(parser) if action.required]
    named = sorted(needed, key=lambda action: not action.option_strings)
    words = [_script(module), *(_placed(action) for action in named)]
    if _stages(parser):
        words.append("STAGE")
    if any(not action.required for action in _options(parser)) or _stages(parser):
        words.append("[OPTION ...]")
    return " ".join(words)


def _placed(action: argparse.Action) -> str:
    """Return an option with the place of its value, or a positional argument's name."""
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.nargs in ("+", "*", argparse.REMAINDER):
        value = f"{value} [...]" if action.nargs == "+" else f"[{value} ...]"
    takes = action.nargs != 0
    return " ".join([*action.option_strings[:1], *([value] if takes else [])])


def _table(actions: Sequence[argparse.Action]) -> str:
    rows = ["| option | what it is |", "| --- | --- |"]
    for action in actions:
        negated = f", `{action.option_strings[1]}`" if len(action.option_strings) > 1 else ""
        rows.append(f"| `{_placed(action)}`{negated} | {_help(action)} |")
    return "\n".join([*rows, ""])


def _help(action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": ""}
    choices = action.choices and f"one of {', '.join(map(str, action.choices))}"
    parts = [text, choices, "must be given" if action.required and action.option_strings else ""]
    return _escaped("; ".join(part for part in parts if part)).replace(f"{ROOT}/", "")


def _escaped(text: str) -> str:
    return _PATTERN.sub(r"\\\1", text)


def _prose(description: str) -> list[str]:
    """Return a description with its examples in blocks of their own."""
    lines = [*description.strip().splitlines(), ""]
    blocks = itertools.groupby(lines, key=lambda line: bool(_COMMAND.match(line)))
    out: list[str] = []
    for is_command, block in blocks:
        text = (
            [re.sub(r"\s+(?=\S)", " ", line).strip() for line in block]
            if is_command
            else [*map(_escaped, block)]
        )
        out += ["```text", *text, "```"] if is_command else text
    return out


if __name__ == "__main__":
    main()
