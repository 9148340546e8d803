"""Build condition triplets from annotated questions, facts and supporting sentences.

    data_gen/build_conditions.py --source 2wikimultihopqa=train.jsonl \\
        --source hotpotqa=train.jsonl --evidences evidences.jsonl --corpus corpus.jsonl \\
        --exclude test.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (ConditionSample), card.json and card.md. Records of one passage
share a text and a split (Tri-RAG §III-B)."""

import argparse
import logging
from collections.abc import Sequence
from typing import Any

from common.commands import one_line_errors
from common.shards import WHOLE
from common.tables import emit_json, print_table
from data_gen.builds.conditions import SENTENCE_SOURCE, ConditionsBuild, finish_conditions
from data_gen.builds.shards import add_shard_option, report_shard, write_shard
from data_gen.builds.triples import QA_SOURCES, add_triples_options
from data_gen.sources.arguments import add_common_options, named_path, parse_options, share
from data_gen.sources.open_source import TRIPLE_SOURCES
from data_gen.streaming.files import output


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = tuple(dict.fromkeys([SENTENCE_SOURCE, *TRIPLE_SOURCES, *QA_SOURCES]))
    parser.add_argument(
        "--source", type=named_path(names), action="append", required=True, metavar="NAME=PATH",
        help=f"a source, several times; NAME: {', '.join(names)}",
    )  # fmt: skip
    parser.add_argument(
        "--max-triplets", type=int, default=6, metavar="N", help="of one passage at most N (6)"
    )
    parser.add_argument(
        "--tables", type=share, default=0.0, metavar="SHARE",
        help="passages with facts that are rewritten as a table of labels and values (0)",
    )  # fmt: skip
    add_triples_options(parser, names)
    add_common_options(parser)
    add_shard_option(parser)
    return parse_options(parser, arguments)


def report(card: dict[str, Any], options: argparse.Namespace) -> None:
    """Print what a build made."""
    kinds = {"passages": card["figures"]["passages"], **card["kinds"]}
    counts = {**card["splits"], **kinds, **card["skipped_records"]}
    print_table("Condition triplets", ["what", "count"], [[k, v] for k, v in counts.items()])
    if options.json:
        emit_json({"out": str(options.out), **{k: card[k] for k in ("splits", "figures", "kinds")}})


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_arguments(arguments)
    logging.basicConfig(level=logging.ERROR if options.json else logging.WARNING)
    with output(options.out) as (folder, work):
        build = ConditionsBuild(options, work, options.shard or WHOLE)
        items = build.items()
        if options.shard:
            card = write_shard(folder, "build_conditions", options, items, build.deal, build.found)
        else:
            card = finish_conditions(items, build.found, options, folder, work)
    (report_shard if options.shard else report)(card, options)


if __name__ == "__main__":
    main()
