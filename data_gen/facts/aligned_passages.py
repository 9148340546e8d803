"""Passages with the annotated facts that they state, and those that a later source adds to."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from data_gen.facts.entities import mentions
from data_gen.facts.passage_triples import canonical_triples, complete_with_weak, look_up_names
from data_gen.facts.solving_steps import SolvingStep, solving_steps
from data_gen.labelling.labels import weak_triples
from data_gen.sources.splits import hash_fraction
from data_gen.streaming.groups import DiskGroups
from models.facts.subqueries import fill_hops, split_relation
from models.formats.passages import context_passages, passage_key
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord, QuestionRecord, TriplesSample
from models.formats.triples import Triple


def stated_by(passage: PassageRecord, fact: Triple) -> bool:
    """Return whether the fact's object is a substring of the text and its subject is mentioned."""
    subject_there = fact.subject == passage.title or mentions(
        f"{passage.title} {passage.text}", fact.subject
    )
    return bool(fact.object) and fact.object in passage.text and subject_there


def stated_facts(
    record: QuestionRecord, corpus: Mapping[str, PassageRecord]
) -> Iterator[tuple[PassageRecord, Triple]]:
    """Yield the annotated facts of one question, each with the passage that states it.

    Of decompositions only the steps `entity >> relation` give facts; a question in words has no
    relation to name.
    """
    for step in _fact_steps(record, corpus):
        if step.passage is not None and stated_by(step.passage, step.fact):
            yield step.passage, step.fact


def _fact_steps(record: QuestionRecord, corpus: Mapping[str, PassageRecord]) -> list[SolvingStep]:
    steps = solving_steps(record, corpus)
    if record.evidences:
        return steps
    answers = [step.answer for step in record.question_decomposition]
    relations = {
        pair
        for step in record.question_decomposition
        if (pair := split_relation(fill_hops(step.question, answers)))
    }
    return [step for step in steps if (step.fact.subject, step.fact.predicate) in relations]


def supporting_titles(records: Iterable[QuestionRecord]) -> set[str]:
    """Return the titles of the passages that support the records' answers."""
    titles: set[str] = set()
    for record in records:
        titles.update(title for title, _ in record.supporting_facts)
        indices = [step.paragraph_support_idx for step in record.question_decomposition]
        titles.update(record.context[i][0] for i in indices if i is not None)
    return titles


def supporting_texts(records: Iterable[QuestionRecord]) -> set[str]:
    """Return the passages that support the records' answers, as text-to-triples reads them."""
    texts: set[str] = set()
    for record in records:
        supporting = supporting_titles([record])
        texts.update(
            passage_text(passage.title, passage.text)
            for passage in context_passages(record)
            if passage.title in supporting
        )
    return texts


def sample_id(source: str, passage: PassageRecord) -> str:
    """Return an id that depends on the passage's title alone, so that its copies share a split."""
    return f"{source}/{hashlib.sha256(passage.title.encode()).hexdigest()[:16]}"


def aligned_sample(source: str, passage: PassageRecord, facts: Sequence[Triple]) -> TriplesSample:
    """Return the sample of one passage: annotated facts, completed with weak labels."""
    triples = complete_with_weak(passage.title, passage.text, facts)
    text = passage_text(passage.title, passage.text)
    return TriplesSample(sample_id(source, passage), text, triples)


def weak_place(passage: PassageRecord, seed: int) -> float:
    """Return where a passage without annotation stands among those for weak labels."""
    return hash_fraction(f"weak/{passage.title}", seed)


def weak_sample(source: str, passage: PassageRecord) -> TriplesSample | None:
    """Return the sample of a passage without annotation; one weak triple is not enough for one."""
    triples = weak_triples(passage.title, passage.text)
    if len(triples) < 2:
        return None
    text = passage_text(passage.title, passage.text)
    chosen = canonical_triples(passage.text, triples)
    return TriplesSample(sample_id(f"{source}/weak", passage), text, chosen)


def shortened(sample: TriplesSample, max_words: int) -> TriplesSample:
    """Return the sample with its text cut after the last sentence within `max_words` words.

    Triples whose object the cut text no longer mentions are left out.
    """
    words = sample.text.split(" ")
    if len(words) <= max_words:
        return sample
    cut = " ".join(words[:max_words])
    ends = [match.end() for match in re.finditer(r"[.!?](?=\s)", cut)]
    text = cut[: ends[-1]] if ends else cut
    kept = [t for t in sample.triples if t.object in text or mentions(text, t.object)]
    return TriplesSample(sample.id, text, kept)


class LaterAnnotation:
    """Notes for each passage the last stage that annotates it or gives its triples.

    Takes the place of `PassageTriples` in a first reading of all stages.
    """

    def __init__(self, work: Path) -> None:
        self._last = DiskGroups(work)
        self.stage = 0

    def annotate(self, steps: Iterable[SolvingStep]) -> None:
        """Note the passages of steps as annotated in this stage."""
        for step in steps:
            if step.passage is not None and step.fact.subject and step.fact.object:
                self._note(step.passage)

    def add_given(self, passage: PassageRecord, triples: list[Triple]) -> None:
        """Note the passage as given in this stage."""
        self._note(passage)

    def _note(self, passage: PassageRecord) -> None:
        self._last.add(passage_key(passage), str(self.stage), replace=True)

    def touches(
        self, stage: int, corpus: list[PassageRecord] | None
    ) -> Callable[[QuestionRecord], bool]:
        """Return whether a question of `stage` may look up a passage that a later stage changes.

        With such a passage in the corpus any question may, by retrieval.
        """
        if any(self._changes(passage, stage) for passage in corpus or ()):
            return lambda record: True
        return lambda record: any(self._changes(p, stage) for p in context_passages(record))

    def _changes(self, passage: PassageRecord, stage: int) -> bool:
        names = look_up_names(passage_key(passage), passage)
        return any(int(self._last.payload(name) or -1) > stage for name in names)
