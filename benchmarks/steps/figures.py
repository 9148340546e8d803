"""From the times of steps to the figures of a comparison."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.steps.processes import PartResult
from benchmarks.steps.settings import CONTESTANTS, StepSettings

GIB = 2**30


def contestant_figures(results: Sequence[PartResult], settings: StepSettings) -> dict[str, Any]:
    """Figures of one contestant over its rounds.

    A batch's time is its median over the rounds; samples a second are all samples over the sum of
    those times, for batches differ in length. Peak memory is the largest of the rounds.
    """
    measured = [result.figures for result in results if result.ok]
    if not measured:
        return {"status": results[0].status if results else "not started"}
    seconds = [median(times) for times in zip(*(m["seconds"] for m in measured), strict=True)]
    return {
        "status": "ok",
        "rounds": len(measured),
        "seconds_per_batch": [round(value, 4) for value in seconds],
        "median_step_seconds": median(seconds),
        "samples_per_second": settings.batches * settings.batch_size / sum(seconds),
        "peak_rss_gib": max(m["peak_rss_bytes"] for m in measured) / GIB,
        "padded_tokens": measured[0]["padded_tokens"],
        "real_token_share": measured[0]["real_token_share"],
        "losses": measured[0]["losses"],
        "trainable_parameters": measured[0]["trainable_parameters"],
    }


def ratios(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """What the comparison is for; None where one of the two has no figure.

    Of samples a second (higher is better): `ratio_vs_*`, ours grouped by length, as our trainer
    does, and the peers in random order; `*_same_batches` with the peers' batches for both. Of
    time (lower is better): `ratio_vs_bare_lm` and `ratio_vs_own_lm`, both on our batches. Of
    memory (lower is better): `memory_ratio_*`.
    """

    def ratio(name: str, over: str, key: str = "samples_per_second") -> float | None:
        top, bottom = (figures.get(part, {}).get(key) for part in (name, over))
        return top / bottom if top and bottom else None

    same, same_fp32 = "ours_bf16_same_batches", "ours_fp32_same_batches"
    return {
        "ratio_vs_pyg": ratio("ours_bf16", "pyg"),
        "ratio_vs_loop": ratio("ours_bf16", "loop"),
        "ratio_vs_pyg_fp32": ratio("ours_fp32", "pyg"),
        "ratio_vs_loop_fp32": ratio("ours_fp32", "loop"),
        "ratio_vs_pyg_same_batches": ratio(same, "pyg"),
        "ratio_vs_loop_same_batches": ratio(same, "loop"),
        "ratio_vs_pyg_fp32_same_batches": ratio(same_fp32, "pyg"),
        "ratio_vs_loop_fp32_same_batches": ratio(same_fp32, "loop"),
        "memory_ratio_vs_pyg": ratio("ours_bf16", "pyg", "peak_rss_gib"),
        "memory_ratio_vs_loop": ratio("ours_bf16", "loop", "peak_rss_gib"),
        "memory_ratio_vs_pyg_fp32": ratio("ours_fp32", "pyg", "peak_rss_gib"),
        "memory_ratio_vs_pyg_same_batches": ratio(same, "pyg", "peak_rss_gib"),
        "ratio_vs_bare_lm": ratio("bare_lm", "ours_bf16"),
        "ratio_vs_own_lm": ratio("ours_no_graph", "ours_bf16"),
    }


def table_rows(figures: Mapping[str, Mapping[str, Any]]) -> list[list[Any]]:
    """One row a contestant, for people."""
    keys = ("samples_per_second", "median_step_seconds", "peak_rss_gib", "real_token_share")
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
