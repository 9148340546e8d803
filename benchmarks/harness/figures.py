"""From the times of steps to the figures of a comparison."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Literal, NamedTuple

from benchmarks.harness.processes import GIB, PartResult, figure_ratio
from benchmarks.harness.settings import CONTESTANTS, StepSettings

Figure = Literal["speed", "time", "memory"]
KEYS: dict[Figure, str] = {
    "speed": "samples_per_second",
    "time": "seconds",
    "memory": "peak_rss_gib",
}


class Comparison(NamedTuple):
    """One of ours over a peer: what is compared, on which batches and in which dtypes."""

    ours: str
    peer: str
    figure: Figure
    given: str


# Like for like first, then with all that we add.
COMPARISONS: dict[str, Comparison] = {
    "ratio_vs_pyg_fp32_same_batches": Comparison(
        "ours_fp32_same_batches", "pyg", "speed", "same batches, both float32"
    ),
    "ratio_vs_loop_fp32_same_batches": Comparison(
        "ours_fp32_same_batches", "loop", "speed", "same batches, both float32"
    ),
    "ratio_vs_pyg_same_batches": Comparison(
        "ours_bf16_same_batches", "pyg", "speed", "same batches, ours bfloat16"
    ),
    "ratio_vs_loop_same_batches": Comparison(
        "ours_bf16_same_batches", "loop", "speed", "same batches, ours bfloat16"
    ),
    "ratio_vs_pyg_fp32": Comparison("ours_fp32", "pyg", "speed", "ours by length, both float32"),
    "ratio_vs_loop_fp32": Comparison("ours_fp32", "loop", "speed", "ours by length, both float32"),
    "ratio_vs_pyg": Comparison("ours_bf16", "pyg", "speed", "ours by length, ours bfloat16"),
    "ratio_vs_loop": Comparison("ours_bf16", "loop", "speed", "ours by length, ours bfloat16"),
    "ratio_vs_bare_lm": Comparison(
        "ours_bf16", "bare_lm", "time", "same batches, both bfloat16; the peer has no graph"
    ),
    "ratio_vs_compiled_lm": Comparison(
        "ours_bf16", "compiled_lm", "time", "same batches, both bfloat16; the peer has no graph"
    ),
    "ratio_vs_own_lm": Comparison(
        "ours_bf16", "ours_no_graph", "time", "same batches, both bfloat16; the peer has no graph"
    ),
    "memory_ratio_vs_pyg_fp32_same_batches": Comparison(
        "ours_fp32_same_batches", "pyg", "memory", "same batches, both float32"
    ),
    "memory_ratio_vs_pyg_same_batches": Comparison(
        "ours_bf16_same_batches", "pyg", "memory", "same batches, ours bfloat16"
    ),
    "memory_ratio_vs_pyg_fp32": Comparison(
        "ours_fp32", "pyg", "memory", "ours by length, both float32"
    ),
    "memory_ratio_vs_pyg": Comparison(
        "ours_bf16", "pyg", "memory", "ours by length, ours bfloat16"
    ),
    "memory_ratio_vs_loop": Comparison(
        "ours_bf16", "loop", "memory", "ours by length, ours bfloat16"
    ),
}


def contestant_figures(results: Sequence[PartResult], settings: StepSettings) -> dict[str, Any]:
    """Return the figures of one contestant over its rounds.

    A batch's time is its median over the rounds; samples a second are all samples over the sum of
    those times, for batches differ in length. Peak memory is the largest of the rounds. `by_round`
    has each round's own figures, None for one that failed.
    """
    measured = [result.figures for result in results if result.ok]
    if not measured:
        return {"status": results[0].status if results else "not started"}
    seconds = [median(times) for times in zip(*(m["seconds"] for m in measured), strict=True)]
    samples = settings.batches * settings.batch_size
    by_round = [_round_figures(result, samples) for result in results]
    speeds = [figures["samples_per_second"] for figures in by_round if figures]
    failed = [result.status for result in results if not result.ok]
    return {
        "status": "ok" if not failed else f"ok in {len(measured)} rounds; {failed[0]}",
        "rounds": len(measured),
        "seconds": sum(seconds),
        "seconds_per_batch": [round(value, 4) for value in seconds],
        "median_step_seconds": median(seconds),
        "samples_per_second": samples / sum(seconds),
        "samples_per_second_min": min(speeds),
        "samples_per_second_max": max(speeds),
        "peak_rss_gib": max(m["peak_rss_bytes"] for m in measured) / GIB,
        # Of the tensors on a GPU, where everyone trained on one.
        "peak_device_gib": _gib(max(m.get("peak_device_bytes", 0) for m in measured)),
        "by_round": by_round,
        "padded_tokens": measured[0]["padded_tokens"],
        "real_token_share": measured[0]["real_token_share"],
        "losses": measured[0]["losses"],
        "trainable_parameters": measured[0]["trainable_parameters"],
    }


def _gib(size: int) -> float | None:
    return size / GIB if size else None


def _round_figures(result: PartResult, samples: int) -> dict[str, float] | None:
    if not result.ok:
        return None
    seconds = sum(result.figures["seconds"])
    memory = result.figures["peak_rss_bytes"] / GIB
    return {"seconds": seconds, "samples_per_second": samples / seconds, "peak_rss_gib": memory}


def ratios(
    figures: Mapping[str, Mapping[str, Any]], memory: str = KEYS["memory"]
) -> dict[str, float | None]:
    """Return what the comparison is for, as `COMPARISONS` names it; None where one has no figure.

    Samples a second over the peer's (higher is better), seconds over the peer's for `…_lm` and
    memory over the peer's (lower is better); memory: the figure of it that is compared.
    """
    keys = {**KEYS, "memory": memory}
    return {
        name: figure_ratio(figures, pair.ours, pair.peer, keys[pair.figure])
        for name, pair in COMPARISONS.items()
    }


def ratio_spread(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float] | None]:
    """Return the least and the greatest ratio of one round, over the rounds that both finished."""

    def spread(pair: Comparison) -> dict[str, float] | None:
        key = KEYS[pair.figure]
        rounds = (figures.get(part, {}).get("by_round", []) for part in (pair.ours, pair.peer))
        found = [
            ours[key] / peer[key] for ours, peer in zip(*rounds, strict=False) if ours and peer
        ]
        return {"min": min(found), "max": max(found)} if found else None

    return {name: spread(pair) for name, pair in COMPARISONS.items()}


def table_rows(figures: Mapping[str, Mapping[str, Any]]) -> list[list[Any]]:
    """Return one row for each contestant, for people."""
    keys = ("samples_per_second", "samples_per_second_min", "samples_per_second_max",
            "median_step_seconds", "peak_rss_gib", "real_token_share")  # fmt: skip
    return [
        [
            CONTESTANTS[name].description,
            CONTESTANTS[name].dtype,
            "by length" if CONTESTANTS[name].grouped else "random",
            *(figure.get(key) for key in keys),
            figure["status"],
        ]
        for name, figure in figures.items()
    ]


def ratio_rows(
    found: Mapping[str, float | None], spread: Mapping[str, Mapping[str, float] | None]
) -> list[list[Any]]:
    """Return a row a comparison: its figure, least and greatest of a round, and what was given."""
    rows = []
    for name, pair in COMPARISONS.items():
        ends = spread[name] or {}
        rows.append([name, found[name], ends.get("min"), ends.get("max"), pair.given])
    return rows
