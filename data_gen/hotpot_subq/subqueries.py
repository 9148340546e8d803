"""(b) One sub-query for each supporting document, given the earlier ones (RAS App. C.2)."""

import argparse
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from data_gen.facts.entities import mentions
from data_gen.hotpot_subq.documents import cut_to_tokens, kept_documents
from data_gen.hotpot_subq.run import (
    PromptLimit,
    add_call_options,
    add_stage_options,
    asked_endpoint,
    engine_options,
    positive,
    question_files,
)
from data_gen.hotpot_subq.stage import Decision, QuestionWriter, StagePlan, run_stage
from data_gen.sources.arguments import NamedPath
from data_gen.teacher.open_teacher import writer_teacher
from data_gen.teacher.prompts import (
    SUBQUERY_VERSION,
    WRITER_VERSION,
    Asker,
    TeacherCall,
    second_try,
    subquery_prompt,
)
from evaluation.answers import golden_match, normalise_answer
from evaluation.conditions import asks_about
from inference.engines.contract import Request, Sampling
from models.facts.subqueries import hop_references, natural_question, split_relation
from models.formats.helpers import SubqueryInput, read_subquery, subquery_writer_prompt
from models.formats.planning import strip_tags
from models.formats.prompts import passage_text
from models.formats.records import DecompositionStep, QuestionRecord

# The longest sub-query of RAS Table 4 has 62 tokens.
MOST_WORDS = 50
_LATIN_SHARE = 0.7
_WH_WORDS = frozenset({"who", "whom", "whose", "what", "when", "where", "which", "why", "how"})
_AUXILIARIES = frozenset(
    {"is", "are", "was", "were", "did", "does", "do", "has", "have", "had", "can", "could", "would"}
)
# Auxiliaries also begin questions of related languages: "Was ist das?", "Is het een film?".
_NOT_ENGLISH = frozenset({"ist", "das", "ein", "eine", "und", "het", "een"})
_SENTENCE_END = re.compile(r"[a-z]{4,}[.!?][\"')]?\s+[A-Z]")
_TEXT = r"(?:document|passage|text|article|paragraph)\b"
_DOCUMENT = re.compile(
    rf"\bthe document\b|\bthis {_TEXT}|\baccording to the {_TEXT}"
    rf"|\bthe (?:given|current|provided|above|supporting) {_TEXT}",
    re.IGNORECASE,
)
_CHOSEN = frozenset({"yes", "no", "noanswer"})

EMPTY = "empty"
CUT = "cut at the token limit"
PROSE = "prose, not one question"
TOO_LONG = f"more than {MOST_WORDS} words"
OTHER_LANGUAGE = "not in English"
OF_THE_DOCUMENT = "speaks of the document"
GIVES_ANSWER = "gives the answer away"
REPEATED = "asked before"
REFERENCE = "a form that data_gen/build_subq.py reads otherwise"
PROBLEMS = (
    EMPTY, CUT, PROSE, TOO_LONG, OTHER_LANGUAGE, OF_THE_DOCUMENT, GIVES_ANSWER, REPEATED, REFERENCE,
)  # fmt: skip
STAGE = "subqueries"
ELSEWHERE = "names nothing of its document"
_STAND_IN_WORDS = 30
MAX_NEW_TOKENS = 96


def checked_subquery(
    text: str,
    finish_reason: str,
    question: str,
    answers: Sequence[str],
    earlier: Sequence[str],
) -> tuple[str, str]:
    """Return the sub-question in a teacher's text, and what is wrong with it ('' for nothing).

    Never raises. Checked is its form: that it is one English question of its own, names no answer
    of the main question that the main question does not name, and was not asked before. Whether
    its document answers it is not.
    """
    found = read_subquery(text)
    if not found:
        return "", EMPTY
    if finish_reason == "length":
        return found, CUT
    # The form in which other builders give it out again: a capital, one question mark.
    formed = natural_question(" ".join(found.split()))
    return formed, _problem(found, question, answers, earlier)


def _problem(found: str, question: str, answers: Sequence[str], earlier: Sequence[str]) -> str:
    if _is_prose(found):
        return PROSE
    if len(found.split()) > MOST_WORDS:
        return TOO_LONG
    if not is_english_question(found):
        return OTHER_LANGUAGE
    if _DOCUMENT.search(found):
        return OF_THE_DOCUMENT
    if _gives_answer(found, question, answers):
        return GIVES_ANSWER
    if normalise_answer(found) in map(normalise_answer, earlier):
        return REPEATED
    # "#1" is a reference to another step there, ">>" splits a relation, tags end a plan.
    if (
        hop_references(found)
        or split_relation(found)
        or strip_tags(found) != " ".join(found.split())
    ):
        return REFERENCE
    return ""


def _is_prose(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 or not text.rstrip().endswith("?"):
        return True
    return _SENTENCE_END.search(text) is not None


def is_english_question(text: str) -> bool:
    """Return whether a text looks like an English question: Latin letters and a word that asks.

    A guess from a few words, meant for teachers that fall into another language.
    """
    letters = [c for c in text if c.isalpha()]
    latin = sum("LATIN" in unicodedata.name(c, "") for c in letters)
    words = re.findall(r"[a-z]+", text.casefold())
    if not letters or latin < _LATIN_SHARE * len(letters):
        return False
    if _WH_WORDS & set(words):
        return True
    return bool(words) and words[0] in _AUXILIARIES and not _NOT_ENGLISH & set(words)


def _gives_answer(text: str, question: str, answers: Sequence[str]) -> bool:
    """Return whether it holds an answer that the main question does not name itself."""
    for answer in answers:
        plain = normalise_answer(answer)
        if not plain or plain in _CHOSEN:
            continue
        if _names(text, answer) and not _names(question, answer):
            return True
    return False


def _names(text: str, answer: str) -> bool:
    """Return whether it holds the answer, "Owens's" too, which normalisation makes another word."""
    return bool(golden_match(text, [answer], True)) or mentions(text, answer)


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
        """Return the record with its sub-queries in `question_decomposition`, or left out.

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
        """Return a sub-query and what is wrong with it, after a second try where the first is no
        good.
        """
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
    title, sentences = record.context[index]
    return title, " ".join(sentence.strip() for sentence in sentences)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The stage's options."""
    parser.add_argument(
        "--questions", action="append", required=True, metavar="PATH",
        help="questions.jsonl of the filter stage, several times",
    )  # fmt: skip
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--teacher-model", metavar="NAME", help="model of the endpoint to ask")
    asked.add_argument(
        "--teacher", type=Path, metavar="COMPONENT", help="a trained writer, run on this machine"
    )
    parser.add_argument(
        "--max-document-tokens", type=positive(int), default=2000, metavar="N",
        help="a longer document loses its end in the prompt (%(default)s)",
    )  # fmt: skip
    add_stage_options(parser)
    add_call_options(parser, MAX_NEW_TOKENS)


def run(options: argparse.Namespace) -> None:
    """Run the stage."""
    if options.teacher is None:
        teacher = asked_endpoint(options.teacher_model, options)
    else:
        teacher = writer_teacher(options.teacher, engine_options(options))
    longest = min(options.max_prompt_tokens, teacher.max_prompt_tokens or options.max_prompt_tokens)
    stage = SubqueryWriting(
        PromptLimit(longest, teacher.count_tokens),
        teacher.adapter,
        options.max_document_tokens,
        options.max_new_tokens,
    )
    settings = {
        "version": WRITER_VERSION if teacher.adapter else SUBQUERY_VERSION,
        "max_document_tokens": options.max_document_tokens,
        "max_prompt_tokens": longest,
        "max_new_tokens": options.max_new_tokens,
    }
    files = question_files(options, [NamedPath("hotpotqa", path) for path in options.questions])
    plan = StagePlan("subqueries", files, stage.decide, teacher, QuestionWriter, settings)
    run_stage(plan, options)
