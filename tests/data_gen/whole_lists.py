"""The builders' streaming steps on whole lists, for tests."""

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from data_gen.facts.aligned_passages import stated_facts, weak_place, weak_sample
from data_gen.samples.labels import check_labels
from data_gen.samples.sampling import PlanKinds, PlanSampling, SampleChooser, balanced_places
from data_gen.sources.splits import hash_fraction
from models.formats.records import PassageRecord, QuestionRecord, RasSample, TriplesSample
from models.formats.triples import Triple


def choose_plan_samples(samples: list[RasSample], sampling: PlanSampling) -> list[RasSample]:
    """The samples that `sampling` keeps, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        chooser = SampleChooser(sampling, Path(folder))
        for sample in samples:
            chooser.add(sample)
        chosen = chooser.chosen()
    return [sample for sample, stays in zip(samples, chosen, strict=True) if stays]


@dataclass(frozen=True)
class Checked:
    """Samples with distinct prompts, and how many were left out for which reason."""

    samples: list[RasSample]
    repeats: int
    contradictions: int


def checked_samples(samples: list[RasSample], drop_contradictions: bool = False) -> Checked:
    """`check_labels` without anything on disk afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        checked = check_labels(samples, drop_contradictions, RasSample, Path(folder))
        return Checked(list(checked), checked.repeats, checked.contradictions)


def plan_kinds(samples: Iterable[RasSample]) -> PlanKinds:
    """The kinds of all samples."""
    kinds = PlanKinds()
    for sample in samples:
        kinds.add(sample)
    return kinds


def balanced(samples: list[TriplesSample], limit: int, seed: int) -> list[TriplesSample]:
    """The samples that a balance of relations keeps, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        kept = balanced_places(samples, limit, seed, Path(folder))
    return [sample for sample, stays in zip(samples, kept, strict=True) if stays]


def first_by_hash(samples: list[TriplesSample], limit: int, seed: int) -> list[TriplesSample]:
    """What a cap takes, as it was before the builders were streaming."""
    return sorted(samples, key=lambda s: hash_fraction(f"cap/{s.id}", seed))[:limit]


def facts_by_title(
    records: Iterable[QuestionRecord], corpus: Mapping[str, PassageRecord]
) -> dict[str, list[Triple]]:
    """The distinct facts that passages state, by the passages' titles."""
    found: dict[str, list[Triple]] = {}
    for record in records:
        for passage, fact in stated_facts(record, corpus):
            facts = found.setdefault(passage.title, [])
            facts += [fact] if fact not in facts else []
    return found


def weak_samples(passages: Iterable[PassageRecord], seed: int) -> list[TriplesSample]:
    """The samples of passages without annotation, in the order in which a build takes them."""
    ordered = sorted(passages, key=lambda passage: weak_place(passage, seed))
    made = (weak_sample("2wikimultihopqa", passage) for passage in ordered)
    return [sample for sample in made if sample]
