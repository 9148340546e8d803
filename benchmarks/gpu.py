"""Measure on a GPU what only a GPU can show: parity, training steps, peers, vLLM and the loop.

Parts run one at a time, each in a process of its own with a limit of its own, the most telling
first, until --minutes are used up. What is done is kept in --out, and the same command goes on
there. No network is used. Running out of memory is an outcome, with the batch size that the
estimate says would fit.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from tqdm import tqdm

from benchmarks.harness.figures import contestant_figures, ratios
from benchmarks.harness.gpu import (
    LATE,
    OK,
    PARTS,
    PATIENCE,
    PEERS,
    PEERS_FOLDER,
    GpuSettings,
    Outcome,
    Outcomes,
    Part,
    chosen_parts,
    missing,
    part_command,
)
from benchmarks.harness.processes import GIB, PartResult, PartRunner, available_threads
from benchmarks.harness.run_folder import SETTINGS_FILE
from benchmarks.harness.settings import StepSettings
from common.commands import command_parser, one_line_errors
from common.errors import UserError
from common.files import atomic_write
from common.provenance import component_folders, environment, git_state, portable_command
from common.tables import emit_json, print_table

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
RESULTS_FILE, RUN_FILE, LOCK_FILE = "results.json", "run.json", "gpu.lock"
COLUMNS = ("part", "outcome", "seconds", "what it found")
NO_FIGURES: Mapping[str, Any] = {}


class GpuBenchmarkError(UserError, RuntimeError):
    """Nothing can be measured here, or not in this folder; the message says why."""


def require_device(settings: GpuSettings, parts: Sequence[Part]) -> None:
    """Refuse parts for a GPU where PyTorch sees none. Raises GpuBenchmarkError."""
    if settings.device == "cpu" or not any(part.on_gpu for part in parts):
        return
    import torch

    if not torch.cuda.is_available():
        build = "a build for CPUs" if torch.version.cuda is None else "no driver or no GPU"
        raise GpuBenchmarkError(
            f"no GPU: torch {torch.__version__} sees none ({build}). Run this where one is, or try "
            "it out with --device cpu --tiny; --parts estimate needs none"
        )


def open_folder(out: Path, settings: GpuSettings) -> Outcomes:
    """Return the outcomes of a folder, new or of the same settings. Raises GpuBenchmarkError."""
    out.mkdir(parents=True, exist_ok=True)
    if (out / SETTINGS_FILE).is_file():
        old = GpuSettings.read(out)
        for name in ("device", "tiny", "seed"):
            if (was := getattr(old, name)) != (now := getattr(settings, name)):
                raise GpuBenchmarkError(
                    f"{out}: its parts are of {name}={was}, not {now}; give another --out"
                )
    settings.write(out)
    return Outcomes(out)


def run_parts(
    parts: Sequence[Part], out: Path, settings: GpuSettings, seconds: float
) -> dict[str, Outcome]:
    """Run what is not done yet, and keep every outcome; returns those of all these parts."""
    outcomes, found = Outcomes(out), {}
    runner = PartRunner(out, settings.threads, seconds, "", use_gpu=settings.device != "cpu")
    for part in (progress := tqdm(parts, desc="measuring", unit=" parts")):
        progress.set_postfix_str(part.name)
        known = outcomes.get(part.name)
        if known is None or not known.done:
            known = run_part(part, out, settings, runner, outcomes)
            outcomes.put(part.name, known)
        found[part.name] = known
    return found


def run_part(
    part: Part, out: Path, settings: GpuSettings, runner: PartRunner, outcomes: Outcomes
) -> Outcome:
    """Return what comes of a part, or why it is not begun."""
    if reason := missing(part, settings):
        return Outcome(f"skipped: {reason}", 0.0, NO_FIGURES)
    if runner.seconds_left < expected_seconds(part, settings):
        return Outcome(LATE, 0.0, NO_FIGURES)
    needed = outcomes.get(part.needs) if part.needs else None
    if part.needs and (needed is None or needed.status != OK):
        reason = "it did not run" if needed is None else needed.status
        return Outcome(f"skipped: needs {part.needs} ({reason})", 0.0, NO_FIGURES)
    start = time.monotonic()
    limit = PATIENCE * part.seconds
    result = runner.run_command(part_command(part, out, settings), limit)
    figures = dict(result.figures)
    status = str(figures.pop("status", result.status))
    if not result.ok and runner.seconds_left <= 0:
        status = LATE
    return Outcome(status, time.monotonic() - start, figures)


def expected_seconds(part: Part, settings: GpuSettings) -> float:
    """Return what a part is expected to take; a tiny one next to nothing but its start."""
    return min(part.seconds, 5.0) if settings.tiny else part.seconds


def summary(found: Mapping[str, Outcome], out: Path, settings: GpuSettings) -> dict[str, Any]:
    """Return results.json: every part's outcome, and the peers side by side."""
    installed = found.get("install", Outcome("", 0.0, NO_FIGURES)).figures
    return {
        "benchmark": "gpu",
        "settings": asdict(settings),
        "device": {name: value for name, value in installed.items() if name != "versions"},
        **peers_beside(found, out / PEERS_FOLDER),
        "parts": {
            name: {"status": one.status, "wall_seconds": one.seconds, **one.figures}
            for name, one in found.items()
        },
    }


def peers_beside(found: Mapping[str, Outcome], folder: Path) -> dict[str, Any]:
    """Return figures and ratios as train_step.py has them; memory is a GPU's where there is one."""
    ran = {name: found[f"peers/{name}"] for name in PEERS if f"peers/{name}" in found}
    if not ran or not (folder / SETTINGS_FILE).is_file():
        return {}
    settings = StepSettings.read(folder)
    contestants = {
        name: contestant_figures([PartResult(one.status, dict(one.figures))], settings)
        for name, one in ran.items()
    }
    memory = "peak_rss_gib" if settings.device == "cpu" else "peak_device_gib"
    return {"contestants": contestants, "ratios": ratios(contestants, memory)}


def finding(name: str, outcome: Outcome) -> str:
    """Return what a part found in a few words."""
    figures, group = outcome.figures, name.partition("/")[0]
    if not figures:
        return ""
    if "estimated_to_fit" in figures:
        return f"batch {figures['batch_size']}; by the estimate {figures['estimated_to_fit']} fit"
    if group == "install":
        lacking = f", requirements not met: {len(figures['unmet'])}" if figures["unmet"] else ""
        peak = f"{figures['peak_tflops']:.3g} TFLOP/s ({figures['peak_is']})"
        return f"{figures['name']}, {peak}{lacking}"
    if group == "backbone":
        return f"{figures['backbone']}{', random' if figures['random'] else ''}"
    if group == "parity":
        return ", ".join(f"{kind} {value:.1e}" for kind, value in figures["worst"].items())
    if group == "attention":
        return "; ".join(f"{kind} {_ways(ways)}" for kind, ways in figures.items())
    if group == "estimate":
        needed = figures["state"] + figures["activations"] + figures["reserve"]
        return f"{needed / GIB:.2f} GiB, {figures['model_flops'] / 1e12:.3g} TFLOP a step"
    if group == "step" and "tokens_per_second" in figures:
        return _step_finding(figures)
    if group == "peers" and "seconds" in figures:
        return f"{sum(figures['seconds']):.3g} s for all batches"
    if group == "peers" and "max_abs_diff" in figures:
        return f"greatest difference {figures['max_abs_diff']:.1e}"
    if group == "vllm":
        engines = ("transformers", "vllm")
        speeds = [f"{e} {figures[e]['mixed']['tokens_per_second']:.0f}" for e in engines]
        return f"tokens/s {', '.join(speeds)}; {figures['identical']:.0%} the same"
    if group == "loop":
        named = [k for k in figures if k.startswith(("questions_per", "output_tokens_per"))]
        return ", ".join(f"{figures[k]:.3g} {k.split('_per')[0]}/s" for k in named[:1] + named[-1:])
    return ""


def _ways(ways: Mapping[str, Mapping[str, Any]]) -> str:
    told = [f"{name} {way['new']:.2f}" for name, way in ways.items() if "new" in way]
    return f"{', '.join(told)} ms"


def _step_finding(figures: Mapping[str, Any]) -> str:
    said = [f"{figures['tokens_per_second']:,.0f} tokens/s"]
    if figures["mfu"] is not None:
        said.append(f"MFU {figures['mfu']:.1%} of the {figures['peak_is']} peak")
    if (peak := figures.get("peak_device_bytes")) and figures["memory_over_estimate"]:
        said.append(f"{peak / GIB:.1f} GiB, {figures['memory_over_estimate']:.2f} of the estimate")
    return ", ".join(said)


def write_results(
    out: Path, results: Mapping[str, Any], options: argparse.Namespace, started: str
) -> None:
    """Write results.json and run.json, which are a record as benchmarks/record.py keeps it."""
    state = git_state()
    seconds = sum(part["wall_seconds"] for part in results["parts"].values())
    run = {
        "command": portable_command(["python", *sys.argv]),
        "commit": options.commit or state["commit"],
        "dirty": state["dirty"],
        "data": {},
        "components": component_folders(_components(results)),
        **environment(),
        "seed": options.seed,
        "started": started,
        "wall_seconds": seconds,
        "cpu_seconds": None,
        "exit_code": 0,
        "notes": [],
    }
    for name, value in ((RESULTS_FILE, results), (RUN_FILE, run)):
        with atomic_write(out / name) as file:
            file.write(json.dumps(value, indent=1) + "\n")


def _components(results: Mapping[str, Any]) -> list[Path]:
    """Return the shipped components that were read."""
    from inference.engines.contract import DEFAULT_CHECKPOINTS, DEFAULT_SPAN_READER

    read = [n for n in ("vllm", "loop/vllm", "loop/transformers")
            if results["parts"].get(n, {}).get("status") == OK]  # fmt: skip
    tiny = results["settings"]["tiny"]
    return [*DEFAULT_CHECKPOINTS.values(), DEFAULT_SPAN_READER] if read and not tiny else []


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    groups = list(dict.fromkeys(part.group for part in PARTS.values()))
    add("--out", type=Path, required=True, help="folder of the outcomes; one that has some goes on")
    add("--minutes", type=float, default=60.0, help="time for this run (default: 60)")
    add(
        "--parts", nargs="+", default=[], choices=[*groups, *PARTS], metavar="PART",
        help=f"these alone, and what they need: {', '.join(groups)}, or GROUP/NAME (default: all)",
    )  # fmt: skip
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try it out, with --tiny")
    add("--tiny", action="store_true", help="shapes that a CPU takes seconds for")
    add("--threads", type=int, default=available_threads(), help="default: all cores")
    add("--seed", type=int, default=0, help="of weights and inputs (default: 0)")
    add("--commit", help="commit of the tree, where git cannot tell it")
    add("--json", action="store_true", help="print one JSON object as last line")
    return parser


def _end(*_: object) -> None:
    # The part that runs is ended on the way out.
    sys.exit("error: ended by a signal; the same command goes on")


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = _parser()
    options = parser.parse_args()
    if options.device == "cpu" and not options.tiny:
        parser.error("--device cpu is there to try this out: add --tiny")
    if options.minutes <= 0 or options.threads < 1:
        parser.error("--minutes must be above 0, --threads at least 1")
    os.environ.update(dict.fromkeys(OFFLINE, "1"))
    signal.signal(signal.SIGTERM, _end)
    settings = GpuSettings(**{f.name: getattr(options, f.name) for f in fields(GpuSettings)})
    parts = chosen_parts(options.parts, settings.tiny)
    require_device(settings, parts)
    out = options.out.resolve()
    outcomes = open_folder(out, settings)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        with FileLock(out / LOCK_FILE, timeout=0):
            run_parts(parts, out, settings, 60 * options.minutes)
    except Timeout as error:
        raise GpuBenchmarkError(f"{out}: another run is under way there; wait for it") from error
    found = {name: one for name in PARTS if (one := outcomes.get(name)) is not None}
    results = summary(found, out, settings)
    write_results(out, results, options, started)
    rows = [[n, o.status[:60], round(o.seconds, 1), finding(n, o)] for n, o in found.items()]
    print_table(f"On {results['device'].get('name', settings.device)}", COLUMNS, rows)
    if options.json:
        emit_json(results)
    if wrong := [name for name, outcome in found.items() if outcome.wrong]:
        sys.exit(f"error: {', '.join(wrong)}: see {out / RESULTS_FILE}")


if __name__ == "__main__":
    main()
