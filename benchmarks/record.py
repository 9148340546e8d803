"""Keep a measurement with what is needed to repeat it, under benchmarks/results/NAME.

python benchmarks/record.py NAME [--data FILE ...] [--keep FILE ...] -- COMMAND ...
python benchmarks/record.py NAME --evaluation DIR [--command "..." --commit HASH --data FILE ...]

The first runs a command, shows its output as it comes, and writes run.json (command, commit, data,
seed, machine, versions, seconds), results.json (the JSON object in its last line, or --results) and
the kept files, gzipped. A command that fails leaves nothing. The second takes a finished folder of
inference/evaluate.py: its results, and of its traces all but the triples, as predictions.jsonl.gz.
What such a folder does not tell of itself is given by options, and is null where it is not.
"""

import argparse
import contextlib
import gzip
import json
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common import provenance as source
from common.commands import command_parser, one_line_errors
from common.errors import UserError
from common.files import atomic_directory
from evaluation.runs import PREDICTIONS_FILE, RESULTS_FILE, SETTINGS_FILE, TRACES_FILE, read_run
from models.files.checkpoint import component_fingerprint

ROOT = Path(__file__).resolve().parents[1]
RUN_FILE = "run.json"
RESULTS = ROOT / "benchmarks" / "results"
READ_AFTERWARDS = "machine and versions were read when it was recorded"
# What a prediction keeps of a trace, beside what was asked and found.
KEPT = ("id", "type", "question", "answers", "answer", "em", "f1", "recall", "stage", "error")
_SEED = re.compile(r"(?:^|\s)(?:--seed[ =]|train\.seed=)(\d+)")


class RecordingError(UserError, ValueError):
    """A measurement that cannot be kept; the message says why and what to do."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command: its output's last object, times in seconds, and its start."""

    results: dict[str, Any] | None
    started: str
    wall_seconds: float
    cpu_seconds: float


def run_command(command: Sequence[str]) -> Outcome:
    """Run it from the repository, its output on this terminal.

    cpu_seconds are those of the process and of all its children that it waited for. Raises
    RecordingError where it ends with another status than 0.
    """
    started, start, used = datetime.now(UTC), time.perf_counter(), _children_seconds()
    last = ""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            last = line.strip() or last
    if process.returncode:
        raise RecordingError(f"the command ended with status {process.returncode}: nothing is kept")
    seconds = time.perf_counter() - start
    return Outcome(
        _parsed(last), started.isoformat(timespec="seconds"), seconds, _children_seconds() - used
    )


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def as_run(command: Sequence[str]) -> list[str]:
    """Return command with this interpreter for `python`, and --json where one of ours knows it."""
    words = [sys.executable if word == "python" else word for word in command]
    scripts = [ROOT / word for word in words if word.endswith(".py")]
    ours = [script for script in scripts if script.is_file()]
    knows = any('"--json"' in script.read_text(encoding="utf-8") for script in ours)
    return [*words, "--json"] if knows and "--json" not in words else words


def files_in(command: Sequence[str]) -> list[Path]:
    """Return data files that a command's words name: JSON Lines that exist, alone or as
    NAME=FILE.
    """
    paths = [Path(word.rpartition("=")[2]) for word in command]
    return [path for path in paths if path.suffix == ".jsonl" and path.is_file()]


def components_in(command: Sequence[str]) -> list[Path]:
    """Return the component folders that a command's words name."""
    paths = [Path(word.rpartition("=")[2]) for word in command if "/" in word]
    return [path for path in paths if (path / source.MANIFEST_FILE).is_file()]


def environment_of(command: Sequence[str]) -> dict[str, Any]:
    """Return machine and versions of the interpreter that a command runs in, if it is another's."""
    program = shutil.which(command[0]) or command[0]
    if Path(program).name.startswith("python") and program != sys.executable:
        asked = [program, "-c", source.TELL_ENVIRONMENT]
        done = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=ROOT)
        return dict(json.loads(done.stdout))
    return source.environment()


def seed_of(command: str, results: Mapping[str, Any]) -> int | None:
    """Return the seed that the command names, or its results do; None where neither does."""
    if found := _SEED.search(command):
        return int(found[1])
    settings = results.get("settings")
    inner = settings if isinstance(settings, dict) else {}
    seed = results.get("seed", inner.get("seed"))
    return seed if isinstance(seed, int) else None


def describe_command(command: Sequence[str], data: Iterable[Path]) -> dict[str, Any]:
    """Return run.json as it is before a command runs, whose inputs may be gone afterwards."""
    words = list(command)
    return {
        "command": source.portable_command(words),
        **source.git_state(),
        "data": source.data_files([*data, *files_in(words)]),
        "components": source.component_folders(components_in(words)),
        **environment_of(words),
    }


def describe_evaluation(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return run.json and results.json of a folder of evaluate.py.

    Options complete what the folder tells of itself; one that does not tell its machine is taken
    to have run on this one. Raises RecordingError where --commit and the folder disagree.
    """
    folder: Path = options.evaluation
    results = json.loads((folder / RESULTS_FILE).read_text(encoding="utf-8"))
    told = results.pop("provenance", {})
    if options.commit and told.get("commit") not in (None, options.commit):
        raise RecordingError(f"--commit {options.commit}: {folder} says {told['commit']}")
    words, settings = shlex.split(options.command or ""), _settings(folder)
    run = {
        "command": told.get("command") or source.portable_command(words) or None,
        "commit": told.get("commit") or options.commit,
        "dirty": told.get("dirty"),
        "data": told.get("data", {})
        | source.data_files([*options.data, *files_in(_of_set(words, options.name))]),
        "components": told.get("components") or _shipped(settings),
        **(told.get("environment") or source.environment()),
        "seed": None,
        "started": told.get("started"),
        "wall_seconds": results["seconds"],
        "cpu_seconds": None,
        "exit_code": 0,
        "settings": settings,
        "notes": [] if "environment" in told else [READ_AFTERWARDS],
    }
    if earlier := told.get("answered_earlier"):
        run["notes"].append(f"{earlier} questions were answered by runs before, without seconds")
    return run, results


def _of_set(words: Sequence[str], name: str) -> list[str]:
    """Return the words of a command over several data sets that are for evaluations/SET/LOOP."""
    parts = name.split("/")
    dataset = parts[1] if len(parts) > 1 else name
    named = [word.replace("{dataset}", dataset) for word in words]
    own = any(word.startswith(f"{dataset}=") for word in named)
    other = re.compile(rf"(?!{re.escape(dataset)}=)[\w.-]+=.+\.jsonl$")
    return [word for word in named if not (own and other.match(word))]


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS_FILE
    settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {
        name: source.portable_path(value) if isinstance(value, str) else value
        for name, value in settings.items()
    }


def _shipped(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the components that ship whose fingerprints stand in an evaluation's settings."""
    used = {value for value in settings.values() if isinstance(value, str)}
    folders = sorted(path.parent for path in (ROOT / "checkpoints").glob("*/manifest.json"))
    return source.component_folders(
        folder for folder in folders if component_fingerprint(folder) in used
    )


def prediction(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trace without its triples: what was asked and found, the answer, scores and
    costs.
    """
    bill = trace["bill"]
    seconds = {name: round(value, 3) for name, value in bill["seconds"].items()}
    passages = (passage["id"] for step in trace["steps"] for passage in step["passages"])
    return {
        **{name: trace.get(name) for name in KEPT},
        "asked": [step["subquery"] for step in trace["steps"]],
        "retrieved": list(dict.fromkeys(passages)),
        "triples": len(trace["graph"]),
        "bill": {**bill, "seconds": seconds},
    }


def write_predictions(traces: Path, out: Path) -> None:
    """Every trace's `prediction`, gzipped."""
    with traces.open(encoding="utf-8") as lines:
        rows = [json.dumps(prediction(json.loads(line)), ensure_ascii=False) for line in lines]
    write_gzip(out, ("\n".join(rows) + "\n").encode())


def write_gzip(path: Path, content: bytes) -> None:
    """The same bytes for the same content: no name and no time in the header."""
    path.write_bytes(gzip.compress(content, compresslevel=9, mtime=0))


def folder_of(name: str, results: Path) -> Path:
    """Return a record's folder. Raises RecordingError outside of `results` and above other
    records.
    """
    folder = results / name
    if not folder.resolve().is_relative_to(results.resolve()) or folder == results:
        raise RecordingError(f"{name}: name a folder inside {results}")
    if below := [path for path in folder.rglob(RUN_FILE) if path.parent != folder]:
        raise RecordingError(f"{name}: {below[0].parent} lies inside; choose another name")
    return folder


def save(folder: Path, run: Mapping[str, Any], results: Any, keep: Iterable[Path] = ()) -> None:
    """Write a record whole, or not at all; one of the same name gives way to it."""
    kept = [Path(path) for path in keep]
    with atomic_directory(folder) as new:
        for name, value in ((RUN_FILE, run), (RESULTS_FILE, source.portable_paths(results))):
            text = json.dumps(value, indent=1, ensure_ascii=False)
            (new / name).write_text(text + "\n", encoding="utf-8")
        for path in kept:
            if path.name == TRACES_FILE:
                write_predictions(path, new / PREDICTIONS_FILE)
            elif path.suffix in (".png", ".gz"):
                shutil.copyfile(path, new / path.name)
            else:
                write_gzip(new / f"{path.name}.gz", path.read_bytes())


def record_command(options: argparse.Namespace, folder: Path) -> None:
    """Run the command and keep what it came to."""
    command = as_run(options.run)
    described = describe_command(command, options.data)
    described["command"] = source.portable_command(options.run)
    outcome = run_command(command)
    run, results = described, outcome.results or {}
    if options.evaluation:
        told, results = describe_evaluation(options)
        data = run["data"] | told["data"]
        run |= {name: value for name, value in told.items() if value} | {"data": data}
        run["notes"] = [note for note in told["notes"] if note != READ_AFTERWARDS]
    if options.results:
        results = json.loads(options.results.read_text(encoding="utf-8"))
    if not results:
        raise RecordingError(
            "the last line of the output is no JSON object: name a file with --results"
        )
    run["seed"] = seed_of(run["command"], results)
    run |= {name: getattr(outcome, name) for name in ("started", "wall_seconds", "cpu_seconds")}
    run["exit_code"] = 0
    save(folder, {**run, "notes": [*run.get("notes", []), *options.note]}, results, kept(options))


def kept(options: argparse.Namespace) -> list[Path]:
    """Return the files to keep: those of --keep, and an evaluation's traces."""
    traces = [options.evaluation / TRACES_FILE] if options.evaluation else []
    return [*options.keep, *traces]


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("name", help="folder under benchmarks/results/, as train_step or evaluations/SET/LOOP")
    add("--data", nargs="+", type=Path, default=[], metavar="FILE", help="data that was read")
    add("--keep", nargs="+", type=Path, default=[], metavar="FILE", help="files to keep, gzipped")
    add("--results", type=Path, metavar="FILE", help="JSON that is the result (default: last line)")
    add("--evaluation", type=Path, metavar="DIR", help="a finished folder of evaluate.py")
    add("--command", metavar="TEXT", help="the command that wrote --evaluation's folder")
    add("--commit", metavar="HASH", help="the commit that it ran on")
    add("--note", nargs="+", default=[], metavar="TEXT", help="what a reader should know beside it")
    add("--root", type=Path, default=RESULTS, help=argparse.SUPPRESS)
    return parser


def _make_absolute(options: argparse.Namespace) -> None:
    """Paths of the options are from where we are, those of COMMAND from the repository."""
    for name in ("results", "evaluation", "root"):
        if path := getattr(options, name):
            setattr(options, name, path.resolve())
    for name in ("data", "keep"):
        setattr(options, name, [path.resolve() for path in getattr(options, name)])


def record(options: argparse.Namespace, folder: Path) -> None:
    """Keep what --evaluation or the command came to."""
    if options.run:
        record_command(options, folder)
        return
    read_run(str(options.evaluation))
    run, results = describe_evaluation(options)
    run["notes"] += options.note
    save(folder, run, results, kept(options))


@one_line_errors(ValueError, OSError)
def main() -> None:
    """Run the command."""
    given = sys.argv[1:]
    end = given.index("--") if "--" in given else len(given)
    parser = _parser()
    options = parser.parse_args(given[:end])
    options.run = given[end + 1 :]
    if not options.run and not options.evaluation:
        parser.error("give -- COMMAND ... or --evaluation DIR")
    _make_absolute(options)
    folder = folder_of(options.name, options.root)
    with contextlib.chdir(ROOT):
        record(options, folder)
        sys.stdout.write(f"kept in {source.portable_path(str(folder))}\n")


if __name__ == "__main__":
    main()
