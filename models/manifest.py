"""`manifest.json`: what a written folder holds, by size and sha256, and what it was made of."""

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MANIFEST_FILE = "manifest.json"
PACKAGES = ("torch", "transformers", "peft", "torch-geometric", "safetensors")


def write_manifest(folder: Path, provenance: Mapping[str, Any]) -> None:
    """Describe every file of a folder in its manifest, after the provenance's own entries."""
    write_json(folder / MANIFEST_FILE, {**provenance, "files": describe_files(folder)})


def describe_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Bytes and sha256 of each file, by its path inside the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": sha256_of(path),
        }
        for path in files
    }


def package_versions() -> dict[str, str]:
    """Versions of the libraries that decide what weights compute."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def sha256_of(path: Path) -> str:
    """A file's sha256 in hexadecimal, read in pieces."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object as indented JSON with sorted keys."""
    path.write_text(
        json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
    )
