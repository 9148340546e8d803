"""A passage on its way from a source to the files, and what the first half of a build counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from data_gen.labelling.labels import Agreement, added_up
from data_gen.sources.arguments import SkippedRecords
from data_gen.streaming.counts import Place, PlacedCounts
from models.formats.conditions import ConditionTriplet
from models.formats.records import TriplesSample

Sources = list[dict[str, object]]
# Where what follows the sources stands in a build, and the sources that give sentences.
AFTER_SOURCES = 1_000_000
SENTENCES = 2_000_000


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
        """Return what a build has found so far."""
        return cls(counts, dict(skipped.counts), skipped.examples, sources, list(agreement))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that a shard's card keeps."""
        return {
            "counts": self.counts.to_json(),
            "skipped_records": dict(self.skipped),
            "skipped_examples": self.skipped_examples,
            "sources": self.sources,
            "labelling_functions": [list(vars(row).values()) for row in self.agreement],
        }

    def skipped_part(self) -> dict[str, Any]:
        """Return what a card says of broken records."""
        return {"skipped_records": dict(self.skipped), "skipped_examples": self.skipped_examples}

    @classmethod
    def put_together(cls, parts: Sequence[Mapping[str, Any]]) -> Self:
        """Return the whole, of the objects that `to_json` gave of all shards."""
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


@dataclass(frozen=True)
class PassageItem:
    """One candidate of a build of triples or of condition triplets.

    place: (source, 0, number) in the order of the build; (source, 1, hash, number) for a passage
        with weak labels alone, of which only the first ones by hash are taken; (SENTENCES + source,
        number) for one that gives sentences.
    gap: whether it seems to tell a relation that no label holds.
    triplets, left_out: the condition triplets, where they have been made, and how many more there
        would have been than a passage may give.
    """

    place: Place
    sample: TriplesSample
    gap: bool = False
    triplets: tuple[ConditionTriplet, ...] | None = None
    left_out: int = 0

    @property
    def id(self) -> str:
        """The id by which it is dealt to a shard."""
        return self.sample.id

    @property
    def weak(self) -> bool:
        """Return whether it has weak labels alone."""
        return self.place[0] < SENTENCES and self.place[1] == 1

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that a shard keeps."""
        record = {"place": list(self.place), **self.sample.to_json(), "gap": self.gap}
        if self.triplets is not None:
            rows = [list(vars(triplet).values()) for triplet in self.triplets]
            record |= {"triplets": rows, "left_out": self.left_out}
        return record

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read the object of `to_json`."""
        rows = record.get("triplets")
        triplets = None if rows is None else tuple(ConditionTriplet(*row) for row in rows)
        sample = TriplesSample.from_json(record, where)
        left_out = record.get("left_out", 0)
        return cls(tuple(record["place"]), sample, record["gap"], triplets, left_out)
