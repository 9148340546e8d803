"""Build planner and answerer samples from annotated multi-hop questions (RAS Algorithm 1).

    data_gen/build_subq.py --source 2wikimultihopqa=train.jsonl \\
        --corpus 2wikimultihopqa=corpus.jsonl --no-retrieval arc_challenge.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (RasSample), card.json and card.md. Several --source options
may share a NAME; a corpus serves every source of its NAME."""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.commands import one_line_errors
from common.shards import WHOLE
from common.tables import emit_json, print_table
from data_gen.builds.shards import add_shard_option, report_shard, write_shard
from data_gen.builds.subq import SubqBuild, finish_subq
from data_gen.sources.arguments import add_common_options, named_path, parse_options, share
from data_gen.streaming.files import output

_SOURCES = ("hotpotqa", "2wikimultihopqa", "musique", "world")


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--source", type=named_path(_SOURCES), action="append", default=[], metavar="NAME=PATH",
        help=f"questions, several times; NAME: {', '.join(_SOURCES)}",
    )  # fmt: skip
    parser.add_argument(
        "--corpus", type=named_path(_SOURCES), action="append", default=[], metavar="NAME=PATH",
        help="passages to retrieve from (each record's own context; a world's own corpus)",
    )  # fmt: skip
    parser.add_argument(
        "--triples", type=Path, metavar="FILE",
        help="triples that a text-to-triples model read (annotation and weak labels)",
    )  # fmt: skip
    parser.add_argument(
        "--no-retrieval", type=Path, action="append", default=[], metavar="PATH",
        help="questions that need no retrieval; with choices: ARC's task instruction is put first",
    )  # fmt: skip
    parser.add_argument(
        "--exclude", type=Path, action="append", default=[], metavar="PATH",
        help="test questions (contract form): these are left out, and what shares a hop or an "
        "evidence triple with one; those of a world's folder always are",
    )  # fmt: skip
    parser.add_argument("--top-k", type=int, default=3, help="passages a query (3)")
    parser.add_argument("--max-triples", type=int, default=8, help="triples a step (8)")
    parser.add_argument(
        "--gold-rate", type=share, default=0.9,
        help="how often a step's own passage is put in where retrieval missed it (0.9)",
    )  # fmt: skip
    parser.add_argument(
        "--plan-samples-per-question", type=float, metavar="X",
        help="states with a history kept a question, on average (all)",
    )  # fmt: skip
    parser.add_argument(
        "--first-plan-fraction", type=share, default=1.0,
        help="share of questions whose empty-history state is kept (1)",
    )  # fmt: skip
    parser.add_argument(
        "--balance-plans", action="store_true",
        help="keep as many states that ask on as that have enough, for each number of steps",
    )  # fmt: skip
    parser.add_argument(
        "--answer-fraction", type=share, default=1.0,
        help="share of questions whose answer is kept (1)",
    )  # fmt: skip
    parser.add_argument(
        "--skip-contradictions", action="store_true",
        help="drop and count samples whose prompt came before with another label",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=int, help="at most N questions of each file, chosen by a hash of their ids"
    )
    parser.add_argument(
        "--cap", action="append", default=[], metavar="PATH=N",
        help="at most N questions of that file, chosen by a hash of their ids",
    )  # fmt: skip
    add_common_options(parser)
    add_shard_option(parser)
    options = parse_options(parser, arguments)
    if not options.source and not options.no_retrieval:
        parser.error("give at least one --source or --no-retrieval")
    if options.top_k < 1 or options.max_triples < 1:
        parser.error("--top-k and --max-triples must be at least 1")
    return options


def report(card: dict[str, Any], options: argparse.Namespace) -> None:
    """Print what a build made."""
    rows: list[list[Any]] = [["split", name, count] for name, count in card["splits"].items()]
    rows += [["label", label, count] for label, count in card["planning"].get("labels", {}).items()]
    rows += [["count", name, count] for name, count in card["counts"].items()]
    print_table("Planner and answerer samples", ["kind", "what", "number"], rows)
    if options.json:
        keys = ("splits", "planning", "answering", "counts")
        emit_json({"out": str(options.out), **{key: card[key] for key in keys}})


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_arguments(arguments)
    logging.basicConfig(level=logging.ERROR if options.json else logging.WARNING)
    with output(options.out) as (folder, work):
        build = SubqBuild(options, work, options.shard or WHOLE)
        made, look_ups = build.questions(), build.triples.look_ups
        if options.shard:
            card = write_shard(
                folder, "build_subq", options, made, build.deal, build.found, look_ups
            )
        else:
            card = finish_subq(made, build.found, look_ups, options, folder, work)
    (report_shard if options.shard else report)(card, options)


if __name__ == "__main__":
    main()
