"""Files of questions that an audit is told of: test questions, and sources with their answers."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from data_gen.audits.findings import Finding, Severity, graded
from data_gen.source_args import NamedPath
from data_gen.sources.open_source import read_questions
from models.formats.fields import RecordError
from models.formats.records import QuestionRecord


class QuestionFiles:
    """Reads questions in the contract's form; counts those that break it, and goes on."""

    def __init__(self) -> None:
        self.read = 0
        self.broken: list[str] = []

    def questions(self, files: Sequence[Path | NamedPath]) -> Iterator[QuestionRecord]:
        """The whole questions of the files. Raises FileNotFoundError."""
        for file in files:
            named = file if isinstance(file, NamedPath) else NamedPath("contract", str(file))
            for record in read_questions(named.name, named.path, self._skip):
                self.read += 1
                yield record

    def _skip(self, error: RecordError) -> None:
        self.broken.append(str(error))

    def findings(self) -> list[Finding]:
        """Questions that could not be read, and so were compared with nothing; none without any."""
        if not self.read and not self.broken:
            return []
        count = len(self.broken)
        first = f", the first is {self.broken[0]}" if count else ""
        return [
            Finding(
                "unread_question",
                graded(Severity.WARNING, count),
                count,
                self.read + count,
                "questions of --exclude and --questions",
                f"break their contract and were compared with nothing{first}",
                "correct them, so that a leak of theirs can be found",
            )
        ]
