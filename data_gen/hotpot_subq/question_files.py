"""The questions of a stage's input files, one by one, each id once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from data_gen.held_out import HeldOutQuestions
from data_gen.source_args import NamedPath, SkippedRecords
from data_gen.sources.open_source import read_questions
from data_gen.streaming.disk_groups import DiskGroups
from models.formats.records import QuestionRecord

SAME_ID = "same id again"
BROKEN = "broken records"


@dataclass
class QuestionFiles:
    """Reads the files anew each time it is gone through, so that they need no memory.

    limit: only the first so many questions of all files together. skip_bad: broken records are
    counted instead of raised. held_out: test questions, which are left out with what shares a hop
    or a fact with one. After a pass: left_out by reason, read in all and of each file.
    """

    files: Sequence[NamedPath]
    limit: int | None = None
    skip_bad: bool = False
    held_out: HeldOutQuestions = field(default_factory=HeldOutQuestions)
    left_out: Counter[str] = field(default_factory=Counter)
    read: int = 0
    read_of: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[QuestionRecord]:
        """Questions that a stage is to decide about. Raises RecordError, FileNotFoundError."""
        self.left_out, self.read, self.read_of = Counter(), 0, Counter()
        seen = DiskGroups()
        for record in islice(self._records(), self.limit):
            self.read += 1
            if record.id in seen:
                self.left_out[SAME_ID] += 1
            elif leak := self.held_out.reason(record):
                self.left_out[leak.value] += 1
            else:
                yield record
            seen.add(record.id)

    def _records(self) -> Iterator[QuestionRecord]:
        skipped = SkippedRecords(self.skip_bad)
        for file in self.files:
            before = skipped.counts.total()
            for record in read_questions(file.name, file.path, skipped.handler(file.name)):
                self._count_broken(skipped.counts.total() - before)
                before = skipped.counts.total()
                self.read_of[file.path] += 1
                yield record
            self._count_broken(skipped.counts.total() - before)

    def _count_broken(self, broken: int) -> None:
        if broken:
            self.left_out[BROKEN] += broken
            self.read += broken
