"""(e) Make planning and answering samples of all sources (RAS Algorithm 1, App. C.3 and C.4)."""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.tables import report
from data_gen.builds.build import write_samples
from data_gen.builds.cards import RasFigures, write_card
from data_gen.facts.held_out import HeldOutQuestions
from data_gen.facts.passage_triples import PassageTriples
from data_gen.hotpot_subq.documents import QuestionFiles
from data_gen.hotpot_subq.run import positive
from data_gen.samples.labels import CheckedSamples, check_labels
from data_gen.samples.trajectories import instructed_question, no_retrieval_samples
from data_gen.sources.arguments import NamedPath, add_common_options, named_path, source_entry
from data_gen.sources.attempts import read_right_ids
from data_gen.streaming.files import output
from models.formats.passages import context_passages
from models.formats.planning import HistoryStep, Plan, PlanAction, format_plan
from models.formats.records import PassageRecord, QuestionRecord, RasSample
from models.formats.triples import Triple

FIRST_PLANS = ("question", "subquery", "none")
TriplesOf = Callable[[PassageRecord], Sequence[Triple]]
MakeSamples = Callable[[QuestionRecord], tuple[str, list[RasSample]]]


@dataclass(frozen=True)
class AlgorithmOptions:
    """The choices that the algorithm leaves open.

    first_plan: the label of an empty history where retrieval is needed. As printed the algorithm
    gives it none, and a planner would only ever see [NO_RETRIEVAL] there: "question" asks for the
    question itself, as the loop does (eq. 1), "subquery" for the first sub-query. max_triples: of
    a document, the first ones; None keeps all.
    """

    first_plan: str = "question"
    max_triples: int | None = None


def document_steps(
    record: QuestionRecord, triples_of: TriplesOf, options: AlgorithmOptions
) -> list[HistoryStep]:
    """Return each sub-query with the triples of its document (line 12).

    A decomposition step without a document has none.
    """
    passages = context_passages(record)
    steps = []
    for step in record.question_decomposition:
        index = step.paragraph_support_idx
        found = [] if index is None else list(dict.fromkeys(triples_of(passages[index])))
        steps.append(HistoryStep(step.question, tuple(found[: options.max_triples])))
    return steps


def algorithm_samples(
    record: QuestionRecord, steps: Sequence[HistoryStep], right: bool, options: AlgorithmOptions
) -> list[RasSample]:
    """Return the planning samples in order and the answering sample last.

    right: the base model's own answer is that of the record (line 4); then nothing is retrieved.
    """
    if right:
        return no_retrieval_samples(record, record.question)
    samples = [_plan(record, [], plan) for plan in _first_plan(record, steps, options)]
    for position in range(1, len(steps)):
        plan = Plan(PlanAction.SUBQ, steps[position].subquery)
        samples.append(_plan(record, steps[:position], plan))
    samples.append(_plan(record, steps, Plan(PlanAction.SUFFICIENT)))
    return [*samples, answer_sample(record, record.question, steps)]


def answer_sample(
    record: QuestionRecord, question: str, steps: Sequence[HistoryStep] = ()
) -> RasSample:
    """Return an answering sample; without steps it is marked [NO_RETRIEVAL] (RAS Fig. 12)."""
    return RasSample(f"{record.id}/answer", "answer", question, list(steps), record.answer)


def _first_plan(
    record: QuestionRecord, steps: Sequence[HistoryStep], options: AlgorithmOptions
) -> list[Plan]:
    asked = {"question": [record.question], "subquery": [steps[0].subquery], "none": []}
    return [Plan(PlanAction.SUBQ, text) for text in asked[options.first_plan]]


def _plan(record: QuestionRecord, steps: Sequence[HistoryStep], plan: Plan) -> RasSample:
    label = format_plan(plan)
    return RasSample(f"{record.id}/plan/{len(steps)}", "plan", record.question, list(steps), label)


@dataclass
class Labelling:
    """Labels questions and counts them by outcome; the counts of a source add up to what it read.

    right: ids of the questions that the base model answered right without context.
    """

    triples: PassageTriples
    right: set[str]
    options: AlgorithmOptions
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    read_of: Counter[str] = field(default_factory=Counter)

    def questions(self, files: QuestionFiles) -> Iterator[RasSample]:
        """Algorithm 1 on questions with sub-queries."""
        return self._each("questions", files, self._by_algorithm)

    def left_out(self, files: QuestionFiles) -> Iterator[RasSample]:
        """Answers to questions that the filter left out, of those answered right (App. C.4)."""
        return self._each("left out by the filter", files, self._right_answer)

    def no_retrieval(self, name: str, files: QuestionFiles) -> Iterator[RasSample]:
        """Return the planning and answering samples of a source that needs no retrieval."""
        return self._each(f"no retrieval: {name}", files, _no_retrieval)

    def answer_only(self, name: str, files: QuestionFiles) -> Iterator[RasSample]:
        """Return the answering samples alone, with a step's document's triples where known."""

        def made(record: QuestionRecord) -> tuple[str, list[RasSample]]:
            steps = document_steps(record, self.triples.of, self.options)
            steps = [step for step in steps if step.triples]
            outcome = "answered over triples" if steps else "answered without retrieval"
            return outcome, [answer_sample(record, instructed_question(record, name), steps)]

        return self._each(f"answers: {name}", files, made)

    def _each(self, source: str, files: QuestionFiles, made: MakeSamples) -> Iterator[RasSample]:
        counts = self.counts.setdefault(source, Counter())
        for record in tqdm(files, desc=source, unit=" questions"):
            outcome, own = made(record)
            counts[outcome] += 1
            yield from own
        counts.update(files.left_out)
        self.read_of.update(files.read_of)
        if counts.total() != files.read:
            raise ValueError(f"{source}: {files.read} read and {counts.total()} have an outcome")

    def _by_algorithm(self, record: QuestionRecord) -> tuple[str, list[RasSample]]:
        steps = document_steps(record, self.triples.of, self.options)
        right = record.id in self.right
        if not right and not steps:
            return "no sub-queries", []
        if not right and not any(step.triples for step in steps):
            return "no triples in any document", []
        outcome = "no retrieval" if right else f"{len(steps)} sub-queries"
        return outcome, algorithm_samples(record, steps, right, self.options)

    def _right_answer(self, record: QuestionRecord) -> tuple[str, list[RasSample]]:
        if record.id not in self.right:
            return "not answered right", []
        return "answered right", [answer_sample(record, record.question)]


def _no_retrieval(record: QuestionRecord) -> tuple[str, list[RasSample]]:
    return "no retrieval", no_retrieval_samples(record, instructed_question(record))


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
