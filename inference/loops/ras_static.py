"""RAS over passages that are given with the question, for long answers (RAS §4.1, App. F.2)."""

from inference.extraction import TripleExtractor
from inference.loops.graph_reader import GraphReader
from inference.loops.ras import as_history, extract_step
from inference.loops.trace import Trace
from inference.retrieval.passages import Passage
from models.formats.records import QuestionRecord


def context_passages(record: QuestionRecord) -> list[Passage]:
    """The paragraphs given with a question, as passages with ids of their own."""
    return [
        Passage(f"{record.id}/{index}", title, " ".join(s.strip() for s in sentences).strip())
        for index, (title, sentences) in enumerate(record.context)
    ]


class StaticRasLoop:
    """One round over the question's own context, then the answer."""

    def __init__(
        self, reader: GraphReader, extractor: TripleExtractor, max_triples: int = 60
    ) -> None:
        self.reader = reader
        self.extractor = extractor
        self.max_triples = max_triples

    async def answer(self, record: QuestionRecord) -> Trace:
        """Structure the record's context and answer. Raises ValueError when it has none."""
        passages = context_passages(record)
        if not passages:
            raise ValueError(f"question {record.id}: ras_static needs passages in 'context'")
        trace = Trace(record.question)
        step = await extract_step(
            record.question, passages, trace, self.extractor, self.max_triples
        )
        trace.steps.append(step)
        trace.answer = await self.reader.answer(as_history(trace), trace)
        return trace
