"""Put the shards of a build together: the same files, byte for byte, as one build of everything.

    data_gen/build_subq.py ... --shard 1/2 --out parts/1
    data_gen/build_subq.py ... --shard 2/2 --out parts/2
    data_gen/merge_shards.py parts/1 parts/2 --out DIR

Proves first that no shard is missing or there twice, that all had the same options and inputs, and
that none was altered. Does what depends on all of them: sampling, limits, the check of labels,
repeats, splits, card."""

import argparse
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from common.commands import one_line_errors
from data_gen import build_conditions, build_subq, build_triples
from data_gen.builds.conditions import finish_conditions
from data_gen.builds.found import Found, PassageItem
from data_gen.builds.shard_check import ShardFolder, merged_items, merged_look_ups, open_shards
from data_gen.builds.subq import QuestionSamples, finish_subq
from data_gen.builds.triples_files import finish_triples
from data_gen.streaming.files import output

Merge = Callable[[Sequence[ShardFolder], argparse.Namespace, Path, Path], dict[str, Any]]


def _found(shards: Sequence[ShardFolder]) -> Found:
    return Found.put_together([shard.card["found"] for shard in shards])


def _merge_subq(
    shards: Sequence[ShardFolder], options: argparse.Namespace, folder: Path, work: Path
) -> dict[str, Any]:
    questions = merged_items(shards, QuestionSamples)
    return finish_subq(
        questions, lambda: _found(shards), lambda: merged_look_ups(shards), options, folder, work
    )


def _merge_triples(
    shards: Sequence[ShardFolder], options: argparse.Namespace, folder: Path, work: Path
) -> dict[str, Any]:
    items = merged_items(shards, PassageItem)
    return finish_triples(items, lambda: _found(shards), options, folder, work)


def _merge_conditions(
    shards: Sequence[ShardFolder], options: argparse.Namespace, folder: Path, work: Path
) -> dict[str, Any]:
    items = merged_items(shards, PassageItem)
    return finish_conditions(items, lambda: _found(shards), options, folder, work)


BUILDERS: dict[str, tuple[Any, Merge]] = {
    "build_subq": (build_subq, _merge_subq),
    "build_triples": (build_triples, _merge_triples),
    "build_conditions": (build_conditions, _merge_conditions),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("shards", nargs="+", type=Path, metavar="SHARD_DIR", help="folders made with --shard")
    add("--out", type=Path, required=True, help="folder to write (replaced whole)")
    add("--json", action="store_true", help="print one JSON object as last line")
    return parser


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    given = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.ERROR if given.json else logging.WARNING)
    if given.out.resolve() in {folder.resolve() for folder in given.shards}:
        raise ValueError(f"--out {given.out}: is one of the shards. Name another folder")
    shards = open_shards(given.shards)
    builder, merge = BUILDERS[shards[0].card["builder"]]
    options = builder.parse_arguments(shards[0].card["arguments"])
    options.out, options.json = given.out, given.json
    with output(given.out) as (folder, work):
        card = merge(shards, options, folder, work)
    builder.report(card, options)


if __name__ == "__main__":
    main()
