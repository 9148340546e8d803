"""A corpus from files and folders of your own: text, Markdown, HTML, PDF, DOCX, CSV, JSON Lines.

    inference/ingest.py FOLDER --out corpus.jsonl

Each passage is whole sentences within a budget of tokens, under one heading, with its file, page
and characters. A second run into the same --out reads only what changed; a run that was stopped
goes on where it was. A file or folder that cannot be read is left out and named, with the reason.
"""

import argparse
from pathlib import Path

from common.commands import command_parser
from common.tables import emit_json, print_table
from inference.documents.ingestion import Ingested, ingest
from inference.documents.own_corpus import MAX_TOKENS, TOKENIZER, token_counter
from inference.opening.arguments import command, positive_int


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("paths", nargs="+", type=Path, metavar="PATH", help="a file or a folder, read whole")
    add("--out", required=True, type=Path, help="the corpus, JSON Lines of {id, title, text}")
    add(
        "--max-tokens",
        type=positive_int,
        default=MAX_TOKENS,
        help="most tokens of a passage (default: %(default)s)",
    )
    add(
        "--tokenizer",
        default=TOKENIZER,
        help="whose tokens: of the backbone that reads the passages (default: %(default)s)",
    )
    add("--json", action="store_true", help="print the counts as one JSON object")
    return parser


def show(done: Ingested) -> None:
    """Print the counts, and what was left out or replaced."""
    print_table("Corpus", ["what", "number"], [[what, n] for what, n in done.counts.items()])
    named = {path: [problem] for path, problem in done.problems.items()} | done.notes
    if named:
        rows = [[path, "; ".join(said)] for path, said in named.items()]
        print_table("Left out or replaced", ["file", "why"], rows)


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    done = ingest(
        arguments.paths,
        arguments.out,
        arguments.max_tokens,
        arguments.tokenizer,
        token_counter(arguments.tokenizer),
    )
    show(done)
    if arguments.json:
        emit_json({**done.counts, "left_out": done.problems, "replaced": done.notes})


if __name__ == "__main__":
    main()
