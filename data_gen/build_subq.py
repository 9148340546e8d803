"""Build planner and answerer samples from annotated multi-hop questions (RAS Algorithm 1).

    data_gen/build_subq.py --source 2wikimultihopqa=train.jsonl \\
        --corpus 2wikimultihopqa=corpus.jsonl --no-retrieval arc_challenge.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (RasSample), card.json and card.md. Several --source options
may share a NAME; a corpus serves every source of its NAME."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data_gen.card import CountTokens, ras_figures, token_counter, write_card
from data_gen.labels import CheckedSamples, check_labels
from data_gen.sampling import (
    PlanSampling,
    choose_plan_samples,
    first_plan_counts,
    label_by_steps_alone,
)
from data_gen.source_args import add_common_options, named_path
from data_gen.subq_build import SubqBuild
from data_gen.write_splits import write_splits
from evaluation.commands import one_line_errors
from evaluation.report import emit_json, print_table
from models.atomic import atomic_directory
from models.formats.records import RasSample

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
        help="test questions (contract form) that are left out, by id and by wording; those of a "
        "world's folder always are",
    )  # fmt: skip
    parser.add_argument("--top-k", type=int, default=3, help="passages a query (3)")
    parser.add_argument("--max-triples", type=int, default=8, help="triples a step (8)")
    parser.add_argument(
        "--gold-rate", type=float, default=0.9,
        help="how often a step's own passage is put in where retrieval missed it (0.9)",
    )  # fmt: skip
    parser.add_argument(
        "--plan-samples-per-question", type=float, metavar="X",
        help="states with a history kept a question, on average (all)",
    )  # fmt: skip
    parser.add_argument(
        "--first-plan-fraction", type=float, default=1.0,
        help="share of questions whose empty-history state is kept (1)",
    )  # fmt: skip
    parser.add_argument(
        "--balance-plans", action="store_true",
        help="keep as many states that ask on as that have enough, for each number of steps",
    )  # fmt: skip
    parser.add_argument(
        "--answer-fraction", type=float, default=1.0,
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
    options = parser.parse_args(arguments)
    if not options.source and not options.no_retrieval:
        parser.error("give at least one --source or --no-retrieval")
    if options.top_k < 1 or options.max_triples < 1:
        parser.error("--top-k and --max-triples must be at least 1")
    return options


def make_card(
    build: SubqBuild,
    checked: CheckedSamples[RasSample],
    counts: dict[str, int],
    count_tokens: CountTokens,
    unit: str,
) -> dict[str, Any]:
    """The card of a build: the figures of RAS Table 4 and where they come from."""
    options = build.options
    figures = ras_figures(checked.samples, count_tokens)
    return {
        "title": "Planner and answerer samples",
        "splits": counts,
        "counted_in": unit,
        "planning": {
            **figures["plan"],
            "kind_foretold_by_steps_alone": round(label_by_steps_alone(checked.samples), 3),
        },
        "answering": figures["answer"],
        "counts": {
            **build.counts,
            **first_plan_counts(checked.samples),
            "prompts that came again": checked.repeats,
            "contradictory samples dropped": checked.contradictions,
        },
        "triples_of_passages": build.triples.counts,
        "skipped_records": dict(build.skipped.counts),
        "skipped_examples": build.skipped.examples,
        "options": {
            "seed": options.seed,
            "fractions": list(options.fractions),
            "top_k": options.top_k,
            "max_triples": options.max_triples,
            "gold_rate": options.gold_rate,
            "plan_samples_per_question": options.plan_samples_per_question,
            "first_plan_fraction": options.first_plan_fraction,
            "balance_plans": options.balance_plans,
            "answer_fraction": options.answer_fraction,
            "extracted_triples": options.triples.name if options.triples else None,
        },
        "sources": build.sources,
        "samples_to_read": [sample.to_json() for sample in _examples(checked.samples)],
    }


def _examples(samples: list[RasSample]) -> list[RasSample]:
    """Five samples: one of each label kind, the rest answers."""
    chosen: dict[str, RasSample] = {}
    for sample in samples:
        kind = sample.label.split(" ", 1)[0] if sample.task == "plan" else "answer"
        chosen.setdefault(f"{kind}/{bool(sample.history)}", sample)
    return list(chosen.values())[:5]


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_arguments(arguments)
    logging.basicConfig(level=logging.ERROR if options.json else logging.WARNING)
    build = SubqBuild(options)
    sampling = PlanSampling(
        options.plan_samples_per_question,
        options.first_plan_fraction,
        options.seed,
        options.balance_plans,
        options.answer_fraction,
    )
    made = build.samples()
    checked = check_labels(choose_plan_samples(made, sampling), options.skip_contradictions)
    if not checked.samples:
        raise SystemExit("no samples: the sources hold no questions")
    count_tokens, unit = token_counter(options.tokenizer)
    with atomic_directory(options.out) as folder:
        counts = write_splits(
            folder, checked.samples, lambda s: s.question_id, options.seed, options.fractions
        )
        card = make_card(build, checked, counts, count_tokens, unit)
        write_card(folder, card)
    rows: list[list[Any]] = [["split", name, count] for name, count in counts.items()]
    rows += [["label", label, count] for label, count in card["planning"].get("labels", {}).items()]
    rows += [["count", name, count] for name, count in card["counts"].items()]
    print_table("Planner and answerer samples", ["kind", "what", "number"], rows)
    if options.json:
        keys = ("splits", "planning", "answering", "counts")
        emit_json({"out": str(options.out), **{key: card[key] for key in keys}})


if __name__ == "__main__":
    main()
