"""Which passages a later source of a build tells more about than the sources before it."""

from collections.abc import Callable, Iterable
from pathlib import Path

from data_gen.passage_triples import look_up_names, passage_key
from data_gen.solving_steps import SolvingStep, context_passages
from data_gen.streaming.disk_groups import DiskGroups
from models.formats.records import PassageRecord, QuestionRecord
from models.formats.triples import Triple


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
        self._last.add(passage_key(passage.title, passage.text), str(self.stage), replace=True)

    def touches(
        self, stage: int, corpus: list[PassageRecord] | None
    ) -> Callable[[QuestionRecord], bool]:
        """Whether a question of `stage` may look up a passage that a later stage changes.

        With such a passage in the corpus any question may, by retrieval.
        """
        if any(self._changes(passage, stage) for passage in corpus or ()):
            return lambda record: True
        return lambda record: any(self._changes(p, stage) for p in context_passages(record))

    def _changes(self, passage: PassageRecord, stage: int) -> bool:
        names = look_up_names(passage_key(passage.title, passage.text), passage)
        return any(int(self._last.payload(name) or -1) > stage for name in names)
