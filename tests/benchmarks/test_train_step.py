"""The comparison of training steps: same result first, then every figure or an honest gap."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
import torch

from benchmarks.harness.figures import (
    COMPARISONS,
    contestant_figures,
    ratio_rows,
    ratio_spread,
    ratios,
)
from benchmarks.harness.processes import PartResult, PartRunner, _failure
from benchmarks.harness.settings import CONTESTANTS, StepSettings
from benchmarks.harness.workload import Workload, target_lengths, write_workload
from benchmarks.peers.per_sample_loop import PerSampleLoopStep
from benchmarks.workers import parity as parity_module
from benchmarks.workers.parity import (
    GraphLLMStep,
    check_parity,
    compare,
    loop_outcome,
    our_outcome,
    stir_adapters,
)
from tests.benchmarks.commands import last_json, run_benchmark

# What the documentation quotes, by its name.
RATIOS = {
    "ratio_vs_pyg_fp32_same_batches": ("ours_fp32_same_batches", "pyg"),
    "ratio_vs_pyg_same_batches": ("ours_bf16_same_batches", "pyg"),
    "ratio_vs_pyg_fp32": ("ours_fp32", "pyg"),
    "ratio_vs_pyg": ("ours_bf16", "pyg"),
    "ratio_vs_loop": ("ours_bf16", "loop"),
    "memory_ratio_vs_pyg": ("ours_bf16", "pyg"),
    "ratio_vs_bare_lm": ("ours_bf16", "bare_lm"),
}
SIZES = {"graph_width": 16, "graph_heads": 2, "projector_width": 32}


@pytest.fixture(scope="module")
def settings(backbone: str) -> StepSettings:
    return StepSettings(
        backbone, "hash", batches=2, batch_size=3, min_tokens=900, max_tokens=1300, **SIZES
    )


@pytest.fixture(scope="module")
def workload(settings: StepSettings, tmp_path_factory: pytest.TempPathFactory) -> Workload:
    return write_workload(tmp_path_factory.mktemp("workload"), settings)


def test_our_step_equals_the_published_loop(workload: Workload, settings: StepSettings) -> None:
    assert check_parity(workload, settings).scaled <= 1e-4


def test_another_graph_is_noticed(workload: Workload, settings: StepSettings) -> None:
    """The comparison would see it if a sample's graph did not reach the model."""
    ours = GraphLLMStep(workload, settings, "float32")
    stir_adapters(ours.module, 0)
    ours.module.eval()
    loop = PerSampleLoopStep(workload, settings, ours.module)
    loop.graphs[0] = loop.graphs[1]
    batch = [0, 1]
    parity = compare(our_outcome(ours, batch), loop_outcome(loop, batch))
    assert parity.scaled > parity_module.TOLERANCE


def test_disagreement_stops(
    workload: Workload, settings: StepSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parity_module, "TOLERANCE", -1.0)
    with pytest.raises(AssertionError, match="disagree"):
        check_parity(workload, settings)


def test_prompts_have_the_lengths_asked_for(workload: Workload, settings: StepSettings) -> None:
    targets = target_lengths(settings)
    assert (min(targets), max(targets)) == (900, 1300)
    for length, target in zip(workload.prompt_lengths, targets, strict=True):
        assert target - 250 < length <= target


def test_lengths_spread_as_named() -> None:
    many = StepSettings(batches=100)
    for lengths, mean in (("log-uniform", 387), ("uniform", 510)):
        drawn = target_lengths(replace(many, lengths=lengths))  # type: ignore[arg-type]
        assert sum(drawn) / len(drawn) == pytest.approx(mean, abs=3)


def test_samples_and_order_come_from_the_seed(
    workload: Workload, settings: StepSettings, tmp_path: Path
) -> None:
    again = write_workload(tmp_path, settings)
    assert again.prompts == workload.prompts
    assert again.batches(settings, grouped=False) == workload.batches(settings, grouped=False)
    other = write_workload(tmp_path, replace(settings, seed=1))
    assert other.prompts != workload.prompts


def test_grouped_and_random_batches_hold_the_same_samples(
    workload: Workload, settings: StepSettings
) -> None:
    grouped, mixed = (workload.batches(settings, grouped) for grouped in (True, False))
    for order in (grouped, mixed):
        assert sorted(chain(*order)) == list(range(6))
    spans = [
        sum(max(map(workload.lengths.__getitem__, batch)) for batch in order)
        for order in (grouped, mixed)
    ]
    assert spans[0] <= spans[1]


def part(seconds: list[float], gib: int = 1) -> PartResult:
    """What one round of a contestant would give."""
    return PartResult(
        "ok",
        {
            "seconds": seconds,
            "peak_rss_bytes": gib * 2**30,
            "trainable_parameters": 1,
            "padded_tokens": [1],
            "real_token_share": 1.0,
            "losses": [1.0],
        },
    )


TWO_OF_FOUR = StepSettings(batches=2, batch_size=4)


def test_a_batch_counts_by_its_median_and_failures_have_no_ratio() -> None:
    runs = [part([1.0, 3.0]), part([1.0, 3.0], 2), part([9.0, 9.0])]
    ours = contestant_figures(runs, TWO_OF_FOUR)
    assert ours["samples_per_second"] == 2.0
    assert ours["samples_per_second_min"] == pytest.approx(8 / 18)
    assert ours["samples_per_second_max"] == 2.0
    assert ours["peak_rss_gib"] == 2.0
    failed = contestant_figures([PartResult("out of memory")], TWO_OF_FOUR)
    assert failed == {"status": "out of memory"}
    found = ratios({"ours_bf16": ours, "pyg": failed, "loop": ours})
    assert found["ratio_vs_pyg"] is None
    assert found["ratio_vs_loop"] == 1.0


def test_the_spread_is_of_rounds_that_both_finished() -> None:
    ours = contestant_figures(
        [part([1.0, 1.0]), PartResult("timed out"), part([2.0, 2.0])], TWO_OF_FOUR
    )
    pyg = contestant_figures([part([3.0, 3.0]), part([9.0, 9.0]), part([4.0, 4.0])], TWO_OF_FOUR)
    assert ours["status"] == "ok in 2 rounds; timed out"
    spread = ratio_spread({"ours_fp32_same_batches": ours, "pyg": pyg})
    assert spread["ratio_vs_pyg_fp32_same_batches"] == {"min": 2.0, "max": 3.0}
    assert spread["ratio_vs_pyg"] is None


def test_the_table_shows_like_for_like_first_and_says_what_was_given() -> None:
    for name, (ours, peer) in RATIOS.items():
        assert COMPARISONS[name][:2] == (ours, peer)
    for pair in COMPARISONS.values():
        mine, theirs = CONTESTANTS[pair.ours], CONTESTANTS[pair.peer]
        same_batches, same_dtype = mine.grouped == theirs.grouped, mine.dtype == theirs.dtype
        assert ("same batches" in pair.given) == same_batches
        assert ("both" in pair.given) == same_dtype
    nothing: dict[str, None] = dict.fromkeys(COMPARISONS)
    first, *_, last = ratio_rows(nothing, nothing)
    assert first[0] == "ratio_vs_pyg_fp32_same_batches" and first[-1].startswith("same batches")
    assert last[-1] == "ours by length, ours bfloat16"


def test_failures_are_named() -> None:
    assert _failure(-9, "") == "out of memory"
    assert _failure(1, "RuntimeError: not enough memory: you tried") == "out of memory"
    assert (
        _failure(1, "Traceback\nValueError: no such thing") == "failed: ValueError: no such thing"
    )
    assert (
        PartRunner(Path(), 1, 0.0, "no.worker").run("pyg").status
        == "not started: the time was used up"
    )


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_command_measures_like_for_like_and_the_rest(backbone: str) -> None:
    some = ("ours_fp32_same_batches", "ours_bf16", "pyg", "loop")
    done = run_benchmark(
        "train_step.py",
        *("--backbone", backbone, "--encoder", "hash", "--threads", "1"),
        *("--batches", "2", "--batch-size", "2", "--min-tokens", "800", "--max-tokens", "1100"),
        *("--graph-width", "16", "--graph-heads", "2", "--projector-width", "32"),
        *("--rounds", "1", "--only", *some),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = last_json(done)
    assert 0 < report["parity_max_abs_diff"] == report["parity"]["max_abs_diff"]
    assert report["parity"]["scaled"] <= 1e-4
    compared = [name for name, pair in COMPARISONS.items() if {pair.ours, pair.peer} <= set(some)]
    assert len(compared) > 2
    for name in compared:
        spread = report["ratio_spread"][name]
        assert 0 < spread["min"] == pytest.approx(report[name]) == spread["max"]
    assert report["workload"]["tokenising_ms_per_sample"] > 0
    assert set(report["contestants"]) == set(some)
    for name, figures in report["contestants"].items():
        assert figures["status"] == "ok", (name, figures)
        assert len(figures["seconds_per_batch"]) == 2
        assert torch.isfinite(torch.tensor(figures["losses"])).all()


@pytest.mark.exhaustive
@pytest.mark.slow
def test_what_cannot_run_is_reported(tmp_path: Path) -> None:
    done = run_benchmark("train_step.py", "--backbone", str(tmp_path / "missing"))
    assert done.returncode == 1
    assert "error: prepare: failed: " in done.stderr
    assert "no such folder" in done.stderr
