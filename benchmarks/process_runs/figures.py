"""From the times of a form's steps to its figures."""

from collections.abc import Sequence
from statistics import median
from typing import Any

GIB = 2**30
# Of a loss, relative; float32 sums in another order differ less, bfloat16 ones more.
TOLERANCE = 1e-2


def form_figures(
    rounds: Sequence[dict[str, Any]], one: Sequence[dict[str, Any]], warm_up: int
) -> dict[str, Any]:
    """Figures of a form: medians over the steps of all its rounds.

    Args:
        rounds: what `run_form` gave for it.
        one: the same for one process, whose losses are the reference.
        warm_up: first steps that do not count.
    """
    good = [figures for figures in rounds if figures["status"] == "ok"]
    if not good:
        return {"status": rounds[0]["status"]}
    seconds = [value for run in good for value in run["seconds"][warm_up:]]
    tokens = [value for run in good for value in run["tokens"][warm_up:]]
    figures: dict[str, Any] = {
        "status": "ok" if len(good) == len(rounds) else f"{len(good)} of {len(rounds)} rounds ran",
        "kind": good[0]["kind"],
        "processes": good[0]["processes"],
        "steps": len(seconds),
        "tokens_per_second": median(t / s for t, s in zip(tokens, seconds, strict=True)),
        "median_step_seconds": median(seconds),
        "peak_rss_gib": max(run["peak_rss_bytes"] for run in good) / GIB,
    }
    wanted = next((run["losses"] for run in one if run["status"] == "ok"), None)
    if wanted is not None:
        # Against the first run of one process itself this is 0.
        pairs = [zip(run["losses"], wanted, strict=True) for run in good]
        figures["max_loss_difference"] = max(abs(a - b) / abs(b) for pair in pairs for a, b in pair)
        if not figures["max_loss_difference"] <= TOLERANCE:
            figures["status"] = "its losses are not those of one process"
    return figures
