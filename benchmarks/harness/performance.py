"""The parts of benchmarks/all.py, their figures over rounds, and what differs from a record."""

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

Better = Literal["higher", "lower"]
Verdict = Literal["better", "same", "worse", "new", "other machine"]
# Medians that differ by less are the same, however little the rounds differ among themselves.
LEAST_CHANGE = 0.05


@dataclass(frozen=True)
class Part:
    """A benchmark, and what it is run for.

    Attributes:
        name: of its script in benchmarks/.
        arguments: of one round.
        figures: paths into its JSON, with dots (`*` for all keys), by what is better.
        rounds: most rounds; None: as many as all have.
        needs: a module without which the part cannot run.
    """

    name: str
    arguments: tuple[str, ...]
    figures: Mapping[str, Better]
    rounds: int | None = None
    needs: str | None = None

    @property
    def missing(self) -> bool:
        """Return whether what it needs is not installed."""
        return self.needs is not None and importlib.util.find_spec(self.needs) is None


# The most telling first: should time run out, what is left is the least telling.
PARTS: tuple[Part, ...] = (
    Part(
        "train_step",
        ("--rounds", "1", "--batches", "2"),
        {
            "ratio_vs_pyg_fp32_same_batches": "higher",
            "ratio_vs_pyg_same_batches": "higher",
            "ratio_vs_pyg": "higher",
            "ratio_vs_loop_fp32_same_batches": "higher",
            "ratio_vs_loop": "higher",
            "ratio_vs_bare_lm": "lower",
            "ratio_vs_own_lm": "lower",
            "memory_ratio_vs_pyg_fp32_same_batches": "lower",
            "contestants.ours_fp32.samples_per_second": "higher",
            "contestants.ours_bf16.samples_per_second": "higher",
        },
    ),
    Part(
        "loop",
        ("--engine", "transformers", "--questions", "8"),
        {
            "ratio_transformers16_vs_transformers1": "higher",
            "questions_per_second_transformers16": "higher",
        },
    ),
    Part(
        "engines",
        ("--documents", "16"),
        {
            "ratio_extract_vs_bare": "higher",
            "ratio_vllm_vs_transformers1": "higher",
            "ratio_prefix_caching": "higher",
        },
        needs="vllm",
    ),
    Part(
        "deep_prompt",
        ("--rounds", "1", "--num-tokens", "64", "--steps", "2"),
        {
            "n=64.ratio_vs_frozen": "higher",
            "n=64.ratio_vs_literal": "higher",
            "n=64.ratio_vs_peft": "higher",
        },
    ),
    Part(
        "retrieval_scale",
        ("--sizes", "10000", "--embed-up-to", "0", "--backends", "memory", "mapped"),
        {
            "sizes.10000.backends.*.bm25_ms_median": "lower",
            "sizes.10000.backends.*.open_seconds": "lower",
            "sizes.10000.backends.*.lexical_build_seconds": "lower",
        },
    ),
    Part(
        "data_builds",
        ("--records", "5000", "--stages", "build", "merge"),
        {"stages.*.build.records_per_cpu_second": "higher"},
    ),
    Part("growth", ("--point-seconds", "2"), {"curves.*.exponent": "lower"}, rounds=1),
)


def figures_of(part: Part, result: Mapping[str, Any]) -> dict[str, float]:
    """Return the part's figures in the JSON of one run, by path; those it lacks are left out."""
    return {
        found: value
        for path in part.figures
        for found, value in _at(result, path.split("."))
        if isinstance(value, int | float)
    }


def _at(value: Any, path: Sequence[str]) -> Iterator[tuple[str, Any]]:
    if not path:
        yield "", value
    elif isinstance(value, Mapping):
        first, rest = path[0], path[1:]
        for key in value if first == "*" else [key for key in (first,) if key in value]:
            for name, found in _at(value[key], rest):
                yield f"{key}.{name}" if name else key, found


def over_rounds(part: Part, results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return median, least and greatest of each figure over the rounds, and what is better."""
    rounds = [figures_of(part, result) for result in results]
    names = list(dict.fromkeys(name for figures in rounds for name in figures))
    found = {}
    for name in names:
        values = [figures[name] for figures in rounds if name in figures]
        ends = {"min": min(values), "max": max(values), "rounds": len(values)}
        found[name] = {"median": median(values), **ends, "better": _better(part, name)}
    return found


def _better(part: Part, name: str) -> Better:
    return next(better for path, better in part.figures.items() if _fits(path, name))


def _fits(path: str, name: str) -> bool:
    wanted, words = path.split("."), name.split(".")
    pairs = zip(wanted, words, strict=False)
    return len(wanted) == len(words) and all(w in ("*", word) for w, word in pairs)


def is_relative(name: str) -> bool:
    """Return whether a figure can be compared between machines: a ratio or an exponent."""
    return "ratio" in name or name.endswith("exponent")


def verdict(
    name: str, now: Mapping[str, Any], before: Mapping[str, Any] | None, same_machine: bool
) -> Verdict:
    """Return how a figure stands to a recorded one.

    It is better or worse where the medians differ by more than 5 % and no round of the one lies
    among those of the other; otherwise noise explains the difference.
    """
    if before is None:
        return "new"
    if not (same_machine or is_relative(name)):
        return "other machine"
    apart = now["min"] > before["max"] or now["max"] < before["min"]
    change = now["median"] - before["median"]
    if not apart or abs(change) <= LEAST_CHANGE * abs(before["median"]):
        return "same"
    return "better" if (change > 0) == (now["better"] == "higher") else "worse"
