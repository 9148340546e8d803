"""An evaluation on a Ray cluster whose nodes come and go: nothing is lost, doubled or other."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from data_gen.build_world import build_world
from tests.components import ras_component, stirred_backbone, t2t_component

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

from tests.inference.ray_cluster import ray_cluster

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 900


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world and tiny components over one backbone."""
    made = tmp_path_factory.mktemp("faults")
    build_world(40, 0, made / "world", 150, fractions=(0.0, 0.0, 1.0), progress=False)
    backbone = stirred_backbone(made / "tiny", hidden_size=128)
    t2t_component(made / "t2t", backbone, max_output_tokens=250, stirred=0.3)
    ras_component(made / "ras", backbone, stirred=0.2)
    return made


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster of three nodes with room for one engine each, and for one more."""
    with ray_cluster(3, cpus=2) as started:
        yield started


def command(script: str, *arguments: object) -> list[str]:
    return [sys.executable, str(ROOT / "inference" / script), *map(str, arguments)]


def evaluation(folder: Path, out: Path) -> list[str]:
    return command(
        "evaluate.py", "--loop", "ras", "--dataset", folder / "world" / "questions_test.jsonl",
        "--corpus", folder / "world" / "corpus.jsonl", "--ras", folder / "ras",
        "--t2t", folder / "t2t",
        "--cache", out.parent / f"{out.name}.sqlite", "--dtype", "float32",
        "--max-batch-size", 8, "--retriever", "bm25", "--concurrency", 24, "--out", out, "--json",
    )  # fmt: skip


def on_ray(arguments: Sequence[str], address: str) -> list[str]:
    """The same on three engines of one CPU each."""
    return [
        *arguments, "--engine", "ray", "--ray-engine", "transformers", "--engines", "3",
        "--engine-cpus", "1", "--ray-address", address,
    ]  # fmt: skip


def finished(arguments: Sequence[str]) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr[-3000:]


@contextmanager
def started(arguments: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            yield running
        finally:
            if running.poll() is None:
                running.kill()


def ended(running: "subprocess.Popen[str]") -> dict[str, Any]:
    output, errors = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 0, errors[-3000:]
    return dict(json.loads(output.splitlines()[-1]))


def answers(out: Path) -> list[Any]:
    """What an evaluation answered and what that rests on, without what differs from run to run."""
    rows = [json.loads(line) for line in (out / "traces.jsonl").read_text().splitlines()]
    assert not [row["error"] for row in rows if row["error"]]
    return [(row["id"], row["answer"], [each["triples"] for each in row["steps"]]) for row in rows]


def test_an_evaluation_while_a_node_goes_and_another_comes(
    folder: Path, cluster: Any, tmp_path: Path
) -> None:
    finished([*evaluation(folder, tmp_path / "alone"), "--engine", "transformers"])
    arguments = on_ray(evaluation(folder, tmp_path / "pool"), cluster.address)
    progress = tmp_path / "pool" / "progress.jsonl"
    with started(arguments) as running:
        wait_for_lines(progress, 5, running)
        cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
        cluster.add_node(num_cpus=2, object_store_memory=100 * 2**20)
        results = ended(running)
    assert results["errors"] == 0
    assert answers(tmp_path / "pool") == answers(tmp_path / "alone")


def wait_for_lines(path: Path, count: int, running: "subprocess.Popen[str]") -> None:
    """Until a file has so many lines."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not path.is_file() or len(path.read_text().splitlines()) < count:
        assert running.poll() is None, running.communicate()[1][-3000:]
        assert time.monotonic() < end, f"{path} has no {count} lines yet"
        time.sleep(0.1)
