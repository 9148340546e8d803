"""What a question's annotations say about a trace: supporting passages and the stage to blame."""

from collections.abc import Iterable, Sequence

from evaluation.error_analysis import NeededFact, Stage, blame
from inference.loops.trace import Trace
from inference.retrieval.passages import Passage
from models.formats.history import one_line
from models.formats.records import QuestionRecord


class GoldPassages:
    """Finds a question's supporting paragraphs in the corpus, by title and text."""

    def __init__(self, corpus: Iterable[Passage]) -> None:
        self._by_text: dict[tuple[str, str], str] = {}
        self._by_title: dict[str, list[str]] = {}
        for passage in corpus:
            self._by_text.setdefault((passage.title, _key(passage.text)), passage.id)
            self._by_title.setdefault(passage.title, []).append(passage.id)

    def ids(self, record: QuestionRecord) -> list[str]:
        """Corpus ids of the supporting paragraphs, each once; those not in the corpus are left out.

        MuSiQue repeats titles, so its paragraphs are known by `paragraph_support_idx`.
        """
        indices = [step.paragraph_support_idx for step in record.question_decomposition]
        if record.context and indices and None not in indices:
            paragraphs = [record.context[index] for index in indices if index is not None]
        else:
            titles = dict.fromkeys(title for title, _ in record.supporting_facts)
            paragraphs = [paragraph for paragraph in record.context if paragraph[0] in titles]
        found = [self._by_text.get((t, _key("".join(ss)))) for t, ss in paragraphs]
        return list(dict.fromkeys(identifier for identifier in found if identifier))

    def titled(self, title: str) -> Sequence[str]:
        """Ids of the passages with this title."""
        return self._by_title.get(title, [])


def _key(text: str) -> str:
    # Sources differ in the spaces between sentences.
    return one_line(text).replace(" ", "")


def needed_facts(record: QuestionRecord, gold: GoldPassages) -> list[NeededFact]:
    """Facts behind the answer: evidence triples, or the steps of a decomposition."""
    supporting = gold.ids(record)
    if record.evidences:
        return [
            NeededFact(t.subject, t.object, list(gold.titled(t.subject)) or supporting)
            for t in record.evidences
        ]
    return []


def stage_of(record: QuestionRecord, trace: Trace, correct: bool, gold: GoldPassages) -> Stage:
    """The stage that lost the question (see `evaluation.error_analysis.blame`).

    Without evidence triples (MuSiQue) a fact is there when the step's answer stands in the graph.
    """
    facts = needed_facts(record, gold)
    retrieved = {passage.id for step in trace.steps for passage in step.passages}
    subqueries = [step.subquery for step in trace.steps]
    graph = [(triple.subject, triple.object) for triple in trace.graph]
    if not facts and record.question_decomposition:
        facts = _decomposition_facts(record, gold)
        graph += [(entity, entity) for pair in graph for entity in pair]
    return blame(correct, facts, graph, retrieved, subqueries)


def _decomposition_facts(record: QuestionRecord, gold: GoldPassages) -> list[NeededFact]:
    """A fact a step, known by its answer alone; it stands in the step's own paragraph."""
    facts = []
    for step in record.question_decomposition:
        one_step = QuestionRecord(
            record.id,
            step.question,
            step.answer,
            context=record.context,
            question_decomposition=[step],
        )
        facts.append(NeededFact(step.answer, step.answer, gold.ids(one_step)))
    return facts


def recall(record: QuestionRecord, trace: Trace, gold: GoldPassages) -> float | None:
    """Share of the supporting passages that any step retrieved; None where none are known."""
    supporting = gold.ids(record)
    if not supporting:
        return None
    retrieved = {passage.id for step in trace.steps for passage in step.passages}
    return sum(identifier in retrieved for identifier in supporting) / len(supporting)
