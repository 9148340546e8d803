"""A command's main run in this process, as from a command line."""

import sys
from collections.abc import Callable

import pytest


def run_main(monkeypatch: pytest.MonkeyPatch, main: Callable[[], None], *arguments: object) -> None:
    """Run `main` with these arguments; SystemExit and what it printed are the caller's."""
    monkeypatch.setattr(sys, "argv", ["command", *map(str, arguments)])
    main()
