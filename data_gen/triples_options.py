"""The command-line options that say which passages and facts a build takes."""

import argparse
from pathlib import Path

from data_gen.source_args import named_path


def add_triples_options(parser: argparse.ArgumentParser, names: tuple[str, ...]) -> None:
    """Options of `TriplesBuild`, for every builder that goes by way of it.

    names: of the sources, for options that name one.
    """
    parser.add_argument(
        "--datasets", type=lambda text: text.split(","), metavar="A,B",
        help="of contract sources only records whose 'dataset' is named",
    )  # fmt: skip
    parser.add_argument(
        "--corpus", type=Path, help="passages (id, title, text) that 2wikimultihopqa aligns with"
    )
    parser.add_argument(
        "--evidences", type=Path, action="append", default=[], metavar="PATH",
        help="further 2wikimultihopqa questions with evidence triples, with or without text",
    )  # fmt: skip
    parser.add_argument(
        "--exclude", type=Path, action="append", default=[], metavar="PATH",
        help="test questions (contract form): passages that support them are left out",
    )  # fmt: skip
    parser.add_argument(
        "--weak-only-limit", type=int, metavar="N",
        help="passages with weak labels alone (as many as aligned ones)",
    )  # fmt: skip
    parser.add_argument(
        "--cap", type=named_path(names), action="append", default=[], metavar="NAME=N",
        help="at most N samples of a source, chosen by a hash of their ids",
    )  # fmt: skip
    parser.add_argument(
        "--drop-gaps", action="store_true",
        help="leave out aligned passages that seem to tell a relation which no label holds",
    )  # fmt: skip
    parser.add_argument(
        "--balance", type=int, metavar="N",
        help="keep a sample while one of its relations stands in fewer than N kept ones (all)",
    )  # fmt: skip
    parser.add_argument(
        "--grounded", action="store_true",
        help="of text-triple sources keep only triples whose subject and object are in the text",
    )  # fmt: skip
    parser.add_argument(
        "--max-words", type=int, metavar="N",
        help="cut longer texts after the last sentence within N words, and what it stated (off)",
    )  # fmt: skip
    parser.add_argument("--limit", type=int, help="read at most N records of each source")
