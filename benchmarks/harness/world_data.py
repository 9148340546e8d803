"""Questions and corpus of a loop's benchmark: files that were named, or a fictional world's."""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from common.errors import UserError
from data_gen.build_world import build_world
from inference.retrieval.passages import Passage, load_corpus
from models.formats.records import QuestionRecord, read_records


class TooFewQuestionsError(UserError, ValueError):
    """A data set with fewer questions than a benchmark needs; the message names it."""


def add_data_arguments(parser: argparse.ArgumentParser, questions: int) -> None:
    """Add the options of the questions; `questions` is the default of how many are timed."""
    add = parser.add_argument
    add("--dataset", type=Path, help="questions, JSON Lines (default: a world's)")
    add("--corpus", type=Path, help="passages, JSON Lines; with --dataset")
    add("--questions", type=int, default=questions, help=f"questions timed (default: {questions})")
    add("--entities", type=int, help="of the world (default: build_world's)")
    add("--seed", type=int, default=0, help="of the world (default: 0)")


def check_data_arguments(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End the command where one of the two files is named without the other."""
    if (arguments.dataset is None) != (arguments.corpus is None):
        parser.error("--dataset and --corpus go together")


def read_data(arguments: argparse.Namespace) -> tuple[list[QuestionRecord], list[Passage]]:
    """Return the questions, the first of which is to warm up on, and the corpus.

    Raises:
        TooFewQuestionsError: fewer than two questions.
        What reading the files raises.
    """
    with _files(arguments) as (dataset, corpus_file):
        records = list(islice(read_records(dataset, QuestionRecord), arguments.questions + 1))
        corpus = load_corpus(corpus_file)
    if len(records) < 2:
        raise TooFewQuestionsError(
            f"{dataset}: at least two questions are needed, one of them to warm up"
        )
    return records, corpus


@contextmanager
def _files(arguments: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    if arguments.dataset:
        yield arguments.dataset, arguments.corpus
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "world"
        # One question more than is measured, to warm up on.
        build_world(
            arguments.questions + 1,
            arguments.seed,
            folder,
            arguments.entities,
            fractions=(0.0, 0.0, 1.0),
            progress=False,
        )
        yield folder / "questions_test.jsonl", folder / "corpus.jsonl"
