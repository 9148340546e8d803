"""What an index cost: every call counted, kept where a build fails or is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import inference.indexes.cost
from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from common.errors import RecordError
from inference.engines.contract import Request
from inference.indexes.cost import COST_FILE, CostLog, read_cost

ROOT = Path(__file__).resolve().parents[2]
KILLED = """
import asyncio, sys, time
from pathlib import Path
import inference.indexes.cost
from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from inference.engines.contract import Request
inference.indexes.cost._SECONDS_BETWEEN_LINES = 0.0
with inference.indexes.cost.CostLog(Path(sys.argv[1])) as costs:
    engine = costs.metered(ScriptedEngine(lambda request: "one two"))
    for _ in range(3):
        asyncio.run(engine.generate([Request(prompt="a b c")]))
    print("paid", flush=True)
    time.sleep(60)
"""


async def spend(folder: Path, calls: int) -> None:
    with CostLog(folder) as costs:
        engine = costs.metered(ScriptedEngine(lambda request: "one two"))
        await engine.generate([Request(prompt="a b c")] * calls)


async def test_costs_add_up_over_additions(tmp_path: Path) -> None:
    await spend(tmp_path, 4)
    await spend(tmp_path, 1)
    cost = read_cost(tmp_path)
    assert cost is not None and cost.pop("seconds") >= 0
    assert cost == {
        "llm_calls": 5, "input_tokens": 15, "output_tokens": 10, "weighted_tokens": 15 + 4 * 10
    }  # fmt: skip


async def test_a_failed_build_keeps_what_it_paid(tmp_path: Path) -> None:
    with pytest.raises(ValueError), CostLog(tmp_path / "new") as costs:
        await costs.metered(ScriptedEngine(lambda request: "x")).generate([Request(prompt="a")])
        raise ValueError
    assert (read_cost(tmp_path / "new") or {})["llm_calls"] == 1


def test_nothing_done_leaves_nothing(tmp_path: Path) -> None:
    with CostLog(tmp_path / "new"):
        pass
    assert not (tmp_path / "new").exists()
    assert read_cost(tmp_path) is None and read_cost(None) is None


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / COST_FILE).write_text("{}\n{]\n")
    with pytest.raises(RecordError, match=rf"{COST_FILE}:2.*Remove the line"):
        read_cost(tmp_path)


async def test_lines_come_every_few_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not the default, by which a machine that stands still for seconds would write more.
    for name, seconds in (("one", 3600.0), ("many", 0.0)):
        monkeypatch.setattr(inference.indexes.cost, "_SECONDS_BETWEEN_LINES", seconds)
        await spend(tmp_path / name, 3)
    lines = {
        name: len((tmp_path / name / COST_FILE).read_text().splitlines())
        for name in ("one", "many")
    }
    assert lines == {"one": 1, "many": 2}


@pytest.mark.exhaustive
def test_a_killed_build_keeps_what_it_paid(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as build:
        assert build.stdout is not None and build.stdout.readline() == "paid\n"
        started = time.monotonic()
        build.send_signal(signal.SIGKILL)
        build.wait()
        assert time.monotonic() - started < 50
    assert (read_cost(tmp_path) or {})["llm_calls"] == 3
    lines = (tmp_path / COST_FILE).read_text().splitlines()
    assert [json.loads(line)["llm_calls"] for line in lines] == [1, 1, 1]
