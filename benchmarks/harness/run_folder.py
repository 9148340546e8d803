"""The folder of a benchmark that goes on where it was interrupted, with one set of settings."""

import argparse
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import atomic_write
from common.provenance import portable_path

SETTINGS_FILE = "settings.json"


class RunFolderError(UserError, ValueError):
    """A folder that holds runs of other settings; the message names them and the remedy."""


def claim(folder: Path, settings: Mapping[str, Any]) -> None:
    """Make the folder of a benchmark's runs, or go on in it; what it was begun with is kept there.

    settings: those that its runs have in common, as JSON can hold them. A name that the folder
    does not have yet is added. Raises RunFolderError where one has another value there.
    """
    file = folder / SETTINGS_FILE
    found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    differing = [
        f"{name} ({found[name]}, not {value})"
        for name, value in settings.items()
        if found.get(name, value) != value
    ]
    if differing:
        raise RunFolderError(
            f"{folder}: holds runs with another {', '.join(differing)}. Give what it was begun "
            "with, name another folder, or remove it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as handle:
        json.dump({**found, **settings}, handle, indent=2)


def settings_of(options: argparse.Namespace, but: Collection[str]) -> dict[str, Any]:
    """Return what a command line says as JSON can hold it, paths without a machine's folders.

    but: options that decide no figure.
    """
    return {
        name: portable_path(str(value)) if isinstance(value, Path) else value
        for name, value in vars(options).items()
        if name not in but
    }
