"""The facts that a question's annotation asks for, step by step, in solving order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from data_gen.facts.entities import entity_key, mentions, same_fact, written_as
from models.facts.subqueries import (
    fill_hops,
    hop_references,
    natural_question,
    relation_question,
    step_triple,
)
from models.formats.passages import context_passages
from models.formats.records import PassageRecord, QuestionRecord
from models.formats.triples import Triple


def passage_origin(passage: PassageRecord) -> str:
    """Return how a passage is told apart within one question: its title and text, spacing aside."""
    return " ".join(f"{passage.title}\n{passage.text}".split())


@dataclass(frozen=True)
class SolvingStep:
    """One fact to be found.

    `fact`'s subject is its passage's title where there is one. `passage` is where it stands, None
    where the source gives no text. `needs` are positions of earlier steps whose answer the
    sub-question names. A `loose` step is known once its `answer`, or for a step without an answer
    any triple, comes from its passage; the others are known by their fact.
    """

    subquery: str
    fact: Triple
    passage: PassageRecord | None = None
    needs: tuple[int, ...] = ()
    loose: bool = False
    answer: str = ""

    def known(self, triples: Sequence[tuple[str, Triple]]) -> bool:
        """Return whether accumulated (passage origin, triple) pairs hold this step's fact."""
        if not self.loose:
            return any(same_fact(self.fact, triple) for _, triple in triples)
        origin = passage_origin(self.passage) if self.passage else ""
        own = [t for passage, t in triples if self.passage is None or passage == origin]
        if not self.answer:
            return bool(own)
        return any(mentions(text, self.answer) for t in own for text in (t.subject, t.object))


def solving_order(evidences: Sequence[Triple]) -> list[int]:
    """Return positions of the evidences so that each follows those whose object is its subject."""
    order: list[int] = []
    waiting = list(range(len(evidences)))
    while waiting:
        free = [i for i in waiting if not set(_needs(evidences, i)) & set(waiting) - {i}]
        chosen = free[0] if free else waiting[0]
        order.append(chosen)
        waiting.remove(chosen)
    return order


def _needs(evidences: Sequence[Triple], position: int) -> list[int]:
    subject = entity_key(evidences[position].subject)
    return [i for i, e in enumerate(evidences) if i != position and entity_key(e.object) == subject]


def aligned_title(subject: str, titles: Sequence[str]) -> str | None:
    """Return the title that an evidence's subject means: itself, or with what tells it apart.

    "The Zone" is found as "The Zone (2017 film)", "Margaret of Henneberg" is not found as
    "Margaret of Holland, Countess of Henneberg".
    """
    if subject in titles:
        return subject
    key = entity_key(subject)
    for title in titles:
        if entity_key(title) == key or entity_key(title.split(",")[0]) == key:
            return title
    return None


def aligned_titles(
    evidences: Sequence[Triple], titles: Sequence[str], record: QuestionRecord
) -> dict[str, str | None]:
    """Return the passage title of each evidence's subject, None where there is none.

    Subjects under another name ("Margaret of Henneberg") take the supporting titles that are
    left, in order, when there are as many of these.
    """
    aligned = {e.subject: aligned_title(e.subject, titles) for e in evidences}
    supporting = dict.fromkeys(title for title, _ in record.supporting_facts)
    left = [title for title in supporting if title not in aligned.values()]
    without = [subject for subject, title in aligned.items() if title is None]
    if len(left) == len(without):
        aligned.update(zip(without, left, strict=True))
    return aligned


def evidence_titles(record: QuestionRecord) -> dict[str, str | None]:
    """Return title of each evidence's subject among those that the record names, None for none."""
    named = [*(title for title, _ in record.supporting_facts), *(t for t, _ in record.context)]
    evidences = [record.evidences[i] for i in solving_order(record.evidences)]
    return aligned_titles(evidences, list(dict.fromkeys(named)), record)


def _named_subject(question: str, title: str | None, subject: str, bridged: bool) -> str:
    """Return form of the subject that a planner can copy: the question's, else the evidence's."""
    if bridged:
        return subject
    for form in (title, subject):
        written = written_as(question, form) if form else None
        if written:
            return written
    return subject


def evidence_steps(
    record: QuestionRecord, passages: Mapping[str, PassageRecord]
) -> list[SolvingStep]:
    """Steps from evidence triples (2WikiMultihopQA, the world).

    `passages` are a corpus's passages by title, used where the record brings no such text. When
    the record has as many decomposition steps as evidences, those are the sub-questions.
    """
    own = {p.title: p for p in reversed(context_passages(record))}
    order = solving_order(record.evidences)
    evidences = [record.evidences[i] for i in order]
    aligned = evidence_titles(record)
    steps: list[SolvingStep] = []
    for position, evidence in enumerate(evidences):
        title = aligned[evidence.subject]
        passage = own.get(title or "") or passages.get(title or evidence.subject)
        needs = tuple(i for i in _needs(evidences, position) if i < position)
        # A passage about the object may tell the fact: its title is no name of the subject.
        is_objects = title is not None and entity_key(title) == entity_key(evidence.object)
        name = None if is_objects else title
        subject = _named_subject(record.question, name, evidence.subject, bool(needs))
        subquery = relation_question(evidence.predicate, subject)
        if len(record.question_decomposition) == len(evidences):
            answers = [step.answer for step in record.question_decomposition]
            asked = record.question_decomposition[order[position]].question
            subquery = natural_question(fill_hops(asked, answers))
        fact = Triple(name or evidence.subject, evidence.predicate, evidence.object)
        steps.append(SolvingStep(subquery, fact, passage, needs))
    return _distinct(steps)


def _distinct(steps: list[SolvingStep]) -> list[SolvingStep]:
    """Steps without those that ask the same again; positions in `needs` follow."""
    kept: list[SolvingStep] = []
    moved: dict[int, int] = {}
    for position, step in enumerate(steps):
        same = [i for i, other in enumerate(kept) if other.subquery == step.subquery]
        moved[position] = same[0] if same else len(kept)
        if not same:
            needs = tuple(sorted({moved[i] for i in step.needs}))
            kept.append(replace(step, needs=needs))
    return kept


def decomposition_steps(
    record: QuestionRecord, stand_ins: Mapping[str, PassageRecord]
) -> list[SolvingStep]:
    """Steps from a decomposition with answers (MuSiQue).

    `stand_ins` are passages by sub-question, for steps that come without a text.
    """
    passages = context_passages(record)
    answers = [step.answer for step in record.question_decomposition]
    steps: list[SolvingStep] = []
    for step in record.question_decomposition:
        index = step.paragraph_support_idx
        passage = passages[index] if index is not None and index < len(passages) else None
        filled = fill_hops(step.question, answers)
        subquery = natural_question(filled)
        title = (passage.title if passage else "") or filled.rstrip("?")
        fact = step_triple(filled, step.answer, title)
        needs = tuple(i for i in hop_references(step.question) if 0 <= i < len(steps))
        passage = passage or stand_ins.get(subquery)
        steps.append(SolvingStep(subquery, fact, passage, needs, True, step.answer))
    return _distinct(steps)


def supporting_steps(record: QuestionRecord) -> list[SolvingStep]:
    """Steps from supporting facts alone (HotpotQA): one a paragraph."""
    passages = {p.title: p for p in reversed(context_passages(record))}
    titles = list(dict.fromkeys(title for title, _ in record.supporting_facts))
    titles.sort(key=lambda title: not mentions(record.question, title))
    return [
        SolvingStep(
            f"What is known about {title}?", Triple(title, "", ""), passages[title], (), loose=True
        )
        for title in titles
        if title in passages
    ]


def solving_steps(
    record: QuestionRecord, passages: Mapping[str, PassageRecord]
) -> list[SolvingStep]:
    """Return steps of a question by the richest annotation it has; none: no retrieval is needed."""
    if record.evidences:
        return evidence_steps(record, passages)
    if record.question_decomposition:
        return decomposition_steps(record, passages)
    return supporting_steps(record)
