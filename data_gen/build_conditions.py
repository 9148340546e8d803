"""Build condition triplets from annotated questions, facts and supporting sentences.

    data_gen/build_conditions.py --source 2wikimultihopqa=train.jsonl \\
        --source hotpotqa=train.jsonl --evidences evidences.jsonl --corpus corpus.jsonl \\
        --exclude test.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (ConditionSample), card.json and card.md. Records of one passage
share a text and a split (Tri-RAG §III-B)."""

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data_gen.card import CountTokens, conditions_figures, token_counter, write_card
from data_gen.conditions_build import SENTENCE_SOURCE, ConditionsBuild
from data_gen.source_args import add_common_options, named_path, share
from data_gen.sources.open_source import TRIPLE_SOURCES
from data_gen.triples_build import QA_SOURCES
from data_gen.triples_options import add_triples_options
from data_gen.write_splits import write_splits
from evaluation.commands import one_line_errors
from evaluation.report import emit_json, print_table
from models.atomic import atomic_directory
from models.formats.records import ConditionSample

SAMPLES_TO_READ = 20


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
    return parser.parse_args(arguments)


def make_card(
    build: ConditionsBuild,
    samples: list[ConditionSample],
    counts: dict[str, int],
    count_tokens: CountTokens,
    unit: str,
) -> dict[str, Any]:
    """The card of a build."""
    step = max(len(samples) // SAMPLES_TO_READ, 1)
    return {
        "title": "Condition triplets",
        "splits": counts,
        "counted_in": unit,
        "figures": conditions_figures(samples, count_tokens),
        "kinds": dict(build.kinds),
        "skipped_records": dict(build.skipped.counts),
        "skipped_examples": build.skipped.examples,
        "sources": build.sources,
        "seed": build.options.seed,
        "samples_to_read": [s.to_json() for s in samples[::step][:SAMPLES_TO_READ]],
    }


def passage_of(sample: ConditionSample) -> str:
    """What the records of one passage share."""
    return sample.id.rsplit("/", 1)[0]


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_arguments(arguments)
    logging.basicConfig(level=logging.ERROR if options.json else logging.WARNING)
    build = ConditionsBuild(options)
    samples = build.samples()
    if not samples:
        raise SystemExit("no samples: the sources hold no passage with facts that it states")
    count_tokens, unit = token_counter(options.tokenizer)
    with atomic_directory(options.out) as folder:
        counts = write_splits(
            folder, samples, passage_of, options.seed, options.fractions, keep_together=True
        )
        card = make_card(build, samples, counts, count_tokens, unit)
        write_card(folder, card)
    kinds = Counter({"passages": len({passage_of(s) for s in samples}), **build.kinds})
    rows = [[key, value] for key, value in {**counts, **kinds, **build.skipped.counts}.items()]
    print_table("Condition triplets", ["what", "count"], rows)
    if options.json:
        emit_json({"out": str(options.out), **{k: card[k] for k in ("splits", "figures", "kinds")}})


if __name__ == "__main__":
    main()
