"""Component folders, as a training run writes them and `from_pretrained` reads them."""

import hashlib
import importlib.metadata
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from common.errors import UserError
from common.files import atomic_directory, file_sha256, is_disk_full

MANIFEST_FILE = "manifest.json"
PACKAGES = ("torch", "transformers", "peft", "torch-geometric", "safetensors")
CONFIG_FILE = "config.json"
METRICS_FILE = "metrics.json"
FORMAT_VERSION = 1
HEADER_LENGTH_BYTES = 8


def write_manifest(folder: Path, provenance: Mapping[str, Any]) -> None:
    """Describe every file of a folder in its manifest, after the provenance's own entries."""
    write_json(folder / MANIFEST_FILE, {**provenance, "files": describe_files(folder)})


def describe_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Bytes and sha256 of each file, by its path inside the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": file_sha256(path),
        }
        for path in files
    }


def package_versions() -> dict[str, str]:
    """Versions of the libraries that decide what weights compute."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object as indented JSON with sorted keys."""
    path.write_text(
        json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
    )


class CheckpointError(UserError, RuntimeError):
    """A component folder cannot be written or read."""


class NotACheckpointError(CheckpointError):
    """A folder is not a component folder, or not of the component that was asked for."""


class TruncatedCheckpointError(CheckpointError):
    """A file of a component folder is missing, cut short or altered."""


class BackboneMismatchError(CheckpointError):
    """A component was trained on another backbone than the one it is loaded on."""


class CheckpointWriteError(CheckpointError):
    """A component folder could not be written; the one that stood there is untouched."""


def write_component(
    folder: str | Path,
    config: Mapping[str, Any],
    writer: Callable[[Path], None],
    needed_bytes: int = 0,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a component folder, whole or not at all; it replaces a folder of that name.

    Args:
        folder: where.
        config: goes to config.json, with `format_version` added; must name its `component`.
        writer: writes the weights into the temporary folder that it is given.
        needed_bytes: about what the weights take; 0 where unknown.
        provenance: further entries of manifest.json, such as data and versions.

    Raises:
        CheckpointWriteError: on a full disk; an earlier folder stays as it was.
    """
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if free < needed_bytes:
        raise _disk_full(folder, free, needed_bytes)
    try:
        with atomic_directory(folder) as temporary:
            writer(temporary)
            write_json(temporary / CONFIG_FILE, {**config, "format_version": FORMAT_VERSION})
            write_manifest(temporary, provenance or {})
    except (OSError, SafetensorError) as error:
        if not is_disk_full(error):
            raise
        raise _disk_full(folder, free, needed_bytes) from error


def read_component_config(folder: str | Path, component: str | None = None) -> dict[str, Any]:
    """Read a component's config.json after checking that the folder is whole.

    The check reads headers and sizes, no weights; `verify_component` compares contents.

    Raises:
        NotACheckpointError: no such folder, no config.json, another component, a newer format.
        TruncatedCheckpointError: a file is missing or shorter than its header says.
    """
    folder = Path(folder)
    path = folder / CONFIG_FILE
    if not path.is_file():
        what = "no such folder" if not folder.is_dir() else f"no {CONFIG_FILE} in it"
        raise NotACheckpointError(
            f"{folder} is not a component folder: {what}. Give the folder that a training run "
            f"wrote (it holds {CONFIG_FILE} and safetensors files)."
        )
    config = _read_json(path)
    check_component(config, component, folder)
    _check_sizes(folder)
    return config


def check_component(
    config: Mapping[str, Any], component: str | None, folder: str | Path = "the folder"
) -> None:
    """Refuse a configuration of another component (None: any will do) or of a newer format.

    Raises:
        NotACheckpointError: naming what was found and what was asked for.
    """
    found = config.get("component")
    if component is not None and found != component:
        described = f"holds the component '{found}'" if found else "names no component"
        raise NotACheckpointError(
            f"{folder} {described}, and '{component}' is needed here. "
            f"Give a folder that the training of '{component}' wrote."
        )
    version = config.get("format_version", 0)
    if version > FORMAT_VERSION:
        raise NotACheckpointError(
            f"{folder} has format {version}; this version of Trivium reads up to "
            f"{FORMAT_VERSION}. Update Trivium."
        )


def check_backbone(config: Mapping[str, Any], actual: str, folder: str | Path = "") -> None:
    """Refuse a backbone other than the one that a component was trained on.

    Args:
        config: the component's; its `backbone_id` is compared.
        actual: `backbone_id` of the backbone at hand.

    Raises:
        BackboneMismatchError: naming both.
    """
    trained_on = config.get("backbone_id")
    if trained_on != actual:
        raise BackboneMismatchError(
            f"{folder or 'the component'} was trained on the backbone '{trained_on}' and is being "
            f"loaded on '{actual}'. Load it on '{config.get('backbone', trained_on)}'."
        )


def verify_component(folder: str | Path) -> None:
    """Compare every file with the manifest's sha256.

    Raises:
        TruncatedCheckpointError: naming the first file that differs.
    """
    folder = Path(folder)
    for name, entry in _read_json(folder / MANIFEST_FILE)["files"].items():
        if not (folder / name).is_file() or file_sha256(folder / name) != entry["sha256"]:
            raise TruncatedCheckpointError(
                f"{folder / name} is not what was written: its sha256 differs from "
                f"{MANIFEST_FILE}. Copy the folder again."
            )


def manifest_files(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Return what the manifest says of each file, by its path in the folder.

    Raises:
        NotACheckpointError: there is no manifest.
    """
    manifest = Path(folder) / MANIFEST_FILE
    if not manifest.is_file():
        raise NotACheckpointError(f"{folder} has no {MANIFEST_FILE}: not a component folder.")
    files: dict[str, dict[str, Any]] = _read_json(manifest)["files"]
    return files


def component_fingerprint(folder: str | Path) -> str:
    """Return a short hash of a component's weights and settings, the same wherever it lies."""
    files = manifest_files(folder)
    # Figures and provenance say nothing of what the component computes.
    defining = [(name, files[name]["sha256"]) for name in sorted(files) if name != METRICS_FILE]
    return hashlib.sha256(json.dumps(defining).encode()).hexdigest()[:16]


def component_provenance(folder: str | Path) -> dict[str, Any]:
    """Return what a component's manifest says beside its files; nothing where it has none."""
    manifest = Path(folder) / MANIFEST_FILE
    described = _read_json(manifest) if manifest.is_file() else {}
    return {name: value for name, value in described.items() if name != "files"}


def component_metrics(folder: str | Path) -> dict[str, Any]:
    """Return the figures and settings of a component's training; nothing where it has none."""
    path = Path(folder) / METRICS_FILE
    return _read_json(path) if path.is_file() else {}


def objective_kinds(metrics: Mapping[str, Any]) -> set[str]:
    """Return the objectives by which a component, or any part of an average, learned."""
    kinds = {kind for part in metrics.get("averaged", ()) for kind in part.get("objectives", ())}
    if "last_part" in metrics:
        kinds |= objective_kinds(metrics["last_part"])
    kind = metrics.get("settings", {}).get("objective", {}).get("kind")
    return kinds | {kind} if kind else kinds


def _check_sizes(folder: Path) -> None:
    """Compare each weight file with its own header, and each file with the manifest."""
    for path in sorted(folder.rglob("*.safetensors")):
        _check_safetensors(path)
    if not (folder / MANIFEST_FILE).is_file():
        return
    for name, entry in _read_json(folder / MANIFEST_FILE)["files"].items():
        path = folder / name
        actual = path.stat().st_size if path.is_file() else 0
        if actual != entry["bytes"]:
            raise _truncated(path, entry["bytes"], actual)


def _check_safetensors(path: Path) -> None:
    """A safetensors file is 8 bytes of header length, the header, and as many bytes as it says."""
    actual = path.stat().st_size
    with path.open("rb") as handle:
        start = handle.read(HEADER_LENGTH_BYTES)
        length = int.from_bytes(start, "little")
        expected = HEADER_LENGTH_BYTES + length
        if len(start) < HEADER_LENGTH_BYTES or actual < expected:
            raise _truncated(path, expected, actual)
        header = json.loads(handle.read(length))
    ends = (entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__")
    expected += max(ends, default=0)
    if actual != expected:
        raise _truncated(path, expected, actual)


def _truncated(path: Path, expected: int, actual: int) -> TruncatedCheckpointError:
    return TruncatedCheckpointError(
        f"{path} has {actual} bytes where {expected} are expected: it is missing or was cut short. "
        f"Copy it again, or use an earlier checkpoint."
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, FileNotFoundError) as error:
        raise TruncatedCheckpointError(
            f"{path} cannot be read as JSON ({error}). Copy it again, or use an earlier checkpoint."
        ) from error
    if not isinstance(value, dict):
        raise NotACheckpointError(f"{path} does not hold a JSON object: not a component folder.")
    return value


def _disk_full(folder: Path, free: int, needed: int) -> CheckpointWriteError:
    about = f"about {needed:,} bytes are needed and " if needed else ""
    return CheckpointWriteError(
        f"the disk of {folder} is full: {about}{free:,} bytes were free. The checkpoint was not "
        f"written and an earlier one is untouched. Free some space or write elsewhere."
    )
