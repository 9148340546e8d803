"""Put the shards of a build together: the same files, byte for byte, as one build of everything.

    data_gen/build_subq.py ... --shard 1/2 --out parts/1
    data_gen/build_subq.py ... --shard 2/2 --out parts/2
    data_gen/merge_shards.py parts/1 parts/2 --out DIR

Proves first that no shard is missing or there twice, that all had the same options and inputs, and
that none was altered. Does what depends on all of them: sampling, limits, the check of labels,
repeats, splits, card."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.commands import add_output_options, command_parser, log_warnings, one_line_errors
from data_gen.builds.build import Build, parse_build
from data_gen.builds.conditions import ConditionsBuild
from data_gen.builds.shards import MergedShards, open_shards
from data_gen.builds.subq import SubqBuild
from data_gen.builds.triples_files import TriplesBuild
from data_gen.streaming.files import output

KINDS: tuple[type[Build[Any, Any]], ...] = (SubqBuild, TriplesBuild, ConditionsBuild)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    parser.add_argument(
        "shards", nargs="+", type=Path, metavar="SHARD_DIR", help="folders made with --shard"
    )
    add_output_options(parser)
    return parser


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    given = _parser().parse_args(arguments)
    log_warnings(given)
    if given.out.resolve() in {folder.resolve() for folder in given.shards}:
        raise ValueError(f"--out {given.out}: is one of the shards. Name another folder")
    shards = open_shards(given.shards)
    kind = {kind.name: kind for kind in KINDS}[shards[0].card["builder"]]
    options = parse_build(kind, None, shards[0].card["arguments"])
    options.out, options.json = given.out, given.json
    with output(given.out) as (folder, work):
        build = kind(options, work)
        card = build.finish(MergedShards(shards, kind.item_type), folder)
    build.report(card)


if __name__ == "__main__":
    main()
