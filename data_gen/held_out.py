"""Test questions, which no training data may hold: known by id and by wording."""

from collections.abc import Iterable
from pathlib import Path

from data_gen.sources.open_source import read_questions
from data_gen.wording import wording
from models.formats.records import QuestionRecord


def held_out_keys(paths: Iterable[str | Path]) -> set[str]:
    """Ids and wordings of files' questions in our contract; broken records are passed over."""
    keys: set[str] = set()
    for path in paths:
        for record in read_questions("contract", path, lambda error: None):
            keys |= {record.id, wording(record.question)}
    return keys


def is_held_out(record: QuestionRecord, keys: set[str]) -> bool:
    """Whether a question is among them."""
    return record.id in keys or wording(record.question) in keys
