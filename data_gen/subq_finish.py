"""From the samples of all questions to the files: sampling, check of labels, splits, card."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from data_gen.card import token_counter, write_card
from data_gen.checked_samples import CheckedSamples, SampleCheck
from data_gen.figures import RasFigures
from data_gen.found import Found
from data_gen.passage_triples import count_ways
from data_gen.plan_kinds import PlanKinds
from data_gen.sampling import PlanSampling, SampleChooser
from data_gen.streaming.observed import observed
from data_gen.subq_build import QuestionSamples
from data_gen.write_splits import write_splits
from models.formats.records import RasSample


class _Examples:
    """Five samples: one of each label kind, the rest answers."""

    def __init__(self) -> None:
        self._chosen: dict[str, RasSample] = {}

    def add(self, sample: RasSample) -> None:
        """See a sample."""
        kind = sample.label.split(" ", 1)[0] if sample.task == "plan" else "answer"
        self._chosen.setdefault(f"{kind}/{bool(sample.history)}", sample)

    def samples(self) -> list[RasSample]:
        """The first five."""
        return list(self._chosen.values())[:5]


def finish_subq(
    questions: Iterable[QuestionSamples],
    found: Callable[[], Found],
    look_ups: Callable[[], Iterable[str]],
    options: argparse.Namespace,
    folder: Path,
    work: Path,
) -> dict[str, Any]:
    """Write the splits and the card to `folder`; returns the card.

    questions: in the order of the build. found, look_ups: asked when these have been read; the
    latter are sorted lines of `PassageTriples.look_ups`. The samples pass through a file in `work`,
    so that memory does not grow with them but for a few bytes each.
    Raises ContradictoryLabelsError unless such samples are to be skipped, and SystemExit when there
    are no samples.
    """
    checked = _checked(questions, options, work)
    if not len(checked):
        raise SystemExit("no samples: the sources hold no questions")
    count_tokens, unit = token_counter(options.tokenizer)
    figures, kinds, examples = RasFigures(count_tokens), PlanKinds(), _Examples()
    passing = tqdm(checked, desc="writing", unit="sample")
    seen = observed(passing, figures.add, kinds.add, examples.add)
    splits = write_splits(folder, seen, lambda s: s.question_id, options.seed, options.fractions)
    columns, known = figures.figures(), found()
    card = {
        "title": "Planner and answerer samples",
        "splits": splits,
        "counted_in": unit,
        "planning": {
            **columns["plan"],
            "kind_foretold_by_steps_alone": round(kinds.label_by_steps_alone(), 3),
        },
        "answering": columns["answer"],
        "counts": {
            **known.counts.ordered(),
            **kinds.first_plan_counts(),
            "prompts that came again": checked.repeats,
            "contradictory samples dropped": checked.contradictions,
            **({"samples not chosen": checked.not_chosen} if checked.not_chosen else {}),
        },
        "triples_of_passages": count_ways(look_ups()),
        "skipped_records": dict(known.skipped),
        "skipped_examples": known.skipped_examples,
        "options": _options(options),
        "sources": known.sources,
        "samples_to_read": [sample.to_json() for sample in examples.samples()],
    }
    write_card(folder, card)
    return card


def _options(options: argparse.Namespace) -> dict[str, Any]:
    names = (
        "seed", "fractions", "top_k", "max_triples", "gold_rate", "plan_samples_per_question",
        "first_plan_fraction", "balance_plans", "answer_fraction",
    )  # fmt: skip
    given = {name: getattr(options, name) for name in names}
    extracted = options.triples.name if options.triples else None
    return {**given, "fractions": list(options.fractions), "extracted_triples": extracted}


def _checked(
    questions: Iterable[QuestionSamples], options: argparse.Namespace, work: Path
) -> CheckedSamples[RasSample]:
    sampling = PlanSampling(
        options.plan_samples_per_question,
        options.first_plan_fraction,
        options.seed,
        options.balance_plans,
        options.answer_fraction,
    )
    chooser, check = SampleChooser(sampling, work), SampleCheck(work, RasSample)
    for question in questions:
        for sample in question.samples:
            chooser.add(sample)
            check.add(sample)
    return check.checked(options.skip_contradictions, chooser.chosen())
