"""The questions of a build: each once, none of a test set, of each file at most so many."""

import argparse
from collections import Counter
from pathlib import Path

from tqdm import tqdm

from data_gen.held_out import held_out_keys, is_held_out
from data_gen.source_args import NamedPath, SkippedRecords, source_entry
from data_gen.sources.open_source import read_questions
from data_gen.splits import first_by_hash
from models.formats.records import QuestionRecord


class QuestionReader:
    """Reads sources one after the other and counts what is left out.

    options: `source`, `exclude`, `limit`, `cap`, `seed` and `skip_bad` of a builder's command line.
    """

    def __init__(self, options: argparse.Namespace, counts: Counter[str]) -> None:
        self.options = options
        self.counts = counts
        self.skipped = SkippedRecords(options.skip_bad)
        self.sources: list[dict[str, object]] = []
        self.caps = {path: int(n) for path, _, n in (cap.rpartition("=") for cap in options.cap)}
        self._taken: set[str] = set()
        self._excluded = self._test_questions()

    def read(self, source: NamedPath) -> list[QuestionRecord]:
        """The questions of one source that are new. Raises RecordError, FileNotFoundError."""
        on_error = self.skipped.handler(source.name)
        read = tqdm(read_questions(source.name, source.path, on_error), desc=source.path)
        records = [record for record in read if self._is_new(record)]
        limit = self.caps.get(source.path, self.options.limit)
        if limit is not None:
            records = first_by_hash(records, limit, self.options.seed)
        self._taken.update(record.id for record in records)
        self.sources.append(source_entry(source, len(records)))
        return records

    def _is_new(self, record: QuestionRecord) -> bool:
        if record.id in self._taken:
            self.counts["left out: same id again"] += 1
            return False
        if is_held_out(record, self._excluded):
            self.counts["left out: a test question"] += 1
            return False
        return True

    def _test_questions(self) -> set[str]:
        """Ids and wordings of test questions; a world's own test questions are among them."""
        worlds = [Path(source.path) for source in self.options.source if source.name == "world"]
        own = [folder / "questions_test.jsonl" for folder in worlds]
        return held_out_keys([*self.options.exclude, *filter(Path.is_file, own)])
