"""The course that all builders of an index take: options, corpus, encoder, costs, counts."""

import asyncio
import time
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.commands import command_parser
from common.errors import UserError
from common.files import alone
from common.tables import report_counts
from inference.engines.contract import Engine
from inference.indexes.cost import CostLog
from inference.opening.arguments import (
    add_corpus_arguments,
    add_engine_arguments,
    configure_logging,
    documents_from,
    engine_options_from,
)
from inference.opening.engine import build_engine
from inference.retrieval.milvus_client import is_milvus
from inference.retrieval.passages import Passage
from models.files.sentence_encoder import SentenceEncoder, load_sentence_encoder


class IndexBusyError(UserError, RuntimeError):
    """An index that another build is adding to; the message names it."""


@dataclass(frozen=True)
class IndexBuild:
    """A command's input: its folder, the documents to add to it, and where the costs are noted."""

    arguments: Namespace
    folder: Path
    corpus: list[Passage]
    encoder: SentenceEncoder
    costs: CostLog

    @asynccontextmanager
    async def engine(self, backbone: str, adapters: dict[str, Path]) -> AsyncIterator[Engine]:
        """Open the engine that the command line names, its calls counted."""
        options = engine_options_from(self.arguments)
        engine = build_engine(options, backbone=backbone, adapters=adapters)
        try:
            yield self.costs.metered(engine)
        finally:
            await engine.close()


# Adds what is new to the folder, and returns the counts to show.
Builder = Callable[[IndexBuild], Awaitable[dict[str, Any]]]


def index_parser(
    description: str | None, kind: str, embedded: str, corpus_required: bool = True
) -> ArgumentParser:
    """Return a parser of the options that all builders share.

    kind: of the index. embedded: what the encoder embeds. corpus_required: False where there is
    something to do without further documents.
    """
    parser = command_parser(description)
    add = parser.add_argument
    add_corpus_arguments(parser, corpus_required)
    add("--out", required=True, type=Path, help=f"folder of the {kind}, new or to add to")
    add("--encoder", default="minilm", help=f"sentence encoder of {embedded} (default: minilm)")
    add(
        "--index",
        metavar="INDEX",
        help=f"address of Milvus, FILE.db or http://HOST:PORT[/NAME], where the vectors of "
        f"{embedded} are then searched; what is there is brought up to the folder",
    )
    add("--json", action="store_true", help="print the counts as one JSON object")
    add_engine_arguments(parser)
    return parser


def run_build(parser: ArgumentParser, title: str, build: Builder) -> None:
    """Run the command line: build or add to the index, then show its counts under the title."""
    arguments = parser.parse_args()
    if arguments.index is not None and not is_milvus(arguments.index):
        parser.error(
            f"--index {arguments.index}: not an address of Milvus, FILE.db or "
            "http://HOST:PORT[/NAME]. Leave it out: the folder of --out holds the vectors"
        )
    configure_logging()
    counts = asyncio.run(_build(arguments, build))
    report_counts(f"{title} in", counts, arguments.out, arguments.json)


async def _build(arguments: Namespace, build: Builder) -> dict[str, Any]:
    started, folder = time.perf_counter(), arguments.out
    refusal = f"{folder}: another build is adding to it. Wait for its end, or stop it"
    with alone(folder, IndexBusyError(refusal)), CostLog(folder) as costs:
        corpus, encoder = documents_from(arguments), load_sentence_encoder(arguments.encoder)
        counts = await build(IndexBuild(arguments, folder, corpus, encoder, costs))
    return {**counts, "seconds": round(time.perf_counter() - started, 1)}
