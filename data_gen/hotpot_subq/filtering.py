"""Keeps the questions whose documents suffice for a teacher, and no fewer (RAS App. C.1)."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from data_gen.hotpot_subq.documents import (
    UNITS,
    DocumentRules,
    SupportingDocument,
    clean_record,
    holds_answer,
    prepare_documents,
    with_documents,
)
from data_gen.hotpot_subq.run import (
    PromptLimit,
    add_call_options,
    add_stage_options,
    asked_endpoint,
    positive,
    question_files,
)
from data_gen.hotpot_subq.stage import Decision, QuestionWriter, StagePlan, run_stage
from data_gen.sources.arguments import named_path
from data_gen.teacher.open_teacher import no_teacher
from data_gen.teacher.prompts import FILTER_VERSION, Asker, TeacherCall, filter_prompt, second_try
from inference.engines.contract import Request, Sampling
from models.formats.prompts import passage_text
from models.formats.records import QuestionRecord

STAGE = "filter"
UNREADABLE = "the teacher's answer has no document numbers"
ANSWER_DROPPED = "the teacher drops the document with the answer"
_NUMBERS = re.compile(r"[0-9]{1,4}(?:\s*(?:,|;|&|and|\s)\s*[0-9]{1,4})*", re.IGNORECASE)
_LABEL = re.compile(r"^(?:output|answer|docs?|documents?)\s*:\s*", re.IGNORECASE)
SOURCES = ("hotpotqa", "2wikimultihopqa", "musique", "world")
MAX_NEW_TOKENS = 32


@dataclass(frozen=True)
class DocumentFilter:
    """Decides about one question after another.

    keep_all: no teacher is asked; the rules alone decide. max_new_tokens: of an answer.
    """

    rules: DocumentRules
    limit: PromptLimit
    keep_all: bool = False
    max_new_tokens: int = 32

    async def decide(self, record: QuestionRecord, asker: Asker) -> Decision:
        """Keep the question with its helpful documents, or leave it out and say why.

        An answer that cannot be read, or that drops the document with the answer, is asked for
        once more. Raises CallFailedError, RunStoppedError.
        """
        cleaned = clean_record(record)
        prepared = prepare_documents(cleaned, self.rules)
        notes = list(prepared.notes)
        if cleaned != record:
            notes.append("markup removed")
        documents = prepared.documents
        if prepared.problem:
            return Decision(cleaned, prepared.problem, notes=tuple(notes))
        if self.keep_all or len(documents) == 1:
            outcome = "one document, not asked" if len(documents) == 1 else "all kept, not asked"
            return Decision(with_documents(cleaned, documents, []), outcome, True, False, (*notes,))
        call = self._call(cleaned, documents)
        if not self.limit.fits(call.request):
            return Decision(cleaned, "prompt above the token limit", notes=(*notes,))
        decision = await self._ask(cleaned, documents, call, asker)
        return replace(decision, notes=(*notes, *decision.notes))

    def _call(self, record: QuestionRecord, documents: Sequence[SupportingDocument]) -> TeacherCall:
        texts = [passage_text(document.title, document.text) for document in documents]
        prompt = filter_prompt(record.question, texts)
        request = Request(prompt=prompt, sampling=Sampling(self.max_new_tokens))
        everything = ",".join(str(number + 1) for number in range(len(documents)))
        return TeacherCall(request, FILTER_VERSION, STAGE, record.id, everything)

    async def _ask(
        self,
        record: QuestionRecord,
        documents: Sequence[SupportingDocument],
        call: TeacherCall,
        asker: Asker,
    ) -> Decision:
        notes: tuple[str, ...] = ()
        for attempt in (call, second_try(call)):
            answer = await asker.ask(attempt)
            numbers = read_numbers(answer.text, len(documents))
            decision = _decision(record, documents, numbers)
            if decision.outcome not in (UNREADABLE, ANSWER_DROPPED):
                break
            notes = (*notes, f"refused: {decision.outcome}")
        return replace(decision, notes=notes)


def _decision(
    record: QuestionRecord, documents: Sequence[SupportingDocument], numbers: list[int] | None
) -> Decision:
    """Return what follows from the helpful documents' numbers; None: they cannot be read."""
    if numbers is None:
        return Decision(record, UNREADABLE)
    if not numbers:
        return Decision(record, "no helpful document")
    kept = [document for n, document in enumerate(documents, start=1) if n in numbers]
    dropped = [document for n, document in enumerate(documents, start=1) if n not in numbers]
    if not holds_answer(record, kept):
        return Decision(record, ANSWER_DROPPED)
    outcome = "some documents dropped" if dropped else "all documents helpful"
    return Decision(with_documents(record, kept, dropped), outcome, kept=True)


def read_numbers(text: str, documents: int) -> list[int] | None:
    """Return the document numbers in a text, each once; [] for "none", None for anything else.

    Prose is not searched for numbers, nor is a number beyond the last document taken.
    """
    words = _LABEL.sub("", text.strip().strip("*`\"'[]()")).strip().strip("[]().")
    if words.casefold() == "none":
        return []
    if not _NUMBERS.fullmatch(words):
        return None
    numbers = list(dict.fromkeys(map(int, re.findall("[0-9]+", words))))
    return numbers if all(1 <= number <= documents for number in numbers) else None


def add_options(parser: argparse.ArgumentParser) -> None:
    """The stage's options."""
    add = parser.add_argument
    add(
        "--source", type=named_path(SOURCES), action="append", required=True, metavar="NAME=PATH",
        help=f"questions with supporting facts, several times; NAME: {', '.join(SOURCES)}",
    )  # fmt: skip
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--teacher-model", metavar="NAME", help="model of the endpoint to ask")
    asked.add_argument(
        "--keep-all", action="store_true", help="ask nobody: the rules about documents alone"
    )
    add(
        "--documents", choices=UNITS, default="paragraphs",
        help="what a document is: a paragraph, or each supporting sentence as in RAS Fig. 7 "
        "(%(default)s)",
    )  # fmt: skip
    add(
        "--max-document-tokens", type=positive(int), default=2000, metavar="N",
        help="a longer document loses its end (%(default)s)",
    )  # fmt: skip
    add_stage_options(parser)
    add_call_options(parser, MAX_NEW_TOKENS)


def run(options: argparse.Namespace) -> None:
    """Run the stage."""
    teacher = no_teacher() if options.keep_all else asked_endpoint(options.teacher_model, options)
    rules = DocumentRules(options.documents, options.max_document_tokens, teacher.count_tokens)
    limit = PromptLimit(options.max_prompt_tokens, teacher.count_tokens)
    stage = DocumentFilter(rules, limit, options.keep_all, options.max_new_tokens)
    settings = {
        "version": FILTER_VERSION,
        "documents": options.documents,
        "max_document_tokens": options.max_document_tokens,
        "max_prompt_tokens": options.max_prompt_tokens,
        "max_new_tokens": options.max_new_tokens,
    }
    files = question_files(options, options.source)
    plan = StagePlan("filter", files, stage.decide, teacher, QuestionWriter, settings)
    run_stage(plan, options)
