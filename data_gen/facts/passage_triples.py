"""The triples of a passage: what a text-to-triples model read, or annotation plus weak labels."""

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from data_gen.facts.solving_steps import SolvingStep
from data_gen.labelling.labels import weak_triples
from data_gen.streaming.files import ExternalSort
from data_gen.streaming.groups import DiskGroups
from models.formats.fields import FieldReader, read_triple
from models.formats.passages import passage_key
from models.formats.records import PassageRecord, Record, read_records
from models.formats.triples import Triple

MAX_TARGET_TRIPLES = 12
WAYS = ("extracted", "annotated and weak")
# Passages whose triples are held in memory; a corpus' common ones are looked up again and again.
_MOST_KNOWN = 20_000


def canonical_triples(
    text: str, triples: Iterable[Triple], limit: int = MAX_TARGET_TRIPLES
) -> list[Triple]:
    """Return distinct triples by the first appearance of their object in `text`, at most `limit`.

    Objects that the text does not hold come last, in the order given.
    """
    distinct = list(dict.fromkeys(triples))
    places = [text.find(triple.object) for triple in distinct]
    order = sorted(range(len(distinct)), key=lambda i: (places[i] < 0, max(places[i], 0), i))
    return [distinct[i] for i in order[:limit]]


def complete_with_weak(title: str, text: str, annotated: Sequence[Triple]) -> list[Triple]:
    """Return a passage's annotated triples plus weak labels for relations that they leave out.

    Without a title there are none: they say of whom a weak label tells.
    """
    relations = {triple.predicate for triple in annotated}
    weak = weak_triples(title, text) if title.strip() else ()
    added = [t for t in weak if t.predicate not in relations]
    return canonical_triples(text, [*annotated, *added])


class PassageTriples:
    """Looks up the triples of a passage, and notes which passages each way answered.

    What was read or annotated is kept on disk, in `folder` or a temporary one, so that memory does
    not grow with the passages. A passage keeps the triples of its first look-up: what is annotated
    later does not change them. `stage` says where the build is when it looks up.
    """

    def __init__(self, extracted: str | Path | None = None, folder: Path | None = None) -> None:
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory()
            folder = Path(self._temporary.name)
        self._extracted = DiskGroups(folder)
        self._annotated = DiskGroups(folder)
        self._found = DiskGroups(folder)
        self._looked_up = ExternalSort(folder)
        self._known: dict[str, list[Triple]] = {}
        self.stage = 0
        for key, triples in read_extracted(extracted) if extracted is not None else ():
            self._extracted.add(key, _to_text(triples), replace=True)

    def annotate(self, steps: Iterable[SolvingStep]) -> None:
        """Take in the facts of steps as annotation of the passages that they stand in."""
        for step in steps:
            if step.passage is not None and step.fact.subject and step.fact.object:
                key = passage_key(step.passage)
                self._annotated.add(key, value=_to_text([step.fact]))

    def add_given(self, passage: PassageRecord, triples: list[Triple]) -> None:
        """Give the whole triples of a passage, as the synthetic world does."""
        self._extracted.add(passage_key(passage), _to_text(triples))

    def of(self, passage: PassageRecord, subquery: str = "") -> list[Triple]:
        """Return the triples of `passage`, the same for every subquery that finds it."""
        key = passage_key(passage)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            text = self._found.payload(key)
            found = self._look_up(key, passage) if text is None else _from_text(text)
            self._known[key] = found
        return found

    @property
    def counts(self) -> dict[str, int]:
        """Return how many different passages each way answered."""
        return count_ways(self.look_ups())

    def look_ups(self) -> Iterator[str]:
        """Return the lines `key stage way` of the passages that were looked up, sorted."""
        return iter(self._looked_up)

    def _look_up(self, key: str, passage: PassageRecord) -> list[Triple]:
        found = self._read(key, passage) if len(self._extracted) else None
        way = WAYS.index("annotated and weak" if found is None else "extracted")
        line = f"{key} {self.stage:04d} {way}"
        self._looked_up.add(line, line)
        if found is None:
            annotated = [t for text in self._annotated.values(key) for t in _from_text(text)]
            found = complete_with_weak(passage.title, passage.text, annotated)
        self._found.add(key, _to_text(found))
        return found

    def _read(self, key: str, passage: PassageRecord) -> list[Triple] | None:
        for name in look_up_names(key, passage):
            if (text := self._extracted.payload(name)) is not None:
                return _from_text(text)
        return None


def look_up_names(key: str, passage: PassageRecord) -> tuple[str, str, str]:
    """Under which names the triples of a passage may have been given, first ones first."""
    return key, passage.id, passage_key(replace(passage, title=""))


def count_ways(look_ups: Iterable[str]) -> dict[str, int]:
    """Return how many different passages each way answered, of sorted lines of `look_ups`.

    Of a passage that comes again, from another shard, the first line counts: the earliest stage.
    """
    counts = dict.fromkeys(WAYS, 0)
    before = ""
    for line in look_ups:
        key, _, way = line.split(" ")
        if key != before:
            counts[WAYS[int(way)]] += 1
        before = key
    return counts


def _to_text(triples: Iterable[Triple]) -> str:
    return json.dumps([[t.subject, t.predicate, t.object] for t in triples])


def _from_text(text: str) -> list[Triple]:
    return [Triple(*parts) for parts in json.loads(text)]


@dataclass(frozen=True)
class _Extracted(Record):
    key: str
    triples: list[Triple]

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        reader = FieldReader(record, where)
        if text := reader.text("text", ""):
            key = passage_key(PassageRecord("", reader.text("title", ""), text))
        else:
            key = reader.text("id")
        return cls(key, reader.items("triples", read_triple, "[subject, predicate, object]"))


def read_extracted(path: str | Path) -> Iterator[tuple[str, list[Triple]]]:
    """Yield passage keys with triples from JSON Lines of {title, text, triples} or {id, triples}.

    A line without a text has its passage id as key. Of several lines with one key the last counts.
    Raises RecordError.
    """
    for given in read_records(path, _Extracted):
        yield given.key, given.triples
