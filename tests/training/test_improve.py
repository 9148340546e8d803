"""The command that improves by outcomes: its table, its recipe, and a round on tiny components."""

import json
import os
import re
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests import processes
from tests.training.improvement_material import write_improvement
from tests.training.round_commands import (
    EVALUATE,
    RECIPE,
    Commands,
    after,
    settings_in,
)
from training.improve import COLUMNS, rows
from training.recipe.settings import expected_type, known_keys
from training.rounds.run import Improvement
from training.rounds.settings import ImproveSettings
from training.rounds.steps import RoundError, execute


def test_tokens_of_rounds_compare(tmp_path: Path) -> None:
    """What an evaluation read before would cost the next one nothing."""
    settings = settings_in(tmp_path, "loop=[--loop,ras]")
    commands = Commands([0.5, 0.6])
    settings.rounds = 1
    improvement = Improvement(settings, commands)
    improvement.go_on()
    caches = [after(words, "--cache") for words in commands.asked if EVALUATE in words]
    assert [Path(cache).parent for cache in caches] == [
        tmp_path / "out/round-00", tmp_path / "out/round-01",
    ]  # fmt: skip
    measured = {"weighted_tokens": 900, "n": 3, "retrieval_recall": 0.8}
    counted = replace(improvement.rounds[0], measured=measured)
    [first, second] = rows([counted, improvement.rounds[1]])
    assert first[COLUMNS.index("tokens a question")] == 300
    assert first[COLUMNS.index("recall")] == 0.8
    assert second[COLUMNS.index("tokens a question")] is None
    assert len(first) == len(second) == len(COLUMNS)


def test_a_command_is_not_left_at_work_by_an_improvement_that_is_stopped(tmp_path: Path) -> None:
    told = tmp_path / "told"
    child = (
        "import signal, sys, time, pathlib\n"
        f"told = pathlib.Path({str(told)!r})\n"
        "def note(*_):\n    told.write_text('stopped')\n    sys.exit(75)\n"
        "signal.signal(signal.SIGTERM, note)\n"
        "told.write_text('begun')\ntime.sleep(300)\n"
    )

    def stop() -> None:
        while not told.is_file():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    with pytest.raises(RoundError, match="code 75"):
        execute([sys.executable, "-c", child])
    assert told.read_text() == "stopped"


def test_commands_run_in_the_folder_that_paths_are_relative_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    execute([sys.executable, "-c", "open('here', 'w')"])
    assert (tmp_path / "here").is_file()
    commands = Commands([0.5, 0.6, 0.55, 0.7])
    Improvement(settings_in(tmp_path, "loop=[--loop,ras]"), commands).go_on()
    assert all(Path(words[1]).is_file() for words in commands.asked)


def test_every_key_is_commented_with_its_type() -> None:
    keys, parents = [], list[str]()
    for line in RECIPE.read_text().splitlines():
        if match := re.match(r"( *)(\w+):(.*?)  # (.+)", line):
            indent, name, value, comment = match.groups()
            parents = [*parents[: len(indent) // 2], name]
            if value:
                keys.append(".".join(parents))
                kind = re.escape(expected_type(ImproveSettings, keys[-1]))
                assert re.match(rf"{kind}, (required|default .+): ", comment), line
    assert keys == known_keys(ImproveSettings)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("two", [False, True])
def test_a_round_on_tiny_components(tmp_path: Path, two: bool) -> None:
    given = (
        "--config", RECIPE, "--picture", tmp_path / "rounds.png", f"output_dir={tmp_path / 'out'}",
        *write_improvement(tmp_path, two=two),
    )  # fmt: skip
    improved = processes.run(processes.ROOT / "training/improve.py", *given, "--json", forks=True)
    assert improved.returncode == 0, improved.stderr[-3000:]
    done = json.loads(improved.stdout.splitlines()[-1])
    assert [each["number"] for each in done["rounds"]] == [0, 1]
    assert all(each["learning"]["entropy"] > 0 for each in done["rounds"][1:])
    assert (tmp_path / "rounds.png").stat().st_size > 1000
    assert (tmp_path / "out" / "best" / "config.json").is_file()
    assert (tmp_path / "out" / "best_t2t" / "config.json").is_file() is two
    beside = done["rounds"][1]["learning_beside"]
    assert beside["entropy"] > 0 if two else beside == {}
