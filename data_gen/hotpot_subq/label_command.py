"""(e) Make planning and answering samples of all sources (RAS Algorithm 1, App. C.3 and C.4)."""

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from common.tables import report
from data_gen.builds.build import write_samples
from data_gen.builds.cards import RasFigures, write_card
from data_gen.facts.held_out import HeldOutQuestions
from data_gen.facts.passage_triples import PassageTriples
from data_gen.hotpot_subq.documents import QuestionFiles
from data_gen.hotpot_subq.labelling import FIRST_PLANS, AlgorithmOptions, Labelling
from data_gen.hotpot_subq.run import positive
from data_gen.hotpot_subq.stage import read_right_ids
from data_gen.samples.labels import CheckedSamples, check_labels
from data_gen.sources.arguments import NamedPath, add_common_options, named_path, source_entry
from data_gen.streaming.files import output
from models.formats.records import RasSample

ADDED_SOURCES = ("contract", "arc", "asqa", "instructions")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The stage's options."""

    def several(name: str, text: str) -> None:
        parser.add_argument(name, action="append", default=[], metavar="PATH", help=text)

    several("--questions", "questions.jsonl of the subqueries stage")
    several("--attempts", "attempts.jsonl of the direct stage: right ones need no retrieval")
    several("--left-out", "left_out.jsonl: answers alone, of those that were answered right")
    parser.add_argument(
        "--triples", type=Path, metavar="FILE", help="what inference/extract.py wrote"
    )
    parser.add_argument(
        "--weak-triples", action="store_true",
        help="for documents that are not in --triples take what patterns find",
    )  # fmt: skip
    names = ", ".join(ADDED_SOURCES)
    parser.add_argument(
        "--no-retrieval", type=named_path(ADDED_SOURCES), action="append", default=[],
        metavar="NAME=PATH", help=f"plans and answers without retrieval; NAME: {names}",
    )  # fmt: skip
    parser.add_argument(
        "--answer-only", type=named_path(ADDED_SOURCES), action="append", default=[],
        metavar="NAME=PATH", help="answers alone, as the paper takes ASQA and ARC-Easy",
    )  # fmt: skip
    several(
        "--exclude", "test questions (contract form) that are left out, with what shares a fact"
    )
    parser.add_argument(
        "--first-plan", choices=FIRST_PLANS, default="question",
        help="the plan of an empty history: ask the question itself, the first sub-query, or as "
        "Algorithm 1 is printed no sample (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--max-triples", type=positive(int), metavar="N", help="of a document, the first N (all)"
    )
    parser.add_argument(
        "--skip-contradictions", action="store_true",
        help="drop and count samples whose prompt came before with another label",
    )  # fmt: skip
    parser.add_argument("--limit", type=positive(int), help="at most N questions of each source")
    add_common_options(parser)


def check_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with an error where options contradict each other."""
    if not (options.questions or options.no_retrieval or options.answer_only):
        parser.error("give at least one of --questions, --no-retrieval and --answer-only")
    if options.left_out and not options.attempts:
        parser.error("--left-out needs --attempts: which of them were answered right")


def run(options: argparse.Namespace) -> None:
    """Run the stage."""
    with output(options.out) as (folder, work):
        labelling = Labelling(
            PassageTriples(options.triples, work),
            {id_ for path in options.attempts for id_ in read_right_ids(path)},
            AlgorithmOptions(options.first_plan, options.max_triples),
        )
        card = _label(labelling, options, folder, work)
    _show(card, options)


def _label(
    labelling: Labelling, options: argparse.Namespace, folder: Path, work: Path
) -> dict[str, Any]:
    """Write the splits and the card to `folder`; returns the card."""
    samples = _samples(labelling, options)
    checked = check_labels(samples, options.skip_contradictions, RasSample, work)
    _require_extracted(labelling, options)
    if not len(checked):
        raise ValueError("no samples: no question of the sources can be labelled")
    splits, columns, unit = write_samples(
        folder, checked, RasFigures, lambda s: s.question_id, options
    )
    card = {
        **_card(labelling, checked, options),
        "splits": splits,
        "counted_in": unit,
        "planning": columns["plan"],
        "answering": columns["answer"],
    }
    write_card(folder, card)
    return card


def _show(card: dict[str, Any], options: argparse.Namespace) -> None:
    splits, labels = card["splits"], card["planning"].get("labels", {})
    rows = [["split", name, n] for name, n in splits.items()]
    rows += [["label", name, n] for name, n in labels.items()]
    rows += [[source, name, n] for source, c in card["outcomes"].items() for name, n in c.items()]
    shown = {
        "splits": splits,
        "labels": labels,
        "sources": card["outcomes"],
        "triples_of_documents": card["triples_of_documents"],
        "contradictory": card["counts"]["contradictory samples dropped"],
    }
    title = f"HotpotQA-SUBQ: {options.out}"
    report(title, ["source", "what", "number"], rows, options, shown)


def _samples(labelling: Labelling, options: argparse.Namespace) -> Iterator[RasSample]:
    held_out = HeldOutQuestions.of_files(options.exclude)

    def files(named: list[NamedPath]) -> QuestionFiles:
        return QuestionFiles(named, options.limit, options.skip_bad, held_out)

    def contract(paths: list[str]) -> QuestionFiles:
        return files([NamedPath("contract", path) for path in paths])

    if options.questions:
        yield from labelling.questions(contract(options.questions))
    if options.left_out:
        yield from labelling.left_out(contract(options.left_out))
    for source in options.no_retrieval:
        yield from labelling.no_retrieval(source.name, files([source]))
    for source in options.answer_only:
        yield from labelling.answer_only(source.name, files([source]))


def _require_extracted(labelling: Labelling, options: argparse.Namespace) -> None:
    missing = labelling.triples.counts["annotated and weak"]
    if missing and not options.weak_triples:
        where = f"are not in {options.triples}" if options.triples else "have no triples"
        raise ValueError(
            f"{missing} documents {where}. Run inference/extract.py on what the passages stage "
            "writes, or take what patterns find with --weak-triples"
        )


def _card(
    labelling: Labelling, checked: CheckedSamples[RasSample], options: argparse.Namespace
) -> dict[str, Any]:
    named = [NamedPath("hotpotqa", path) for path in (*options.questions, *options.left_out)]
    sources = [*named, *options.no_retrieval, *options.answer_only]
    return {
        "title": "HotpotQA-SUBQ",
        "outcomes": {name: dict(sorted(c.items())) for name, c in labelling.counts.items()},
        "counts": checked.left_out(),
        "triples_of_documents": labelling.triples.counts,
        "options": {
            "seed": options.seed,
            "fractions": list(options.fractions),
            "first_plan": options.first_plan,
            "max_triples": options.max_triples,
            "extracted_triples": options.triples.name if options.triples else None,
        },
        "sources": [source_entry(source, labelling.read_of[source.path]) for source in sources],
        "samples_to_read": [sample.to_json() for sample in islice(checked, 5)],
    }
