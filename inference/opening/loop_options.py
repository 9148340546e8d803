"""The options of loops on a command line, made from what the loops in `LOOPS` declare."""

from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from inference.loops.kind import CHECKPOINT, SHARED, LoopOptions, Option, OptionsError, marked
from inference.opening.arguments import add_engine_arguments, engine_options_from, whole_number
from inference.opening.loop import LOOPS, loop_kind

ENGINE = "engine"


def checkpoint_or_none(text: str) -> Path | None:
    """Read a folder, or 'none', as an argparse type."""
    return None if text == "none" else Path(text)


def loop_name(text: str) -> str:
    """Read the name of a loop, as an argparse type; the error says the nearest."""
    try:
        return loop_kind(text).name
    except OptionsError as error:
        raise ArgumentTypeError(str(error)) from error


def add_loop_arguments(
    parser: ArgumentParser, several: bool = False, required: bool = True
) -> None:
    """Options of all loops with their defaults, the same for every command that runs a loop.

    several: `--loops` with a list in place of `--loop`. required: whether one must be named there;
    else the list is empty where none is. What is not given is not in the namespace:
    a preset decides it, see `options_from`.
    """
    parser.set_defaults(loop=LoopOptions.loop)
    add = parser.add_argument
    if several:
        text = "which loops answer, in turn"
        add(
            "--loops",
            nargs="+",
            required=required,
            type=loop_name,
            choices=LOOPS,
            default=[],
            help=text,
        )
    else:
        text = "which loop answers (default: %(default)s)"
        add("--loop", type=loop_name, choices=LOOPS, help=text)
    for name, mark in marked(LoopOptions, Option).items():
        _add(parser, LoopOptions, name, mark)
    _add_helpers(parser)
    added: set[str] = set()
    for kind in LOOPS.values():
        own = {n: m for n, m in marked(kind.options, Option).items() if n in kind.own}
        own = {name: mark for name, mark in own.items() if name not in added}
        added.update(own)
        group = parser.add_argument_group(kind.heading) if kind.heading else parser
        for name, mark in own.items():
            _add(group, kind.options, name, mark)
    add_engine_arguments(parser)


def _add_helpers(parser: ArgumentParser) -> None:
    """Add the options of trained helpers, each once for all loops that can use it."""
    add = parser.add_argument_group("trained helpers").add_argument
    tasks = {name: task for kind in LOOPS.values() for name, task in kind.helpers.items()}
    for name, task in tasks.items():
        users = [kind for kind in LOOPS.values() if name in kind.helpers]
        default = getattr(users[0].options, name)
        *others, last = (kind.name for kind in users)
        loops = f"{', '.join(others)} and {last}" if others else last
        add(
            _flag(name),
            type=checkpoint_or_none,
            metavar=CHECKPOINT,
            default=SUPPRESS,
            help=f"helper of the task {task}, {loops}, or 'none' to prompt the backbone "
            f"(default: {'the shipped' if default else 'none'})",
        )


def _add(group: Any, options: type[LoopOptions], name: str, mark: Option) -> None:
    """Add an option, as its annotation says that it is written."""
    default = getattr(options, name)
    given: dict[str, Any] = {"default": SUPPRESS, "help": mark.text + _default_text(name, default)}
    hint = get_type_hints(options)[name]
    of_several = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if bool in of_several:
        # --no-NAME too, wherever the default or a paper's preset is yes.
        papers = [kind.paper.get(name) for kind in LOOPS.values()]
        can_be_off = default is not False or any(papers)
        given["action"] = BooleanOptionalAction if can_be_off else "store_true"
    elif get_origin(of_several[0]) is Literal:
        given["choices"] = get_args(of_several[0])
    else:
        is_component = mark.metavar == CHECKPOINT
        types = {int: whole_number(mark.least), Path: checkpoint_or_none if is_component else Path}
        given |= {"type": types.get(of_several[0], of_several[0]), "metavar": mark.metavar}
    group.add_argument(_flag(name), **given)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _defaults(name: str) -> dict[str, Any]:
    """Return a shared option's default in each loop."""
    return {kind.name: getattr(kind.options, name) for kind in LOOPS.values()}


def _differs(name: str) -> bool:
    """Return whether an option's default is not the same for all loops that have it."""
    return name in SHARED and len(set(_defaults(name).values())) > 1


def _default_text(name: str, default: Any) -> str:
    if _differs(name):
        by_loop = {loop: value for loop, value in _defaults(name).items() if value != default}
        texts = [
            f"; {value} for {', '.join(loop for loop in by_loop if by_loop[loop] == value)}"
            for value in dict.fromkeys(by_loop.values())
        ]
        return f" (default: {default}{''.join(texts)})"
    if default is True:
        return " (default: yes)"
    unsaid = default is None or default is False or isinstance(default, Path)
    return "" if unsaid else f" (default: {default})"


def options_from(arguments: Namespace) -> LoopOptions:
    """Return the loop's options out of a parsed command line: its preset's, and what is given.

    Raises OptionsError for those of the loop that do not go together.
    """
    kind = loop_kind(arguments.loop)
    names = {field.name for field in fields(kind.options)} - {ENGINE}
    given = {name: value for name, value in vars(arguments).items() if name in names}
    preset = kind.paper if given.get("preset") == "paper" else {}
    return kind.options(**{**preset, **given}, engine=engine_options_from(arguments))
