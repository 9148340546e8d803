"""Passages of questions and corpora: a question's own ones, their keys, what is asked of them."""

import hashlib
from dataclasses import dataclass
from typing import Any, Self

from models.formats.fields import FieldReader, read_triple
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord, QuestionRecord
from models.formats.triples import Triple

# Between the headings that a passage of a document stands under, in its title.
HEADING_BORDER = " › "


def last_heading(title: str) -> str:
    """Return the heading that a passage stands directly under; any other title as it is."""
    return title.rsplit(HEADING_BORDER, 1)[-1].strip()


def context_passages(record: QuestionRecord) -> list[PassageRecord]:
    """Return the record's own paragraphs as passages, sentences joined by single spaces."""
    return [
        PassageRecord(f"{record.id}/{index}", title, " ".join(s.strip() for s in sentences))
        for index, (title, sentences) in enumerate(record.context)
    ]


def passage_key(passage: PassageRecord) -> str:
    """Return the sha256 of the text that the triples model reads, whatever the passage's id is."""
    return hashlib.sha256(passage_text(passage.title, passage.text).encode()).hexdigest()


@dataclass(frozen=True)
class AskedPassage:
    """A passage that a subquery found, and the triples that a reader took from it.

    triples: none before it was read, and where the passage does not tell. whole: the subquery is
    the question itself, which may take several steps.
    """

    subquery: str
    passage: PassageRecord
    triples: tuple[Triple, ...] = ()
    whole: bool = False

    @property
    def key(self) -> str:
        """Return what tells it from others: the subquery and the passage's text."""
        return f"{self.subquery.strip()}\n{passage_key(self.passage)}"

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one object. Raises RecordError."""
        reader = FieldReader(record, where)
        passage = PassageRecord.from_json(record, where)
        triples = reader.items("triples", read_triple, "[subject, predicate, object]")
        return cls(reader.text("subquery"), passage, tuple(triples), bool(record.get("whole")))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that `from_json` reads."""
        triples = [[t.subject, t.predicate, t.object] for t in self.triples]
        whole = {"whole": True} if self.whole else {}
        return {"subquery": self.subquery, **whole, **self.passage.to_json(), "triples": triples}
