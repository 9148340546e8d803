"""Commands of inference/ on a cluster of Ray, and what they came to."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from data_gen.build_world import build_world
from tests.components import ras_component, stirred_backbone, t2t_component
from tests.processes import Process, begin

INFERENCE = Path(__file__).resolve().parents[2] / "inference"
PATIENCE_SECONDS = 1200
# As Ray names the processes of engines.
ACTOR = "ray::EngineActor"


def world_of(folder: Path, questions: int, entities: int) -> Path:
    """A world and tiny components over one backbone."""
    build_world(questions, 0, folder / "world", entities, fractions=(0.0, 0.0, 1.0), progress=False)
    backbone = stirred_backbone(folder / "tiny", hidden_size=128)
    t2t_component(folder / "t2t", backbone, max_output_tokens=250, stirred=0.3)
    ras_component(folder / "ras", backbone, stirred=0.2)
    return folder


def evaluation(folder: Path, out: Path) -> list[object]:
    return [
        "evaluate.py", "--loop", "ras", "--dataset", folder / "world" / "questions_test.jsonl",
        "--corpus", folder / "world" / "corpus.jsonl", "--ras", folder / "ras",
        "--t2t", folder / "t2t",
        "--cache", out.parent / f"{out.name}.sqlite", "--dtype", "float32",
        "--max-batch-size", 8, "--retriever", "bm25", "--concurrency", 24, "--out", out, "--json",
    ]  # fmt: skip


def extraction(folder: Path, out: Path) -> list[object]:
    return [
        "extract.py", "--corpus", folder / "world" / "corpus.jsonl", "--t2t", folder / "t2t",
        "--cache", out.with_suffix(".sqlite"), "--dtype", "float32", "--max-batch-size", 8,
        "--out", out, "--json",
    ]  # fmt: skip


def on_ray(arguments: Sequence[object], address: str, engines: int = 3) -> list[object]:
    """The same on engines of one CPU each; address: "" for the environment's."""
    at = ("--ray-address", address) if address else ()
    return [
        *arguments, "--engine", "ray", "--ray-engine", "transformers", "--engines", engines,
        "--engine-cpus", "1", *at,
    ]  # fmt: skip


@contextmanager
def started(arguments: Sequence[object]) -> Iterator[Process]:
    """Run a command of inference/ until the block ends."""
    script, *rest = arguments
    running = begin(INFERENCE / str(script), *rest)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def ended(running: Process) -> dict[str, Any]:
    """What a command prints last; it must end well."""
    output, errors = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 0, errors[-3000:]
    return dict(json.loads(output.splitlines()[-1]))


def alone(arguments: Sequence[object]) -> dict[str, Any]:
    """Run a command on one engine in its own process."""
    with started([*arguments, "--engine", "transformers"]) as running:
        return ended(running)


def answered(out: Path) -> list[Any]:
    """What an evaluation answered and what that rests on, without what differs from run to run."""
    rows = [json.loads(line) for line in (out / "traces.jsonl").read_text().splitlines()]
    assert not [row["error"] for row in rows if row["error"]]
    return [(row["id"], row["answer"], [each["triples"] for each in row["steps"]]) for row in rows]


def wait_for(
    holds: Callable[[], bool], running: Process, what: str, seconds: float = PATIENCE_SECONDS
) -> None:
    """Look until something holds of a command that still runs."""
    end = time.monotonic() + seconds
    while not holds():
        assert running.poll() is None, running.errors[-3000:]
        assert time.monotonic() < end, what
        time.sleep(0.1)


def has_lines(path: Path, count: int) -> bool:
    return path.is_file() and len(path.read_text().splitlines()) >= count


def actors() -> list[psutil.Process]:
    """The processes of engines."""
    running = psutil.process_iter(["cmdline"])
    return [p for p in running if (p.info["cmdline"] or [""])[0].startswith(ACTOR)]
