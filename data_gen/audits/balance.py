"""Lengths, kinds of labels and sizes of graphs, beside the paper's figures (RAS App. C.4)."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from data_gen.audits.findings import Choice, Example, Finding, Reservoir, Severity
from data_gen.audits.table import Seen, spread_figures
from data_gen.builds.cards import graph_sizes
from data_gen.samples.sampling import foretold_share
from data_gen.streaming.counts import CountTokens
from models.formats.planning import PlanAction
from models.formats.records import RasSample

PAPER_LABELS = {"[SUFFICIENT]": 45_722, "[SUBQ]": 71_676, "[NO_RETRIEVAL]": 12_504}
PAPER = {
    "plan": {
        "queries": "129,902",
        "input tokens (mean, median, max)": "338, 301, 1,910",
        "output tokens (mean, median, max)": "13, 12, 62",
        "subqueries (min, mean, max)": "0, 0.8, 5",
        "[SUBQ] tokens (min, mean, max)": "6, 18.3, 62",
        "nodes (mean, median, max)": "11.6, 11, 56",
        "edges (mean, median, max)": "21.2, 20, 116",
    },
    "answer": {
        "queries": "78,164",
        "input tokens (mean, median, max)": "475, 466, 2,214",
        "output tokens (mean, median, max)": "13, 4, 2,332",
        "subqueries (min, mean, max)": "0, 1.2, 6",
        "nodes (mean, median, max)": "11.7, 11, 84",
        "edges (mean, median, max)": "21.3, 20, 160",
    },
}
"""RAS Table 4, "Statistics of our constructed HotpotQA-SUBQ dataset": the planning and the
answering column. The appendix does not say whose tokens it counts."""

_FIGURES = {
    "input tokens (mean, median, max)": "prompt",
    "output tokens (mean, median, max)": "label",
    "subqueries (min, mean, max)": "subqueries",
    "[SUBQ] tokens (min, mean, max)": "subquery",
    "nodes (mean, median, max)": "nodes",
    "edges (mean, median, max)": "edges",
}
# docs/results.md, Training: a planner trained where the number of steps foretold 76 % of the kinds
# counted steps; one trained where it foretold 51 % did not.
FORETOLD_SHARE = 0.7
# A kind's share that is more than twice RAS Table 4's, or less than half of it, is noted.
FAR = 2.0
BATCH = 512
_EFFECTS = {
    "prompt": (
        Severity.WARNING,
        "a training cuts it",
        "raise model.max_input_tokens, or build with fewer triples (--max-triples, --max-words)",
    ),
    "label": (
        Severity.ERROR,
        "a training refuses it",
        "raise model.max_output_tokens, or leave such samples out (data.skip_cut_labels=true)",
    ),
}
_KINDS = {
    "sufficient_without_triples": (
        Severity.ERROR,
        "plans [SUFFICIENT]",
        "say that what was retrieved suffices where nothing was: a planner learns to stop early",
        "check how the builder knows that a step is known (data_gen/facts/solving_steps.py)",
    ),
    "answer_without_triples": (
        Severity.WARNING,
        "answers after a retrieval",
        "are given over an empty graph: an answerer learns to guess",
        "retrieve more (--top-k, --gold-rate), extract more triples, or leave them out",
    ),
    "empty_graph": (
        Severity.NOTE,
        "plans that ask on after a retrieval",
        "follow a history without any triple",
        "nothing, while they are few: a planner has to ask on after a miss",
    ),
}


def beside_paper(
    figures: Mapping[tuple[str, str], Mapping[str, float]], labels: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return rows of Table 4: what, the paper's figure and this set's, for plans and for answers.

    figures: distributions by task and name, as `spread_figures` gives them. labels: plans by kind.
    """
    rows = []
    for task, paper in PAPER.items():
        for what, published in paper.items():
            here = _here(task, what, figures)
            rows.append({"task": task, "what": what, "paper": published, "here": here})
    shares = (_shares(PAPER_LABELS), _shares({kind: labels.get(kind, 0) for kind in PAPER_LABELS}))
    rows += [
        {"task": "plan", "what": kind, "paper": shares[0][kind], "here": shares[1][kind]}
        for kind in PAPER_LABELS
    ]
    return rows


def _here(task: str, what: str, figures: Mapping[tuple[str, str], Mapping[str, float]]) -> str:
    found = figures.get((task, _FIGURES.get(what, "prompt")), {})
    if what == "queries":
        return f"{found.get('count', 0):,}"
    names = what[what.index("(") + 1 : -1].split(", ")
    return ", ".join(f"{found[name]:,g}" for name in names) if found else "–"


def _shares(labels: Mapping[str, int]) -> dict[str, str]:
    total = sum(labels.values()) or 1
    return {kind: f"{count:,} ({count / total:.0%})" for kind, count in labels.items()}


class Balance:
    """Counts plans by kind and number of steps before them."""

    def __init__(self) -> None:
        self.by_steps: dict[int, Counter[str]] = defaultdict(Counter)

    def see(self, seen: Seen) -> None:
        """Count one sample."""
        sample: RasSample = seen.record
        if sample.task == "plan":
            self.by_steps[len(sample.history)][sample.label.split(" ", 1)[0]] += 1

    @property
    def labels(self) -> Counter[str]:
        """Plans by kind."""
        return sum(self.by_steps.values(), Counter())

    def foretold(self) -> float:
        """Share of plans with a history whose kind the number of steps foretells."""
        return foretold_share(
            {
                steps: Counter(
                    {True: (enough := kinds[PlanAction.SUFFICIENT]), False: kinds.total() - enough}
                )
                for steps, kinds in self.by_steps.items()
                if steps
            }
        )

    def findings(self) -> list[Finding]:
        """Return the kinds missing or far from the paper's share, and what steps alone foretell."""
        if not self.labels:
            return []
        return [self._missing(), self._far(), self._foretold(), self._first_plans()]

    def _missing(self) -> Finding:
        missing = [str(kind) for kind in PlanAction if not self.labels[kind]]
        return Finding(
            "missing_kind", Severity.WARNING if missing else Severity.OK, len(missing),
            len(PlanAction), "kinds of plans",
            f"never occur: {', '.join(missing) or 'none'}; a planner will not learn them",
            "add questions of that kind (--no-retrieval) or a builder's fraction of them",
        )  # fmt: skip

    def _far(self) -> Finding:
        total, paper = self.labels.total(), sum(PAPER_LABELS.values())
        ratios = {
            kind: self.labels[kind] / total * paper / count for kind, count in PAPER_LABELS.items()
        }
        far = [kind for kind, ratio in ratios.items() if not 1 / FAR <= ratio <= FAR]
        return Finding(
            "far_from_paper", Severity.NOTE if far else Severity.OK, len(far), len(ratios),
            "kinds of plans",
            f"have a share of less than half or more than twice RAS Table 4's: "
            f"{', '.join(far) or 'none'}",
            "nothing, if meant; --first-plan-fraction and --no-retrieval change it",
        )  # fmt: skip

    def _foretold(self) -> Finding:
        plans = sum(kinds.total() for steps, kinds in self.by_steps.items() if steps)
        share = self.foretold()
        return Finding(
            "steps_foretell_label", Severity.WARNING if share > FORETOLD_SHARE else Severity.OK,
            round(share * plans), plans, "plans with a history",
            "have the kind that most plans after as many steps have: above 70 % a planner may "
            "learn to count steps",
            "build with --balance-plans",
        )  # fmt: skip

    def _first_plans(self) -> Finding:
        first = self.by_steps.get(0, Counter())
        nothing, total = first[PlanAction.NO_RETRIEVAL], first.total()
        only_kind = nothing == total
        return Finding(
            "first_plans_ask_nothing",
            Severity.WARNING if not only_kind and nothing > total / 2 else Severity.OK,
            nothing, total, "plans without a history",
            "are [NO_RETRIEVAL]: above one half a planner learns never to retrieve",
            "raise --first-plan-fraction or cap --no-retrieval",
        )  # fmt: skip


class Graphs:
    """Graph sizes of planner and answerer samples, by task, and their empty graphs."""

    def __init__(self, choice: Choice) -> None:
        self.spreads: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
        self._samples: Counter[str] = Counter()
        self._empty = {name: Reservoir(choice, name) for name in _KINDS}

    def see(self, seen: Seen) -> None:
        """Count one sample."""
        sample: RasSample = seen.record
        triples = [triple for step in sample.history for triple in step.triples]
        nodes, edges = graph_sizes(triples)
        sizes = {"subqueries": len(sample.history), "nodes": nodes, "edges": edges}
        for name, size in sizes.items():
            self.spreads[sample.task, name][size] += 1
        if sample.history:
            name = _kind(sample)
            self._samples[name] += 1
            if not triples:
                self._empty[name].offer(Example((seen.place,)))

    def findings(self) -> list[Finding]:
        """Return the samples with a history but without a triple."""
        return [
            self._empty[name].finding(severity, self._samples[name], unit, what, remedy)
            for name, (severity, unit, what, remedy) in _KINDS.items()
        ]


def _kind(sample: RasSample) -> str:
    if sample.task == "answer":
        return "answer_without_triples"
    enough = sample.label == PlanAction.SUFFICIENT
    return "sufficient_without_triples" if enough else "empty_graph"


class Lengths:
    """Counts tokens of prompts and labels, in batches.

    max_tokens, max_label_tokens: a recipe's `max_input_tokens` and `max_output_tokens`; None for no
    limit. What a processor adds (BOS, the graph token, EOS, derived comparisons) is not counted.
    """

    def __init__(
        self,
        count_tokens: CountTokens,
        max_tokens: int | None,
        max_label_tokens: int | None,
        choice: Choice,
    ) -> None:
        self._count_tokens = count_tokens
        self._limits = {"prompt": max_tokens, "label": max_label_tokens}
        self.spreads: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
        self._long = {part: Reservoir(choice, f"long_{part}") for part in self._limits}
        self._waiting: list[Seen] = []
        self._samples = 0

    def see(self, seen: Seen) -> None:
        """Take in one sample."""
        # Only what is counted is kept: a batch of graphs would weigh more than its texts.
        self._waiting.append(seen)
        self._samples += 1
        if len(self._waiting) >= BATCH:
            self._flush()

    def _flush(self) -> None:
        batch, self._waiting = self._waiting, []
        for part in self._limits:
            counts = self._count_tokens([getattr(seen, part) for seen in batch])
            for seen, tokens in zip(batch, counts, strict=True):
                self._add(part, seen, tokens)

    def _add(self, part: str, seen: Seen, tokens: int) -> None:
        task = seen.record.task if isinstance(seen.record, RasSample) else "all"
        self.spreads[task, part][tokens] += 1
        if part == "label" and task == "plan" and seen.label.startswith("[SUBQ]"):
            self.spreads[task, "subquery"][tokens] += 1
        limit = self._limits[part]
        if limit is not None and tokens > limit:
            self._long[part].offer(Example((seen.place,), f"{tokens} tokens"))

    def figures(self) -> dict[str, dict[str, float]]:
        """Return the distributions, by task and part."""
        self._flush()
        spreads = sorted(self.spreads.items())
        return {f"{task} {part}": spread_figures(counts) for (task, part), counts in spreads}

    def findings(self) -> list[Finding]:
        """Return what does not fit; nothing without limits."""
        self._flush()
        return [self._finding(part) for part, limit in self._limits.items() if limit is not None]

    def _finding(self, part: str) -> Finding:
        severity, effect, remedy = _EFFECTS[part]
        what = f"have a {part} of more than {self._limits[part]} tokens: {effect}"
        return self._long[part].finding(severity, self._samples, "samples", what, remedy)
