"""Every retrieval loop: a question in, a trace out, with every step, the graph and the bill."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from inference.indexes.cost import Bill
from inference.retrieval.passages import Passage
from models.formats.fields import triple_json
from models.formats.planning import folded
from models.formats.records import QuestionRecord
from models.formats.triples import Triple


@dataclass(frozen=True)
class Citation:
    """The sentence of a passage that states a fact."""

    passage: str
    title: str
    sentence: str


@dataclass
class TraceStep:
    """One round: what was asked, which passages came, which triples were kept of them.

    `citations` has one a triple, in their order; None where no sentence states it. `decision` is
    what the planner wrote next; empty where no planner was asked. `propositions` are the facts that
    a search of facts found, best first. `texts` is what the reader reads beside triples.
    """

    subquery: str
    passages: list[Passage] = field(default_factory=list)
    triples: list[Triple] = field(default_factory=list)
    decision: str = ""
    propositions: list[Triple] = field(default_factory=list)
    citations: list[Citation | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def cited_triples(self) -> list[tuple[Triple, Citation | None]]:
        """The triples, each with the sentence that states it; None for all of a loop without."""
        citations = self.citations or [None] * len(self.triples)
        return list(zip(self.triples, citations, strict=True))


class TraceListener(Protocol):
    """Whoever follows an answer while it is made."""

    def begins(self, stage: str) -> None:
        """Hear that a stage begins; all that came before it stands in the trace."""
        ...

    def writes(self, text: str) -> None:
        """Hear a piece of the answer as the model writes it."""
        ...


@dataclass
class Trace:
    """A loop's whole answer to one question.

    `notes` say what a reader should know: a history that was cut, a plan that could not be read.
    `cut_passages` are the ids of those that were too long to be read whole.
    `error` is set when the loop failed; the answer is then empty.
    `evidence_only` leaves the answer unwritten: the steps are what is asked for.
    """

    question: str
    answer: str = ""
    steps: list[TraceStep] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    bill: Bill = field(default_factory=Bill)
    error: str | None = None
    cut_passages: set[str] = field(default_factory=set)
    evidence_only: bool = False
    listener: TraceListener | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Bill the seconds of a block under a stage's name, of which the listener hears first."""
        if self.listener is not None:
            self.listener.begins(name)
        with self.bill.stage(name):
            yield

    @property
    def graph(self) -> list[Triple]:
        """The question's graph: every kept triple once, in the order found (RAS eq. 6)."""
        return list(dict.fromkeys(triple for step in self.steps for triple in step.triples))

    def has_asked(self, subquery: str) -> bool:
        """Return whether a step asked this, see `same_question`."""
        return any(same_question(subquery, step.subquery) for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the trace as a JSON object; passages by id and title."""
        return {
            "question": self.question,
            "answer": self.answer,
            "steps": [step_json(step) for step in self.steps],
            "graph": [triple_json(triple) for triple in self.graph],
            "notes": self.notes,
            **({"cut_passages": len(self.cut_passages)} if self.cut_passages else {}),
            "error": self.error,
            "bill": {**asdict(self.bill), "weighted_tokens": self.bill.weighted_tokens},
        }


def same_question(text: str, other: str) -> bool:
    """Return whether two questions differ in spacing and letters' case alone.

    A planner's subqueries have their spaces folded, the question itself need not.
    """
    return folded(text) == folded(other)


def step_json(step: TraceStep) -> dict[str, Any]:
    """Return a step as a JSON object; passages by id and title."""
    found = [triple_json(triple) for triple in step.propositions]
    return {
        "subquery": step.subquery,
        "passages": [{"id": passage.id, "title": passage.title} for passage in step.passages],
        "triples": [triple_json(triple) for triple in step.triples],
        "decision": step.decision,
        **({"propositions": found} if found else {}),
        **({"texts": step.texts} if step.texts else {}),
        **({"citations": [c and vars(c) for c in step.citations]} if step.citations else {}),
    }


class Loop(Protocol):
    """Answers questions; one instance serves many coroutines at once."""

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Answer one question; raises EngineError when the model cannot be reached.

        Only the question is read, and `context` by loops over given passages; never the answer
        or the annotations. trace: of this question, to write into and return; a new one where
        none is given.
        """
        ...
