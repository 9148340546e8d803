"""The questions of a build: each once, none of a test set, of each file at most so many."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from data_gen.held_out import HeldOutQuestions
from data_gen.source_args import NamedPath, SkippedRecords, source_entry
from data_gen.sources.open_source import read_questions
from data_gen.splits import hash_fraction
from data_gen.streaming.disk_groups import DiskGroups
from data_gen.streaming.external_sort import ExternalSort, sort_key
from data_gen.streaming.placed_counts import Place, PlacedCounts
from data_gen.streaming.spool import from_line, to_line
from models.formats.records import QuestionRecord

# The place of what is counted when a file has been read.
_AFTER_ALL = sys.maxsize


class QuestionReader:
    """Reads sources one after the other and counts what is left out.

    options: `source`, `exclude`, `limit`, `cap`, `seed` and `skip_bad` of a builder's command line.
    work: where the ids of all questions lie, and those that a limit chooses from; a temporary
    folder without it. counted: which left-out questions, by id, are counted (all).
    """

    def __init__(
        self,
        options: argparse.Namespace,
        counts: PlacedCounts,
        work: Path | None = None,
        counted: Callable[[str], bool] = lambda record_id: True,
    ) -> None:
        self.options = options
        self.counts = counts
        self.skipped = SkippedRecords(options.skip_bad)
        self.sources: list[dict[str, object]] = []
        self.caps = {path: int(n) for path, _, n in (cap.rpartition("=") for cap in options.cap)}
        self._work, self._counted = work, counted
        self._taken = DiskGroups(work)
        self._excluded = self._test_questions()

    def read(self, source: NamedPath) -> list[QuestionRecord]:
        """The questions of one source that are new. Raises RecordError, FileNotFoundError."""
        return list(self.stream(source))

    def stream(self, source: NamedPath, stage: int = 0) -> Iterator[QuestionRecord]:
        """What `read` gives, one by one; to be read to its end.

        stage: where the build is, for the order of its counts.
        """
        on_error = self.skipped.handler(source.name)
        read = tqdm(read_questions(source.name, source.path, on_error), desc=source.path)
        yield from self.new(source, read, stage)

    def new(
        self, source: NamedPath, read: Iterable[QuestionRecord], stage: int = 0
    ) -> Iterator[QuestionRecord]:
        """Those of a source's questions that are new, within its limit; to be read to its end."""
        file = len(self.sources)
        new = (r for n, r in enumerate(read) if self._is_new(r, (stage, 0, file, n)))
        limit = self.caps.get(source.path, self.options.limit)
        count = 0
        place = (stage, 0, file, _AFTER_ALL)
        for record in new if limit is None else self._first_by_hash(new, limit, place):
            self._taken.add(record.id, str(file))
            count += 1
            yield record
        self.sources.append(source_entry(source, count))

    def _first_by_hash(
        self, records: Iterable[QuestionRecord], limit: int, place: Place
    ) -> Iterator[QuestionRecord]:
        """At most `limit` records in an order by a hash of their ids; the others are counted."""
        order, beyond = ExternalSort(self._work), 0
        for number, record in enumerate(records):
            position = hash_fraction(f"cap/{record.id}", self.options.seed)
            order.add(sort_key(position, number), to_line(record))
            beyond += self._counted(record.id)
        for line in order.first(limit):
            record = from_line(line, QuestionRecord)
            beyond -= self._counted(record.id)
            yield record
        if beyond:
            self.counts.count("left out: beyond the limit", beyond, *place)

    def _is_new(self, record: QuestionRecord, place: Place) -> bool:
        reason = ""
        # An id that comes twice in one file is a matter for the check of labels.
        if self._taken.payload(record.id) not in (None, str(len(self.sources))):
            reason = "left out: same id again"
        elif leak := self._excluded.reason(record):
            reason = f"left out: {leak}"
        if reason and self._counted(record.id):
            self.counts.count(reason, 1, *place)
        return not reason

    def _test_questions(self) -> HeldOutQuestions:
        """What test questions forbid; a world's own test questions are among them."""
        worlds = [Path(source.path) for source in self.options.source if source.name == "world"]
        own = [folder / "questions_test.jsonl" for folder in worlds]
        return HeldOutQuestions.of_files([*self.options.exclude, *filter(Path.is_file, own)])
