"""(d) Write the kept documents as a corpus for inference/extract.py, each text once."""

import argparse

from tqdm import tqdm

from common.commands import add_output_options
from common.tables import report
from data_gen.hotpot_subq.documents import kept_documents
from data_gen.sources.arguments import NamedPath, named_path
from data_gen.sources.open_source import read_questions
from models.formats.passages import context_passages, passage_key
from models.formats.records import PassageRecord, write_records


def add_options(parser: argparse.ArgumentParser) -> None:
    """The stage's options."""
    add = parser.add_argument
    add(
        "--questions", action="append", default=[], metavar="PATH",
        help="questions.jsonl of the filter or the subqueries stage, several times",
    )  # fmt: skip
    add(
        "--source", type=named_path(("asqa", "contract")), action="append", default=[],
        metavar="NAME=PATH", help="added questions whose documents the label stage reads too",
    )  # fmt: skip
    add_output_options(parser, "JSON Lines of {id, title, text} to write")


def check_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with an error where there is nothing to read."""
    if not (options.questions or options.source):
        parser.error("give --questions, --source or both")


def run(options: argparse.Namespace) -> None:
    """Run the stage."""
    passages: dict[str, PassageRecord] = {}
    questions = 0
    for source in (*(NamedPath("contract", path) for path in options.questions), *options.source):
        read = read_questions(source.name, source.path)
        for record in tqdm(read, desc="passages", unit=" questions"):
            questions += 1
            own = context_passages(record)
            for index in kept_documents(record):
                key = passage_key(own[index])
                # The content's own key as id: the same in every run, whatever else is in it.
                passages.setdefault(key, PassageRecord(key[:16], own[index].title, own[index].text))
    write_records(options.out, passages.values())
    counts = {"questions": questions, "passages": len(passages)}
    report(f"Passages: {options.out}", list(counts), [list(counts.values())], options, counts)
