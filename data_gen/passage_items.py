"""A passage or text with what is stated in it, on its way from a source to the files."""

from dataclasses import dataclass
from typing import Any, Self

from data_gen.streaming.placed_counts import Place
from models.formats.conditions import ConditionTriplet
from models.formats.records import TriplesSample

# Where what follows the sources stands in a build, and the sources that give sentences.
AFTER_SOURCES = 1_000_000
SENTENCES = 2_000_000


@dataclass(frozen=True)
class PassageItem:
    """One candidate of a build of triples or of condition triplets.

    place: (source, 0, number) in the order of the build; (source, 1, hash, number) for a passage
        with weak labels alone, of which only the first ones by hash are taken; (SENTENCES + source,
        number) for one that gives sentences.
    gap: whether it seems to tell a relation that no label holds.
    triplets, left_out: the condition triplets, where they have been made, and how many more there
        would have been than a passage may give.
    table: the text that the passage is rewritten as, where it is.
    """

    place: Place
    sample: TriplesSample
    gap: bool = False
    triplets: tuple[ConditionTriplet, ...] | None = None
    left_out: int = 0
    table: str = ""

    @property
    def id(self) -> str:
        """The id by which it is dealt to a shard."""
        return self.sample.id

    @property
    def weak(self) -> bool:
        """Whether it has weak labels alone."""
        return self.place[0] < SENTENCES and self.place[1] == 1

    def to_json(self) -> dict[str, Any]:
        """The JSON object that a shard keeps."""
        record = {"place": list(self.place), **self.sample.to_json(), "gap": self.gap}
        if self.triplets is not None:
            rows = [list(vars(triplet).values()) for triplet in self.triplets]
            record |= {"triplets": rows, "left_out": self.left_out, "table": self.table}
        return record

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read the object of `to_json`."""
        rows = record.get("triplets")
        triplets = None if rows is None else tuple(ConditionTriplet(*row) for row in rows)
        sample = TriplesSample.from_json(record, where)
        left_out, table = record.get("left_out", 0), record.get("table", "")
        return cls(tuple(record["place"]), sample, record["gap"], triplets, left_out, table)
