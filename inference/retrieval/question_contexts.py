"""The part of a corpus that questions come with."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from inference.retrieval.passages import EmptyCorpusError, Passage
from models.formats.records import QuestionRecord, read_records


def documents_of_questions(
    corpus: Iterable[Passage], path: Path, limit: int | None = None
) -> list[Passage]:
    """The passages that stand in the contexts of the first `limit` questions, spacing aside.

    Raises:
        EmptyCorpusError: none does.
        RecordError: a question that cannot be read, with file, line and field.
    """
    wanted = {
        _letters(title, *sentences)
        for record in islice(read_records(path, QuestionRecord), limit)
        for title, sentences in record.context
    }
    documents = [passage for passage in corpus if _letters(passage.title, passage.text) in wanted]
    if not documents:
        raise EmptyCorpusError(
            f"no passage of the corpus stands in a context of {path}: name its questions' corpus"
        )
    return documents


def _letters(*texts: str) -> str:
    return "".join("".join(texts).split())
