"""A command's main run in this process, as from a command line."""

import builtins
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., dict[str, Any]]


def run_main(monkeypatch: pytest.MonkeyPatch, main: Callable[[], None], *arguments: object) -> None:
    """Run `main` with these arguments; SystemExit and what it printed are the caller's."""
    monkeypatch.setattr(sys, "argv", ["command", *map(str, arguments)])
    main()


def openings_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of a file each time that it is opened from now on."""
    opened: list[str] = []
    really_open = builtins.open

    def noting_open(file: Any, *arguments: Any, **options: Any) -> Any:
        if str(file) == str(path):
            opened.append(str(file))
        return really_open(file, *arguments, **options)

    monkeypatch.setattr(builtins, "open", noting_open)
    monkeypatch.setattr(io, "open", noting_open)
    return opened


def json_runner(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cache: Path,
    *always: object,
) -> Run:
    """Runs a main with `always` before its arguments and gives the JSON object it prints last.

    cache: where caches lie meanwhile.
    """
    monkeypatch.setenv("TRIVIUM_CACHE", str(cache))

    def run_command(main: Callable[[], None], *arguments: object) -> dict[str, Any]:
        run_main(monkeypatch, main, *always, *arguments, "--json")
        return dict(json.loads(capsys.readouterr().out.splitlines()[-1]))

    return run_command
