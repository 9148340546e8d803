"""Commands on Ray whose engines, nodes or drivers die: nothing is lost, doubled or other."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

from tests.inference.ray_cluster import ray_cluster
from tests.inference.ray_commands import (
    actors,
    alone,
    answered,
    ended,
    evaluation,
    extraction,
    has_lines,
    on_ray,
    started,
    wait_for,
    world_of,
)
from tests.processes import Process

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

KILLS = 20
# An engine is not killed before it has opened, which takes some ten seconds: three deaths as it
# opens end the pool's patience, as documented, and are tested in test_engine_ray.py.
OPENED_SECONDS = 30.0


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world_of(tmp_path_factory.mktemp("small"), 40, 150)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that gives three engines work for as long as it takes to kill them twenty times."""
    return world_of(tmp_path_factory.mktemp("large"), 250, 1200)


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster of three nodes with room for one engine each, and for one more."""
    with ray_cluster(3, cpus=2) as started:
        yield started


class Killer(threading.Thread):
    """Ends engines at random, one after another, while a command runs."""

    def __init__(self, running: Process) -> None:
        super().__init__(daemon=True)
        self.running, self.killed = running, 0

    def run(self) -> None:
        chance = random.Random(0)
        while self.running.poll() is None and self.killed < KILLS:
            time.sleep(0.5)
            with suppress(psutil.Error):
                opened = [a for a in actors() if time.time() - a.create_time() > OPENED_SECONDS]
                if opened:
                    chance.choice(opened).kill()
                    self.killed += 1


def a_node_goes_and_another_comes(cluster: Any) -> None:
    cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    cluster.add_node(num_cpus=2, object_store_memory=100 * 2**20)


@pytest.fixture(scope="module")
def small_answers(small: Path) -> list[Any]:
    """Those of one engine."""
    alone(evaluation(small, small / "alone"))
    return answered(small / "alone")


def test_an_evaluation_while_a_node_goes_and_another_comes(
    small: Path, small_answers: list[Any], cluster: Any, tmp_path: Path
) -> None:
    out = tmp_path / "pool"
    with started(on_ray(evaluation(small, out), cluster.address)) as running:
        wait_for(lambda: has_lines(out / "progress.jsonl", 5), running, "five answers")
        a_node_goes_and_another_comes(cluster)
        results = ended(running)
    assert results["errors"] == 0
    assert answered(out) == small_answers


def test_a_killed_driver_goes_on_where_it_was(
    small: Path, small_answers: list[Any], cluster: Any, tmp_path: Path
) -> None:
    out = tmp_path / "pool"
    arguments = on_ray(evaluation(small, out), cluster.address)
    with started(arguments) as running:
        wait_for(lambda: has_lines(out / "progress.jsonl", 5), running, "five answers")
        running.kill()
        running.wait()
    before = len((out / "progress.jsonl").read_text().splitlines())
    with started([*arguments, "--resume"]) as running:
        results = ended(running)
    assert results["n"] > before >= 5 and results["errors"] == 0
    assert answered(out) == small_answers


@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("command", "outcome"),
    [(extraction, Path.read_bytes), (evaluation, answered)],
    ids=["extract.py", "evaluate.py"],
)
def test_a_command_whose_engines_are_killed_twenty_times_and_whose_node_goes(
    command: Callable[[Path, Path], list[object]],
    outcome: Callable[[Path], Any],
    large: Path,
    cluster: Any,
    tmp_path: Path,
) -> None:
    alone(command(large, tmp_path / "alone"))
    with started(on_ray(command(large, tmp_path / "pool"), cluster.address)) as running:
        killer = Killer(running)
        killer.start()
        wait_for(lambda: killer.killed >= KILLS // 2, running, "ten deaths")
        a_node_goes_and_another_comes(cluster)
        counts = ended(running)
    killer.join()
    assert killer.killed == KILLS
    assert counts.get("errors", 0) == 0
    assert outcome(tmp_path / "pool") == outcome(tmp_path / "alone")
