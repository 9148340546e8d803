"""Passages of questions and corpora: a question's own ones, and the key of a passage's content."""

import hashlib

from models.formats.prompts import passage_text
from models.formats.records import PassageRecord, QuestionRecord


def context_passages(record: QuestionRecord) -> list[PassageRecord]:
    """Return the record's own paragraphs as passages, sentences joined by single spaces."""
    return [
        PassageRecord(f"{record.id}/{index}", title, " ".join(s.strip() for s in sentences))
        for index, (title, sentences) in enumerate(record.context)
    ]


def passage_key(passage: PassageRecord) -> str:
    """Return the sha256 of the text that the triples model reads, whatever the passage's id is."""
    return hashlib.sha256(passage_text(passage.title, passage.text).encode()).hexdigest()
