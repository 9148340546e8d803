"""Triples that say nothing: of a thing itself, or none at all where some are the label."""

from data_gen.audits.findings import Choice, Example, Finding, Reservoir, Severity, graded
from data_gen.audits.table import Seen
from data_gen.entity_text import plain_words
from models.formats.records import RasSample, TriplesSample
from models.formats.triples import Triple


def shown_triples(sample: RasSample | TriplesSample) -> list[Triple]:
    """The triples of a history, or those that are the label."""
    if isinstance(sample, TriplesSample):
        return sample.triples
    return [triple for step in sample.history for triple in step.triples]


def is_self_loop(triple: Triple) -> bool:
    """Whether subject and object are one name; "Dawn (album)" and "Dawn" are two."""
    return plain_words(triple.subject) == plain_words(triple.object)


class EmptyTriples:
    """Samples with a triple from a thing to itself, and texts of which no triple is told."""

    def __init__(self, choice: Choice) -> None:
        self._samples = self._texts = 0
        self._loops = Reservoir(choice, "self_loop")
        self._empty = Reservoir(choice, "no_triples")

    def see(self, seen: Seen) -> None:
        """Count one sample."""
        triples = shown_triples(seen.record)
        self._samples += bool(triples)
        if loop := next(filter(is_self_loop, triples), None):
            self._loops.offer(Example((seen.place,), " | ".join(vars(loop).values())))
        if isinstance(seen.record, TriplesSample):
            self._texts += 1
            if not triples:
                self._empty.offer(Example((seen.place,)))

    def findings(self) -> list[Finding]:
        """What was found; empty labels only where triples are the label."""
        loops, empty = self._loops, self._empty
        found = [
            Finding(
                "self_loop", graded(Severity.WARNING, loops.seen), loops.seen, self._samples,
                "samples with triples",
                "hold a triple whose subject is its object: what was said is lost",
                "check the builder's step from a question to its triple "
                "(data_gen/subqueries.py), or leave such triples out",
                loops.examples(),
            )
        ]  # fmt: skip
        if self._texts:
            found.append(
                Finding(
                    "no_triples", graded(Severity.WARNING, empty.seen), empty.seen, self._texts,
                    "samples", "have no triple as their label: a model learns to leave facts out",
                    "leave out texts without facts, or keep few of them",
                    empty.examples(),
                )
            )  # fmt: skip
        return found
