"""One sub-query for each supporting document, given the earlier ones (RAS App. C.2, Fig. 8)."""

from dataclasses import dataclass, replace

from data_gen.hotpot_subq.decision import Decision
from data_gen.hotpot_subq.documents import cut_to_tokens, kept_documents
from data_gen.hotpot_subq.prompt_limit import PromptLimit
from data_gen.hotpot_subq.subquery_checks import checked_subquery
from data_gen.teacher.calls import Asker, TeacherCall, second_try
from data_gen.teacher.prompts import SUBQUERY_VERSION, WRITER_VERSION, subquery_prompt
from evaluation.subqueries import asks_about
from inference.engines.contract import Request, Sampling
from models.formats.prompts import passage_text
from models.formats.records import DecompositionStep, QuestionRecord
from models.formats.subquery_writer import SubqueryInput, subquery_writer_prompt

STAGE = "subqueries"
ELSEWHERE = "names nothing of its document"
_STAND_IN_WORDS = 30


@dataclass(frozen=True)
class SubqueryWriting:
    """Writes the sub-queries of one question after another.

    adapter: the name of a trained writer in the engine; None asks an API teacher with the long
    prompt. max_document_tokens: of a document in a prompt; longer ones lose their end there.
    """

    limit: PromptLimit
    adapter: str | None = None
    max_document_tokens: int = 2000
    max_new_tokens: int = 96

    async def decide(self, record: QuestionRecord, asker: Asker) -> Decision:
        """The record with its sub-queries in `question_decomposition`, or left out.

        A text that is no good sub-query is asked for once more with another seed; then the
        question is left out. Raises CallFailedError, RunStoppedError.
        """
        earlier: list[str] = []
        steps: list[DecompositionStep] = []
        notes: list[str] = []
        for index in kept_documents(record):
            call = self._call(record, index, tuple(earlier), notes)
            if not self.limit.fits(call.request):
                return Decision(record, "prompt above the token limit", notes=tuple(notes))
            subquery, problem = await self._ask(record, call, earlier, asker, notes)
            if problem:
                return Decision(record, f"sub-query: {problem}", notes=tuple(notes))
            if not asks_about(subquery, passage_text(*_document(record, index))):
                notes.append(ELSEWHERE)
            earlier.append(subquery)
            steps.append(DecompositionStep(subquery, "", index))
        if not steps:
            return Decision(record, "no supporting documents")
        written = replace(record, question_decomposition=steps)
        return Decision(written, f"{len(steps)} sub-queries", kept=True, notes=tuple(notes))

    def _call(
        self, record: QuestionRecord, index: int, earlier: tuple[str, ...], notes: list[str]
    ) -> TeacherCall:
        title, text = _document(record, index)
        shown = cut_to_tokens(text, self.max_document_tokens, self.limit.count_tokens)
        if shown != text:
            notes.append("documents cut to the token limit")
        given = SubqueryInput(record.question, title, shown, earlier)
        prompt = subquery_writer_prompt(given) if self.adapter else subquery_prompt(given)
        request = Request(
            prompt=prompt, adapter=self.adapter, sampling=Sampling(self.max_new_tokens)
        )
        version = WRITER_VERSION if self.adapter else SUBQUERY_VERSION
        return TeacherCall(request, version, STAGE, record.id, self._stand_in(len(earlier)))

    def _stand_in(self, position: int) -> str:
        """About `max_new_tokens` of text that every check lets through."""
        word = "x" * (4 * self.max_new_tokens // _STAND_IN_WORDS)
        return f"What is {'again ' * position}{' '.join([word] * _STAND_IN_WORDS)}?"

    async def _ask(
        self,
        record: QuestionRecord,
        call: TeacherCall,
        earlier: list[str],
        asker: Asker,
        notes: list[str],
    ) -> tuple[str, str]:
        """A sub-query and what is wrong with it, after a second try where the first is no good."""
        for attempt in (call, second_try(call)):
            answer = await asker.ask(attempt)
            subquery, problem = checked_subquery(
                answer.text, answer.finish_reason, record.question, record.answers, earlier
            )
            if not problem:
                break
            notes.append(f"refused: {problem}")
        return subquery, problem


def _document(record: QuestionRecord, index: int) -> tuple[str, str]:
    """Title and text of a paragraph."""
    title, sentences = record.context[index]
    return title, " ".join(sentence.strip() for sentence in sentences)
