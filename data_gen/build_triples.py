"""Build text-to-triples samples from annotated texts and from aligned passages.

    data_gen/build_triples.py --source 2wikimultihopqa=train.jsonl --evidences evidences.jsonl \\
        --corpus corpus.jsonl --exclude test.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (TriplesSample), card.json and card.md."""

import argparse
import logging
from collections.abc import Sequence
from typing import Any

from common.commands import one_line_errors
from common.shards import WHOLE
from common.tables import emit_json, print_table
from data_gen.builds.shards import add_shard_option, report_shard, write_shard
from data_gen.builds.triples import QA_SOURCES, TriplesBuild, add_triples_options
from data_gen.builds.triples_files import finish_triples
from data_gen.sources.arguments import add_common_options, named_path, parse_options
from data_gen.sources.open_source import TRIPLE_SOURCES
from data_gen.streaming.files import output


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = tuple(dict.fromkeys([*TRIPLE_SOURCES, *QA_SOURCES]))
    parser.add_argument(
        "--source", type=named_path(names), action="append", required=True, metavar="NAME=PATH",
        help=f"a source, several times; NAME: {', '.join(names)}",
    )  # fmt: skip
    add_triples_options(parser, names)
    add_common_options(parser)
    add_shard_option(parser)
    return parse_options(parser, arguments)


def report(card: dict[str, Any], options: argparse.Namespace) -> None:
    """Print what a build made."""
    counts = {**card["splits"], **card["kinds"], **card["skipped_records"]}
    rows = [[key, value] for key, value in counts.items()]
    print_table("Text-to-triples samples", ["what", "samples"], rows)
    if options.json:
        emit_json({"out": str(options.out), **{k: card[k] for k in ("splits", "figures", "kinds")}})


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_arguments(arguments)
    logging.basicConfig(level=logging.ERROR if options.json else logging.WARNING)
    with output(options.out) as (folder, work):
        build = TriplesBuild(options, work, options.shard or WHOLE)
        items = build.items()
        if options.shard:
            card = write_shard(folder, "build_triples", options, items, build.deal, build.found)
        else:
            card = finish_triples(items, build.found, options, folder, work)
    (report_shard if options.shard else report)(card, options)


if __name__ == "__main__":
    main()
