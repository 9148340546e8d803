"""What an extractor wrote about each document, appended as it comes: a build that stops goes on."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from inference.retrieval.passages import Passage
from models.append_log import AppendLog
from models.formats.fields import FieldReader

LOG_FILE = "outputs.jsonl"


class DuplicateDocumentError(ValueError):
    """Two different documents under one id; the message names it."""


@dataclass(frozen=True)
class Output:
    """One document and the extractor's output; `was_cut` at the token limit."""

    id: str
    title: str
    text: str
    output: str
    was_cut: bool

    def says_the_same(self, passage: Passage) -> bool:
        """Whether a passage is the document that this was written about."""
        return (self.title, self.text) == (passage.title, passage.text)


class OutputLog:
    """An append-only JSON Lines file of outputs, by document id."""

    def __init__(self, path: Path) -> None:
        """Open or create it; a last line that was cut short by a kill is dropped."""
        self._log = AppendLog(path, "Remove the line; its document is then extracted again")
        found = (_output(where, record) for where, record in self._log.read())
        self.outputs = {output.id: output for output in found}

    def append(self, outputs: Iterable[Output]) -> None:
        """Write outputs through to the disk."""
        new = list(outputs)
        self._log.append(asdict(output) for output in new)
        self.outputs.update((output.id, output) for output in new)

    def missing(self, passages: Iterable[Passage]) -> tuple[list[Passage], int]:
        """Documents that no output is known of, each id once, and how many were known already.

        Raises:
            DuplicateDocumentError: an id that stands for two different documents.
        """
        new: dict[str, Passage] = {}
        known = 0
        for passage in passages:
            logged, given = self.outputs.get(passage.id), new.get(passage.id)
            same = logged.says_the_same(passage) if logged else given in (None, passage)
            if not same:
                raise DuplicateDocumentError(
                    f"document '{passage.id}' is there already with another title or text. Give "
                    "it an id of its own, or build a new knowledge base"
                )
            if logged or given:
                known += 1
            else:
                new[passage.id] = passage
        return list(new.values()), known


def _output(where: str, record: Mapping[str, Any]) -> Output:
    reader = FieldReader(record, where)
    return Output(
        reader.text("id"),
        reader.text("title", ""),
        reader.text("text"),
        reader.text("output", ""),
        bool(record.get("was_cut")),
    )
