"""What the first half of a build counted on its way, of a whole build or of a shard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from data_gen.source_args import SkippedRecords
from data_gen.streaming.placed_counts import PlacedCounts
from data_gen.weak_measure import Agreement, added_up

Sources = list[dict[str, object]]


@dataclass
class Found:
    """Counts of own records, broken records and sources of all, agreement of labelling functions.

    Every shard reads all sources: `skipped`, `skipped_examples` and `sources` are the same in each.
    `counts` and `agreement` are of its own records and add up to those of the whole.
    """

    counts: PlacedCounts
    skipped: Mapping[str, int]
    skipped_examples: list[str]
    sources: Sources
    agreement: list[Agreement] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        counts: PlacedCounts,
        skipped: SkippedRecords,
        sources: Sources,
        agreement: Sequence[Agreement] = (),
    ) -> Self:
        """What a build has found so far."""
        return cls(counts, dict(skipped.counts), skipped.examples, sources, list(agreement))

    def to_json(self) -> dict[str, Any]:
        """The JSON object that a shard's card keeps."""
        return {
            "counts": self.counts.to_json(),
            "skipped_records": dict(self.skipped),
            "skipped_examples": self.skipped_examples,
            "sources": self.sources,
            "labelling_functions": [list(vars(row).values()) for row in self.agreement],
        }

    @classmethod
    def put_together(cls, parts: Sequence[Mapping[str, Any]]) -> Self:
        """The whole, of the objects that `to_json` gave of all shards."""
        counts = PlacedCounts()
        for part in parts:
            counts.take(part["counts"])
        first = parts[0]
        rows = [[Agreement(*row) for row in part["labelling_functions"]] for part in parts]
        return cls(
            counts,
            first["skipped_records"],
            first["skipped_examples"],
            first["sources"],
            added_up(rows),
        )
