"""Build text-to-triples samples from annotated texts and from aligned passages.

    data_gen/build_triples.py --source 2wikimultihopqa=train.jsonl --evidences evidences.jsonl \\
        --corpus corpus.jsonl --exclude test.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (TriplesSample), card.json and card.md."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data_gen.card import CountTokens, token_counter, triples_figures, write_card
from data_gen.source_args import add_common_options, named_path
from data_gen.sources.open_source import TRIPLE_SOURCES
from data_gen.triples_build import QA_SOURCES, TriplesBuild
from data_gen.triples_options import add_triples_options
from data_gen.write_splits import write_splits
from evaluation.commands import one_line_errors
from evaluation.report import emit_json, print_table
from models.atomic import atomic_directory
from models.formats.records import TriplesSample


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
    return parser.parse_args(arguments)


def make_card(
    build: TriplesBuild,
    samples: list[TriplesSample],
    counts: dict[str, int],
    count_tokens: CountTokens,
    unit: str,
) -> dict[str, Any]:
    """The card of a build."""
    return {
        "title": "Text-to-triples samples",
        "splits": counts,
        "counted_in": unit,
        "figures": triples_figures(samples, count_tokens),
        "kinds": dict(build.kinds),
        "skipped_records": dict(build.skipped.counts),
        "skipped_examples": build.skipped.examples,
        "sources": build.sources,
        "seed": build.options.seed,
        "labelling_functions": build.agreement,
        "samples_to_read": [sample.to_json() for sample in samples[:5]],
    }


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_arguments(arguments)
    logging.basicConfig(level=logging.ERROR if options.json else logging.WARNING)
    build = TriplesBuild(options)
    samples = build.samples()
    if not samples:
        raise SystemExit("no samples: the sources hold no text with triples that it states")
    count_tokens, unit = token_counter(options.tokenizer)
    with atomic_directory(options.out) as folder:
        counts = write_splits(folder, samples, lambda s: s.id, options.seed, options.fractions)
        card = make_card(build, samples, counts, count_tokens, unit)
        write_card(folder, card)
    rows = [
        [key, value] for key, value in {**counts, **build.kinds, **build.skipped.counts}.items()
    ]
    print_table("Text-to-triples samples", ["what", "samples"], rows)
    if options.json:
        emit_json({"out": str(options.out), **{k: card[k] for k in ("splits", "figures", "kinds")}})


if __name__ == "__main__":
    main()
