"""Build the samples of a helper from annotated questions.

    data_gen/build_helpers.py --task decompose --source 2wikimultihopqa=train.jsonl \\
        --source musique=train.jsonl --exclude test.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (InstructionSample), card.json and card.md. Tasks: subquery (RAS
App. C.2), decompose and resolve (T²RAG §4.3), judge_gap (Trig-Nav §3.2), topic (TH-RAG App. A.3, of
a world alone), choose_topics (TH-RAG App. A.4 and A.5, of `choices=FILE` alone, which
inference/offer_topics.py writes). All samples of a question, or of an entity, are in one split."""

import argparse
import logging
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from common.commands import one_line_errors
from common.tables import emit_json, print_table
from data_gen.builds.cards import InstructionFigures, token_counter, write_card
from data_gen.builds.helpers import HelpersBuild
from data_gen.builds.write_splits import write_splits
from data_gen.samples.helpers import CHOICES
from data_gen.samples.labels import CheckedSamples, check_labels
from data_gen.samples.material import SampleOptions
from data_gen.sources.arguments import add_common_options, named_path
from data_gen.streaming.files import observed, output
from models.formats.records import InstructionSample

SAMPLES_TO_READ = 20
_SOURCES = ("hotpotqa", "2wikimultihopqa", "musique", "subquestions", "world", CHOICES)


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=InstructionSample.tasks, required=True)
    parser.add_argument(
        "--source", type=named_path(_SOURCES), action="append", required=True, metavar="NAME=PATH",
        help=f"questions, with or without text, several times; NAME: {', '.join(_SOURCES)}",
    )  # fmt: skip
    parser.add_argument(
        "--corpus", type=named_path(_SOURCES), action="append", default=[], metavar="NAME=PATH",
        help="passages for questions without text; those of any NAME are searched (a world's own)",
    )  # fmt: skip
    parser.add_argument(
        "--exclude", type=Path, action="append", default=[], metavar="PATH",
        help="test questions (contract form): these are left out, and what shares a hop or an "
        "evidence triple with one; those of a world's folder always are",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=int, help="at most N questions (topic: entities) of each source, by a hash"
    )
    parser.add_argument(
        "--cap", action="append", default=[], metavar="PATH=N",
        help="at most N questions of that file, chosen by a hash of their ids",
    )  # fmt: skip
    _add_prompt_options(parser)
    add_common_options(parser)
    return parser.parse_args(arguments)


def _add_prompt_options(parser: argparse.ArgumentParser) -> None:
    default = SampleOptions()
    parser.add_argument(
        "--passages", type=int, default=default.passages, help="resolve: of a prompt (%(default)s)"
    )
    parser.add_argument(
        "--nothing-rate", type=float, default=default.nothing_rate,
        help="resolve: share of samples whose passages do not tell (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--propositions-rate", type=float, default=default.propositions_rate,
        help="resolve: share of samples that show facts in place of passages (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--distractors", type=int, default=default.distractors,
        help="judge_gap: most other facts shown beside each needed one (%(default)s)",
    )  # fmt: skip


def make_card(
    build: HelpersBuild,
    checked: CheckedSamples[InstructionSample],
    counts: dict[str, int],
    figures: dict[str, Any],
    unit: str,
) -> dict[str, Any]:
    """The card of a build."""
    step = max(len(checked) // SAMPLES_TO_READ, 1)
    return {
        "title": f"Helper samples: {build.options.task}",
        "task": build.options.task,
        "splits": counts,
        "counted_in": unit,
        "figures": figures,
        "counts": {
            **build.counts,
            "prompts that came again": checked.repeats,
            "contradictory samples dropped": checked.contradictions,
        },
        "skipped_records": dict(build.reader.skipped.counts),
        "skipped_examples": build.reader.skipped.examples,
        "options": {
            "seed": build.options.seed,
            "fractions": list(build.options.fractions),
            "passages": build.options.passages,
            "nothing_rate": build.options.nothing_rate,
            "propositions_rate": build.options.propositions_rate,
            "distractors": build.options.distractors,
        },
        "sources": build.reader.sources,
        "seed": build.options.seed,
        "samples_to_read": [s.to_json() for s in islice(checked, 0, SAMPLES_TO_READ * step, step)],
    }


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_arguments(arguments)
    logging.basicConfig(level=logging.ERROR if options.json else logging.WARNING)
    with output(options.out) as (folder, work):
        build = HelpersBuild(options, work)
        checked = check_labels(build.samples(), True, InstructionSample, work)
        if not len(checked):
            problem = f"the sources hold no annotation for the task {options.task}"
            raise SystemExit(f"no samples: {problem}")
        count_tokens, unit = token_counter(options.tokenizer)
        figures = InstructionFigures(count_tokens, work)
        counts = write_splits(
            folder,
            observed(checked, figures.add),
            lambda s: s.source_id,
            options.seed,
            options.fractions,
        )
        card = make_card(build, checked, counts, figures.figures(), unit)
        write_card(folder, card)
    rows = [[key, value] for key, value in {**counts, **card["counts"]}.items()]
    print_table(f"Helper samples: {options.task}", ["what", "count"], rows)
    if options.json:
        keys = ("task", "splits", "figures", "counts")
        emit_json({"out": str(options.out), **{key: card[key] for key in keys}})


if __name__ == "__main__":
    main()
