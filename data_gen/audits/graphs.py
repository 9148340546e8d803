"""Sizes of the graphs that samples show, and samples that show none."""

from collections import Counter, defaultdict

from data_gen.audits.findings import Choice, Example, Finding, Reservoir, Severity, graded
from data_gen.audits.spread import Spread
from data_gen.audits.table import Seen
from data_gen.figures import graph_sizes
from models.formats.plan import PlanAction
from models.formats.records import RasSample

_KINDS = {
    "sufficient_without_triples": (
        Severity.ERROR,
        "plans [SUFFICIENT]",
        "say that what was retrieved suffices where nothing was: a planner learns to stop early",
        "check how the builder knows that a step is known (data_gen/solving_steps.py)",
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


class Graphs:
    """Graph sizes of planner and answerer samples, by task, and their empty graphs."""

    def __init__(self, choice: Choice) -> None:
        self.spreads: dict[tuple[str, str], Spread] = defaultdict(Spread)
        self._samples: Counter[str] = Counter()
        self._empty = {name: Reservoir(choice, name) for name in _KINDS}

    def see(self, seen: Seen) -> None:
        """Count one sample."""
        sample: RasSample = seen.record
        triples = [triple for step in sample.history for triple in step.triples]
        nodes, edges = graph_sizes(triples)
        sizes = {"subqueries": len(sample.history), "nodes": nodes, "edges": edges}
        for name, size in sizes.items():
            self.spreads[sample.task, name].add([size])
        if sample.history:
            name = _kind(sample)
            self._samples[name] += 1
            if not triples:
                self._empty[name].offer(Example((seen.place,)))

    def findings(self) -> list[Finding]:
        """Samples with a history but without a triple."""
        found = []
        for name, (severity, unit, what, remedy) in _KINDS.items():
            empty = self._empty[name]
            severity = graded(severity, empty.seen)
            found.append(
                Finding(
                    name, severity, empty.seen, self._samples[name], unit, what, remedy,
                    empty.examples(),
                )
            )  # fmt: skip
        return found


def _kind(sample: RasSample) -> str:
    if sample.task == "answer":
        return "answer_without_triples"
    enough = sample.label == PlanAction.SUFFICIENT
    return "sufficient_without_triples" if enough else "empty_graph"
