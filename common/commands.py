"""How commands begin, and how they end when their input is wrong: one line and status 1."""

import argparse
import functools
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

from common.errors import UserError

P = ParamSpec("P")


def one_line_errors(
    *error_types: type[Exception],
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorator of a command's main: errors of people become one line in place of a traceback.

    error_types: beside UserError and OSError.
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


def command_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help shows the description as it is laid out."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
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
    """The error in one line; the system's own name a file and say no remedy."""
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename}: no such file. Check the path."
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}. Check the path and its permissions."
    return " ".join(str(error).split())
