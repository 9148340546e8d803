"""All evaluations over one data set, and what their variants say when they are paired."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from evaluation.compare import compare_runs
from evaluation.runs import Run
from evaluation.significance import bootstrap_interval, paired_bootstrap

# Variants of a loop are recorded as LOOP__NAME.
WITHOUT = "__no_derived"
ALL_FACTS = "__all_facts"
WRITTEN = "__written"
# Loops with the planner that was trained on all facts and asked the question itself first.
EARLIER = "__earlier"
# Loops with the planner after it: it learned as many plans that end as plans that ask on.
BALANCED = "__balanced_plans"
# Loops with the planner after that, which looks again after each step.
SINGLE_PLANS = "__single_plans"
# With it, the extractive reader before the mean of two that ships.
TWO_STAGES = SINGLE_PLANS + "__two_stage_reader"
QUESTION_FIRST = "__question_first"
# Loops with planners that learned to name several steps at once.
AHEAD = "__plans_ahead"
# The last of them, whose prompts begin with the paper's instructions.
INSTRUCTED = AHEAD + "_with_instructions"
BASELINE, PLANNED = "ras_no_planning", "ras"
# Of fewer questions of a type nothing can be told.
LEAST_QUESTIONS = 10
TITLES = {
    "2wikimultihopqa": "2WikiMultihopQA",
    "hotpotqa": "HotpotQA",
    "musique": "MuSiQue",
    "own_words": "Own documents",
}
ALL_TYPES = "all"
# Where questions end whose facts are not annotated.
UNTOLD = ("correct", "answer")


@dataclass(frozen=True)
class QuestionSet:
    """All evaluations over one data set; `runs` by loop, variants under their own names."""

    name: str
    runs: Mapping[str, Run] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The data set's name in print."""
        return TITLES.get(self.name, self.name)

    @property
    def loops(self) -> list[str]:
        """Loops without the variants that they are set beside."""
        return [name for name in self.runs if "__" not in name]

    @cached_property
    def compared(self) -> dict[str, Any]:
        """`compare_runs` of the loops as they ship, against retrieving once where that is there."""
        base = BASELINE if BASELINE in self.loops else None
        return compare_runs([self.runs[loop] for loop in self.loops], base)

    @property
    def best(self) -> dict[str, Any]:
        """The loop with the highest F1."""
        return dict(max(self.compared["runs"], key=lambda run: float(run["f1"]["mean"])))

    def figures(self, loop: str) -> dict[str, Any]:
        """Return a loop's figures in `compared`."""
        return next(run for run in self.compared["runs"] if run["label"] == loop)

    @cached_property
    def types(self) -> dict[str, int]:
        """Questions by type, the most first."""
        scores = next(iter(self.runs.values())).scores.values()
        names = [score.type for score in scores if score.type]
        return dict(sorted(((n, names.count(n)) for n in set(names)), key=lambda p: (-p[1], p[0])))

    def f1_by_type(self, loop: str) -> dict[str, dict[str, float]]:
        """Return F1 of each type with its interval."""
        return {name: asdict(bootstrap_interval(self._f1(loop, name))) for name in self.types}

    def _f1(self, loop: str, kind: str) -> list[float]:
        scores = self.runs[loop].scores
        order = next(iter(self.runs.values())).scores
        return [scores[id_].f1 for id_, s in order.items() if kind in (ALL_TYPES, s.type)]

    @property
    def ruled(self) -> list[str]:
        """Loops whose reader was given derived comparisons; `none` has no facts to derive from."""
        told = {name: self.runs[name].results.get("derive_comparisons") for name in self.loops}
        return [name for name, given in told.items() if given and name != "none"]

    def worst_stage(self, loop: str) -> str:
        """Return the stage that lost most questions."""
        lost = {stage: n for stage, n in self.stages[loop].items() if stage != "correct"}
        return max(lost, key=lambda stage: lost[stage])

    @property
    def tells_stages(self) -> bool:
        """Return whether the questions' annotation tells at which stage a fact was lost."""
        counts = [count for ends in self.stages.values() for count in ends.items()]
        return any(count for stage, count in counts if stage not in UNTOLD)

    @property
    def stages(self) -> dict[str, Mapping[str, int]]:
        """Return how many questions of each loop ended at each stage."""
        return {name: self.runs[name].results["stages"] for name in self.loops}

    @cached_property
    def ablated(self) -> list[dict[str, Any]]:
        """F1 with and without derived comparisons, paired, over all questions and by type.

        Of the variants too, as far as both are recorded.
        """
        pairs = [(name + WITHOUT, name) for name in self.runs if name + WITHOUT in self.runs]
        return [row for pair in pairs for row in self._paired(*pair)]

    @cached_property
    def focused(self) -> list[dict[str, Any]]:
        """F1 with all facts of each passage and with focused extraction, as `ablated`."""
        return self._against(ALL_FACTS, EARLIER)

    @cached_property
    def pointed(self) -> list[dict[str, Any]]:
        """F1 with the reader that writes alone and with the extractive one, as `ablated`."""
        return self._against(WRITTEN, EARLIER)

    @cached_property
    def replanned(self) -> list[dict[str, Any]]:
        """F1 with the planner trained on all facts and on what the reader finds, as `ablated`."""
        return self._against(EARLIER, BALANCED)

    @cached_property
    def unbalanced(self) -> list[dict[str, Any]]:
        """F1 with the planner of balanced plans and with the one after it, as `ablated`."""
        return self._against(BALANCED, TWO_STAGES)

    @cached_property
    def reread(self) -> list[dict[str, Any]]:
        """F1 with the extractive reader before and with the one that ships, as `ablated`."""
        return self._against(TWO_STAGES, SINGLE_PLANS)

    @cached_property
    def planned_first(self) -> list[dict[str, Any]]:
        """F1 where the question itself is asked first and where the planner says, as `ablated`."""
        return self._against(BALANCED + QUESTION_FIRST, BALANCED)

    @cached_property
    def ahead(self) -> list[dict[str, Any]]:
        """F1 of `ras` with single plans, `lacking`, and with those of several steps.

        The planner that ships comes last, after those that were tried.
        """
        before = PLANNED + AHEAD
        tried = [n for n in self.runs if n.startswith(before) and not n.endswith(WITHOUT)]
        return self._overall((PLANNED + SINGLE_PLANS, name) for name in (*tried, PLANNED))

    @cached_property
    def uninstructed(self) -> list[dict[str, Any]]:
        """F1 with the paper's instructions in prompts, `lacking`, and without, as `ahead`."""
        return self._overall([(PLANNED + INSTRUCTED, PLANNED)])

    @cached_property
    def variants(self) -> list[dict[str, Any]]:
        """F1 of each variant and of what it varies, over all questions, as `ablated`.

        LOOP__NAME varies the loop as it ships, LOOP__paper__NAME the loop under that preset.
        """
        rows = []
        for name in self.runs:
            varied, _, variant = name.rpartition("__")
            if varied in self.runs:
                rows.append({**next(self._paired(name, varied)), "variant": variant})
        return rows

    def calls(self, name: str) -> float | None:
        """Return a run's mean calls a question; None where its predictions tell of none."""
        return _mean(score.llm_calls for score in self.runs[name].scores.values())

    def tokens(self, name: str) -> float | None:
        """Return a run's mean weighted tokens a question, as `calls`."""
        return _mean(score.weighted_tokens for score in self.runs[name].scores.values())

    def _against(self, lacking: str, having: str = "") -> list[dict[str, Any]]:
        """Compare two variants of each loop, as far as both are recorded."""
        return [
            {**row, "loop": loop}
            for loop in self.loops
            if {loop + lacking, loop + having} <= self.runs.keys()
            for row in self._paired(loop + lacking, loop + having)
        ]

    def _overall(self, pairs: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
        """Compare pairs of runs over all questions, as far as both are recorded."""
        return [next(self._paired(*pair)) for pair in pairs if set(pair) <= self.runs.keys()]

    def _paired(self, lacking: str, having: str) -> Iterator[dict[str, Any]]:
        """Yield a row for all questions and for each type: two runs and what one gains.

        Types of fewer than `LEAST_QUESTIONS` have none.
        """
        told = [kind for kind, count in self.types.items() if count >= LEAST_QUESTIONS]
        for kind in (ALL_TYPES, *told):
            lack, have = self._f1(lacking, kind), self._f1(having, kind)
            row = {"loop": having, "lacking": lacking, "type": kind, "n": len(have)}
            row["with"], row["without"] = map(asdict, map(bootstrap_interval, (have, lack)))
            yield {**row, "gain": asdict(paired_bootstrap(lack, have))}


def _mean(counts: Iterable[int | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return sum(known) / len(known) if known else None
