"""The index that loops search, of a corpus: built, or brought up to it where it has changed.

    inference/build_index.py --corpus corpus.jsonl --index INDEX

Loops build a missing index themselves; this does it beforehand, and is run again when the corpus
has changed. In a folder the vectors of passages that are known are taken over. In Milvus, FILE.db
or http://HOST:PORT/NAME, passages are added, replaced and removed in place while others search.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.commands import command_parser
from common.tables import report_counts
from inference.loops.kind import LoopOptions
from inference.opening.arguments import command, configure_logging, positive_int
from inference.retrieval.corpus import MappedCorpus, open_corpus
from inference.retrieval.milvus_client import Address, Connection, MilvusError, is_milvus
from inference.retrieval.milvus_update import update_milvus
from inference.retrieval.open_retriever import RETRIEVER_KINDS, build_retriever, renew_folder
from inference.retrieval.passages import IndexMismatchError, Passage
from models.files.sentence_encoder import load_sentence_encoder


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--corpus", required=True, type=Path, help="JSON Lines of {id, title, text}")
    add("--index", required=True, help="a folder, FILE.db or http://HOST:PORT[/NAME]")
    add(
        "--retriever",
        choices=RETRIEVER_KINDS,
        default=LoopOptions.retriever,
        help="what it is to answer (default: %(default)s)",
    )
    add(
        "--title-weight",
        type=positive_int,
        default=LoopOptions.title_weight,
        help="how often BM25 counts a passage's title (default: %(default)s)",
    )
    add("--encoder", default=LoopOptions.encoder, help="sentence encoder (default: %(default)s)")
    add("--exact", action="store_true", help="no approximate index, however many passages")
    add(
        "--keep",
        action="store_true",
        help="Milvus: leave the passages that the corpus has not, such as other sources'",
    )
    add(
        "--refresh",
        action="store_true",
        help="Milvus: then write every passage's parts of BM25 anew, at today's average length",
    )
    add("--json", action="store_true", help="print the counts as one JSON object")
    return parser


def _in_milvus(arguments: argparse.Namespace, corpus: Sequence[Passage]) -> dict[str, Any]:
    """Build or update an index in Milvus; returns what was changed."""
    assert isinstance(corpus, MappedCorpus)
    encoder = None
    if arguments.retriever != "bm25":
        encoder = load_sentence_encoder(arguments.encoder)
    connection = Connection(Address.parse(arguments.index))
    try:
        done = update_milvus(
            connection, corpus, encoder, arguments.title_weight, arguments.exact, arguments.keep,
            arguments.refresh,
        )  # fmt: skip
    finally:
        connection.close()
    return done.counts


def _in_folder(arguments: argparse.Namespace, corpus: Sequence[Passage]) -> dict[str, Any]:
    """Build an index in a folder, anew where it is of another corpus; returns what was done."""
    if arguments.keep or arguments.refresh:
        raise MilvusError(
            f"{arguments.index}: is a folder, whose index is built whole. Leave out --keep and "
            "--refresh, or name one in Milvus"
        )
    folder = Path(arguments.index)

    def build() -> None:
        build_retriever(
            arguments.retriever, corpus, arguments.encoder, folder, arguments.title_weight,
            arguments.exact,
        )  # fmt: skip

    try:
        build()
        return {"renewed": False}
    except IndexMismatchError:
        renew_folder(folder)
        build()
        return {"renewed": True}


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    configure_logging()
    started = time.perf_counter()
    corpus = open_corpus(arguments.corpus, arguments.index)
    done = (_in_milvus if is_milvus(arguments.index) else _in_folder)(arguments, corpus)
    seconds = round(time.perf_counter() - started, 1)
    counts = {"passages": len(corpus), **done, "seconds": seconds}
    report_counts("Index in", counts, arguments.index, arguments.json)


if __name__ == "__main__":
    main()
