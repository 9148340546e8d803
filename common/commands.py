"""The parsers of commands, and their end when the input is wrong: one line and status 1."""

import argparse
import functools
import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, ParamSpec

from common.errors import UserError
from common.names import nearest_sentence

P = ParamSpec("P")


def one_line_errors(
    *error_types: type[Exception],
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Return a decorator of a command's main that ends with one line in place of a traceback.

    error_types: what is shown so beside UserError and OSError.
    """

    caught: tuple[type[Exception], ...] = (UserError, OSError, *error_types)

    def decorate(main: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(main)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                main(*args, **kwargs)
            except caught as error:
                sys.exit(f"error: {error_line(error)}")

        return run

    return decorate


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors name the option or choice that is nearest to an unknown one."""

    def error(self, message: str) -> NoReturn:
        """End with status 2 and the message; see `argparse.ArgumentParser.error`."""
        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)$", message)
        option = re.search(r"^unrecognized arguments: .*?(--[\w-]+)", message)
        hint = ""
        if choice:
            hint = nearest_sentence(choice[1], re.findall(r"'(.*?)'", choice[2]))
        elif option:
            hint = nearest_sentence(option[1], self._option_string_actions)
        super().error(f"{message}. {hint}" if hint else message)


def command_parser(description: str | None, name: str | None = None) -> CommandParser:
    """Return a parser whose help shows the description as it is laid out.

    name: of the command in its usage; by default that of the script.
    """
    return CommandParser(
        name, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_output_options(
    parser: argparse.ArgumentParser, out: str = "folder to write (replaced whole)"
) -> None:
    """Add --out, which has to be given, and --json; see `common.tables.report`."""
    parser.add_argument("--out", type=Path, required=True, help=out)
    parser.add_argument("--json", action="store_true", help="print one JSON object as last line")


def log_warnings(options: argparse.Namespace) -> None:
    """Show warnings on standard error, with --json errors alone."""
    logging.basicConfig(level=logging.ERROR if options.json else logging.WARNING)


def error_line(error: Exception) -> str:
    """Return an error as one line; to errors of the system a remedy is added."""
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename}: no such file. Check the path."
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}. Check the path and its permissions."
    return " ".join(str(error).split())


def share(text: str) -> float:
    """Read a share, 0 to 1, as an argparse type."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 0 to 1")
    return value


def name_and_path(text: str) -> tuple[str, Path]:
    """Read NAME=PATH as an argparse type. Raises ArgumentTypeError for another form."""
    name, _, path = text.partition("=")
    if not name or not path or "/" in name or name.startswith("."):
        raise argparse.ArgumentTypeError(f"{text!r}: give NAME=PATH, the name without a /")
    return name, Path(path)
