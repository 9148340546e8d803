"""Which documents builders of an index read and evaluations search, the same in every command."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from inference.command_line import positive_int
from inference.retrieval.passages import Passage, load_corpus
from inference.retrieval.question_contexts import documents_of_questions


def add_corpus_arguments(parser: ArgumentParser, required: bool = True) -> None:
    """`--corpus` and what narrows it down; `documents_from` reads them.

    required: False where a command has something to do without new documents.
    """
    add = parser.add_argument
    without = "" if required else "; none: only delete or count"
    add("--corpus", required=required, type=Path, help="JSON Lines of {id, title, text}" + without)
    add("--limit", type=positive_int, help="only the first so many documents")
    add("--questions", type=Path, help="only documents in the contexts of these questions")
    add("--question-limit", type=positive_int, help="of the first so many of them")


def add_searched_corpus(parser: ArgumentParser) -> None:
    """`--corpus` and `--question-documents` of an evaluation's command."""
    add = parser.add_argument
    add("--corpus", type=Path, help="JSON Lines of {id, title, text}, for loops that search")
    add(
        "--question-documents",
        action="store_true",
        help="search only the documents in the contexts of the data set's questions",
    )


def documents_from(arguments: Namespace) -> list[Passage]:
    """The documents that a parsed command line names; none without `--corpus`.

    Raises OSError, RecordError, EmptyCorpusError.
    """
    if arguments.corpus is None:
        return []
    corpus = load_corpus(arguments.corpus)
    if arguments.questions:
        corpus = documents_of_questions(corpus, arguments.questions, arguments.question_limit)
    return corpus[: arguments.limit]
