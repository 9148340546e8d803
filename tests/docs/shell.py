"""The commands of fenced blocks and code spans, as bash itself reads them; nothing is started.

A block without a language, or of `bash`, holds commands alone. `usage` holds one synopsis a line,
with placeholders, optional parts in brackets and alternatives. Other languages are no commands.
"""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.docs.documents import ROOT, Fence, Inline

SHELL = ("", "bash", "sh", "console")
USAGE = "usage"
FOLDERS = ("benchmarks", "data_gen", "demo", "evaluation", "inference", "training", "trivium")
# A batch script's one task of one.
TASK = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "1"}
# Bash reads quotes, variables, loops and redirections; each command that it would start is written
# down with its line in place. Scripts are functions, whatever else is a command that is not found.
RECORDER = """\
exec 9>&1
record() { printf '%s\\0' "${BASH_LINENO[1]}" "$#" "$@" >&9; }
command_not_found_handle() { record "$@"; }
"""


@dataclass(frozen=True)
class Command:
    """A command as a shell would start it."""

    document: str
    line: int
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.document}:{self.line} {' '.join(self.words)}"

    @property
    def script(self) -> str:
        """The project's Python script that it runs, from the root; '' where it runs none."""
        found = _of_script(self.words)
        return found[0] if found else ""

    @property
    def scripts(self) -> list[str]:
        """The scripts that a synopsis means: `NAME` or `*` in it stands for each that fits."""
        found = ROOT.glob(self.script.replace("NAME", "*")) if self.script else ()
        return sorted(path.relative_to(ROOT).as_posix() for path in found)

    @property
    def arguments(self) -> list[str]:
        """What the script is given."""
        return list(_of_script(self.words)[1:])


@cache
def commands_of(fence: Fence) -> tuple[Command, ...]:
    """A block's commands in their order; none where its language says that it holds none.

    Raises AssertionError where bash cannot read it, or for a script that does not exist.
    """
    if fence.language == USAGE:
        lines = enumerate(fence.text.splitlines(), start=fence.line + 1)
        return tuple(
            Command(fence.document, number, usage_words(line)) for number, line in lines if line
        )
    if fence.language not in SHELL:
        return ()
    names = ["python", *_scripts()]
    functions = [f'{name}() {{ record {name} "$@"; }}\n' for name in names]
    prelude = RECORDER + "".join(functions)
    return tuple(
        Command(fence.document, fence.line + number - prelude.count("\n"), words)
        for number, words in _recorded(prelude + fence.text, f"{fence.document}:{fence.line}")
    )


def usage_words(line: str) -> tuple[str, ...]:
    """A synopsis as one command: optional parts are in, of alternatives the first."""
    plain = line.replace("[", " ").replace("]", " ").replace("...", " ").replace("…", " ")
    return tuple(word.partition("|")[0] for word in shlex.split(plain))


def span_command(span: Inline) -> Command | None:
    """A code span's command of a script with options, or None where it is something else."""
    line = span.text.partition("`")[0]
    if ".py" not in line or "--" not in line:
        return None
    first, *rest = usage_words(line)
    if "/" not in first:
        # A script by its bare name, where only one has it.
        named = [script for script in _scripts() if script.endswith(f"/{first}")]
        first = named[0] if len(named) == 1 else first
    command = Command(span.document, span.line, (first, *rest))
    return command if command.script else None


def _of_script(words: Sequence[str]) -> Sequence[str]:
    """The words from the script on; () where no script of the project is run."""
    for start in (("accelerate", "launch"), ("python",)):
        if tuple(words[: len(start)]) == start:
            words = words[len(start) :]
    is_script = bool(words) and words[0].endswith(".py") and words[0].split("/")[0] in FOLDERS
    return words if is_script else ()


@cache
def _scripts() -> tuple[str, ...]:
    found = [path for folder in FOLDERS for path in ROOT.glob(f"{folder}/*.py")]
    found += ROOT.glob("slurm/*.sh")
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in found))


def _recorded(text: str, place: str) -> list[tuple[int, tuple[str, ...]]]:
    """(line, words) of each command that bash would start."""
    with tempfile.TemporaryDirectory() as folder:
        for word in text.split():
            if "/" in word and not word.startswith(("/", "'", '"')):
                # Where a redirection may write.
                Path(folder, word).parent.mkdir(parents=True, exist_ok=True)
        # An empty folder as the path: nothing but bash's own commands can be found.
        done = subprocess.run(
            [_bash(), "--noprofile", "--norc", "-c", text], cwd=folder,
            env={"PATH": f"{folder}/none", **TASK}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert not done.stderr, f"{place}: bash says {done.stderr}"
    fields = done.stdout.split("\0")[:-1]
    recorded, at = [], 0
    while at < len(fields):
        count = int(fields[at + 1])
        recorded.append((int(fields[at]), tuple(fields[at + 2 : at + 2 + count])))
        at += 2 + count
    return recorded


def _bash() -> str:
    folders = os.get_exec_path()
    return next(str(Path(f, "bash")) for f in folders if os.access(Path(f, "bash"), os.X_OK))
