"""The lengths of prompts and labels in tokens, and those that do not fit a backbone."""

from collections import defaultdict

from data_gen.audits.findings import Choice, Example, Finding, Reservoir, Severity, graded
from data_gen.audits.table import Seen, Spread
from data_gen.streaming.counts import CountTokens
from models.formats.records import RasSample

BATCH = 512


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
        self.spreads: dict[tuple[str, str], Spread] = defaultdict(Spread)
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
        record = seen.record
        task = record.task if isinstance(record, RasSample) else "all"
        self.spreads[task, part].add([tokens])
        if part == "label" and task == "plan" and seen.label.startswith("[SUBQ]"):
            self.spreads[task, "subquery"].add([tokens])
        limit = self._limits[part]
        if limit is not None and tokens > limit:
            self._long[part].offer(Example((seen.place,), f"{tokens} tokens"))

    def figures(self) -> dict[str, dict[str, float]]:
        """Return the distributions, by task and part."""
        self._flush()
        return {f"{task} {part}": s.figures() for (task, part), s in sorted(self.spreads.items())}

    def findings(self) -> list[Finding]:
        """Return what does not fit; nothing without limits."""
        self._flush()
        return [self._finding(part) for part, limit in self._limits.items() if limit is not None]

    def _finding(self, part: str) -> Finding:
        severity, what, remedy = _EFFECTS[part]
        found = self._long[part]
        return Finding(
            f"long_{part}", graded(severity, found.seen), found.seen, self._samples, "samples",
            f"have a {part} of more than {self._limits[part]} tokens: {what}", remedy,
            found.examples(),
        )  # fmt: skip


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
