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
