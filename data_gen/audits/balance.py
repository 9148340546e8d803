"""What plans teach by their mere numbers: kinds of labels, and kinds by the steps before them."""

from collections import Counter, defaultdict

from data_gen.audits.findings import Finding, Severity
from data_gen.audits.table import Seen
from data_gen.audits.table4 import PAPER_LABELS
from data_gen.plan_kinds import foretold_share
from models.formats.plan import PlanAction
from models.formats.records import RasSample

# docs/results.md, Training: a planner trained where the number of steps foretold 76 % of the kinds
# counted steps; one trained where it foretold 51 % did not.
FORETOLD_SHARE = 0.7
# A kind's share that is more than twice RAS Table 4's, or less than half of it, is noted.
FAR = 2.0


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
                steps: Counter({True: kinds[PlanAction.SUFFICIENT], False: _others(kinds)})
                for steps, kinds in self.by_steps.items()
                if steps
            }
        )

    def findings(self) -> list[Finding]:
        """Kinds that are missing or far from the paper's share, and what steps alone foretell."""
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


def _others(kinds: Counter[str]) -> int:
    return kinds.total() - kinds[PlanAction.SUFFICIENT]
