"""The widths' benchmark on a tiny backbone."""

from pathlib import Path

import pytest

from models.formats.planning import HistoryStep
from models.formats.records import RasSample, write_records
from models.formats.triples import Triple
from tests.benchmarks.commands import last_json, run_benchmark

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def samples(count: int) -> list[RasSample]:
    made: list[RasSample] = []
    for i in range(count):
        history = [HistoryStep(f"Find Ada{i}", (Triple(f"Ada{i}", "lives in", f"City{i}"),))]
        question = f"Where is Ada{i}?"
        made += [
            RasSample(f"q{i}/plan/0", "plan", question, [], f"[SUBQ] Find Ada{i}"),
            RasSample(f"q{i}/plan/1", "plan", question, history, "[SUFFICIENT]"),
            RasSample(f"q{i}/answer", "answer", question, history, f"City{i}"),
        ]
    return made


@pytest.mark.exhaustive
def test_each_width_is_trained_and_measured(backbone: str, tmp_path: Path) -> None:
    write_records(tmp_path / "train.jsonl", samples(6))
    write_records(tmp_path / "dev.jsonl", samples(2))
    done = run_benchmark(
        "graph_width.py", "--train", str(tmp_path / "train.jsonl"),
        "--dev", str(tmp_path / "dev.jsonl"), "--out", str(tmp_path), "--widths", "0", "8", "16",
        "--steps", "3", "--batch-size", "4", "--backbone", backbone, "--encoder", "hash",
    )  # fmt: skip
    figures = last_json(done)
    assert done.returncode == 0
    # Samples without a history tell nothing of the graph and are left out.
    assert figures["train"] == 12
    widths = {row["width"]: row for row in figures["widths"]}
    assert list(widths) == [0, 8, 16]
    assert widths[0]["encoder_parameters"] == 0
    assert 0 < widths[8]["encoder_parameters"] < widths[16]["encoder_parameters"]
    assert len({row["plan_loss"] for row in widths.values()}) == 3
