"""Planner and answerer samples of all sources of one build (RAS Algorithm 1)."""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from common.commands import share
from common.shards import Shard
from data_gen.builds.build import Build
from data_gen.builds.cards import RasFigures
from data_gen.builds.shards import Reading
from data_gen.builds.trajectories import QuestionSamples, SubqReading
from data_gen.facts.passage_triples import count_ways
from data_gen.samples.evidence import Form
from data_gen.samples.labels import CheckedSamples, SampleCheck
from data_gen.samples.sampling import PlanKinds, PlanSampling, SampleChooser
from data_gen.sources.arguments import add_question_options, named_path
from data_gen.streaming.counts import CountTokens
from data_gen.streaming.files import FirstFew
from models.formats.helpers import NOTHING
from models.formats.records import RasSample

_SOURCES = ("hotpotqa", "2wikimultihopqa", "musique", "world", "reading")


class _Examples(FirstFew[RasSample]):
    """Five samples: one of each label kind, the rest answers."""

    def __init__(self) -> None:
        super().__init__(5)
        self._kinds: set[str] = set()

    def add(self, sample: RasSample) -> None:
        """See a sample."""
        label = sample.label.split(" ", 1)[0] if sample.task == "plan" else "answer"
        kind = f"{label}/{bool(sample.history)}"
        if kind not in self._kinds:
            self._kinds.add(kind)
            super().add(sample)


class SubqBuild(Build[QuestionSamples, RasSample]):
    """Planner and answerer samples, chosen, each prompt once."""

    name = "build_subq"
    title = "Planner and answerer samples"
    nothing = "the sources hold no questions"
    item_type = QuestionSamples
    shown = ("splits", "planning", "answering", "counts")
    columns = ("kind", "what", "number")

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        super().__init__(options, work)
        self._kinds = PlanKinds()

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Add sources, retrieval and sampling."""
        add = parser.add_argument
        add(
            "--source", type=named_path(_SOURCES), action="append", default=[], metavar="NAME=PATH",
            help=f"questions, several times; NAME: {', '.join(_SOURCES)}",
        )  # fmt: skip
        add(
            "--corpus", type=named_path(_SOURCES), action="append", default=[], metavar="NAME=PATH",
            help="passages to retrieve from (each record's own context; a world's own corpus)",
        )  # fmt: skip
        add(
            "--triples", type=Path, metavar="FILE",
            help="triples that a text-to-triples model read (annotation and weak labels)",
        )  # fmt: skip
        add(
            "--asked", type=Path, metavar="FILE",
            help="also write which passages each subquery finds, for inference/extract.py --asked",
        )  # fmt: skip
        add(
            "--readings", type=Path, metavar="FILE",
            help="what inference/extract.py --asked read in them: the evidence of every step",
        )  # fmt: skip
        add(
            "--no-retrieval", type=Path, action="append", default=[], metavar="PATH",
            help="questions that need no retrieval; with choices: ARC's task instruction is put "
            "first",
        )  # fmt: skip
        add(
            "--attempts", type=Path, action="append", default=[], metavar="FILE",
            help="attempts.jsonl of build_hotpot_subq.py direct: a question that the base model "
            "answered right needs no retrieval, and of --no-retrieval's the others are left out "
            "(RAS Algorithm 1, lines 3 to 6)",
        )  # fmt: skip
        add(
            "--forms", nargs="+", choices=get_args(Form), default=["facts"], metavar="FORM",
            help="forms of the evidence, one a question, each as often and a repeated one more: "
            "facts, triplets [C] [P] [R], sentences beside facts, passages in their place, full: "
            "facts, sentences and passages (facts)",
        )  # fmt: skip
        add("--top-k", type=int, default=3, help="passages a query (3)")
        add("--max-triples", type=int, default=8, help="triples a step (8)")
        add(
            "--gold-rate", type=share, default=0.9,
            help="how often a step's own passage is put in where retrieval missed it (0.9)",
        )  # fmt: skip
        add(
            "--planned-first", type=share, default=0.0,
            help="share of the questions whose steps lead to one fact that begin with their first "
            "step; the others begin with the question itself, as in the paper (0)",
        )  # fmt: skip
        add(
            "--plan-ahead", action="store_true",
            help="plans of all steps that need no answer of each other, the last ones with their "
            "end, after histories of what is annotated in the place of what is retrieved",
        )  # fmt: skip
        add(
            "--supported-answers", action="store_true",
            help="leave out answers that nothing found holds; where no round found anything, "
            f"the answer to be learned is {NOTHING!r}",
        )  # fmt: skip
        add(
            "--plan-samples-per-question", type=float, metavar="X",
            help="states with a history kept a question, on average (all)",
        )  # fmt: skip
        add(
            "--first-plan-fraction", type=share, default=1.0,
            help="share of questions whose empty-history state is kept (1)",
        )  # fmt: skip
        add(
            "--balance-plans", action="store_true",
            help="keep as many states that ask on as that have enough, for each number of steps",
        )  # fmt: skip
        add(
            "--answer-fraction", type=share, default=1.0,
            help="share of questions whose answer is kept (1)",
        )  # fmt: skip
        add(
            "--skip-contradictions", action="store_true",
            help="drop and count samples whose prompt came before with another label",
        )  # fmt: skip
        add_question_options(parser, "questions of each file")

    @classmethod
    def check_options(cls, parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
        """End with an error where there is no source or a number is too low."""
        if not options.source and not options.no_retrieval:
            parser.error("give at least one --source or --no-retrieval")
        if options.plan_ahead and (options.readings or options.asked or options.planned_first):
            parser.error("--plan-ahead retrieves nothing: leave out what is said of retrieval")
        if options.readings and options.triples:
            parser.error("--readings and --triples both say what a passage holds: give one")
        if options.shard and options.asked:
            parser.error("--asked lists what all questions find: leave --shard out")
        if options.top_k < 1 or options.max_triples < 1:
            parser.error("--top-k and --max-triples must be at least 1")

    def reading(self, shard: Shard) -> SubqReading:
        """Return the reading of all sources."""
        return SubqReading(self.options, self.work, shard)

    def samples(self, items: Iterable[QuestionSamples]) -> CheckedSamples[RasSample]:
        """Return the chosen samples with distinct prompts.

        Raises ContradictoryLabelsError unless such samples are to be skipped.
        """
        given = self.options
        sampling = PlanSampling(
            given.plan_samples_per_question,
            given.first_plan_fraction,
            given.seed,
            given.balance_plans,
            given.answer_fraction,
        )
        chooser, check = SampleChooser(sampling, self.work), SampleCheck(self.work, RasSample)
        for question in items:
            for sample in question.samples:
                chooser.add(sample)
                check.add(sample)
        self._checked = check.checked(given.skip_contradictions, chooser.chosen())
        return self._checked

    def figures(self, count_tokens: CountTokens) -> RasFigures:
        """Return the columns of RAS Table 4, to be counted."""
        return RasFigures(count_tokens)

    def split_key(self, sample: RasSample) -> str:
        """Return the question: its samples share a split."""
        return sample.question_id

    def examples(self, count: int) -> FirstFew[RasSample]:
        """Return what picks the first sample of each kind."""
        return _Examples()

    def see(self, sample: RasSample) -> None:
        """Count the plans by their number of steps."""
        self._kinds.add(sample)

    def card(self, figures: dict[str, Any], read: Reading[QuestionSamples]) -> dict[str, Any]:
        """Return the figures of both tasks, counts, ways of the triples, options and sources."""
        known, checked = read.found(), self._checked
        names = (
            "seed", "fractions", "top_k", "max_triples", "gold_rate", "plan_samples_per_question",
            "first_plan_fraction", "balance_plans", "answer_fraction", "supported_answers",
            "planned_first", "plan_ahead", "forms",
        )  # fmt: skip
        given = self.options.readings or self.options.triples
        extracted = given.name if given else None
        return {
            "planning": {
                **figures["plan"],
                "kind_foretold_by_steps_alone": round(self._kinds.label_by_steps_alone(), 3),
            },
            "answering": figures["answer"],
            "counts": {
                **known.counts.ordered(),
                **self._kinds.first_plan_counts(),
                **checked.left_out(),
                **({"samples not chosen": checked.not_chosen} if checked.not_chosen else {}),
            },
            "triples_of_passages": count_ways(read.look_ups()),
            **known.skipped_part(),
            "options": {**self.chosen(*names), "extracted_triples": extracted},
            "sources": known.sources,
        }

    def rows(self, card: Mapping[str, Any]) -> list[list[Any]]:
        """Return splits, labels and counts."""
        kinds = (
            ("split", card["splits"]),
            ("label", card["planning"].get("labels", {})),
            ("count", card["counts"]),
        )
        return [[kind, name, count] for kind, part in kinds for name, count in part.items()]
