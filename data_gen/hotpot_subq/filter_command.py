"""(a) Keep the supporting documents that help to answer each question (RAS App. C.1)."""

import argparse

from data_gen.hotpot_subq.call_options import (
    ENDPOINT_TIMEOUT,
    add_call_options,
    add_stage_options,
    check_call_options,
    positive,
    question_files,
)
from data_gen.hotpot_subq.documents import UNITS, DocumentRules
from data_gen.hotpot_subq.filtering import DocumentFilter
from data_gen.hotpot_subq.prompt_limit import PromptLimit
from data_gen.hotpot_subq.run_stage import StagePlan, run_stage
from data_gen.hotpot_subq.stage import QuestionWriter
from data_gen.source_args import named_path
from data_gen.teacher.open_teacher import Teacher, endpoint_teacher, no_teacher
from data_gen.teacher.prompts import FILTER_VERSION

SOURCES = ("hotpotqa", "2wikimultihopqa", "musique", "world")
MAX_NEW_TOKENS = 32


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


def check_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with an error where options contradict each other."""
    check_call_options(parser, options)


def run(options: argparse.Namespace) -> None:
    """Run the stage."""
    teacher = _teacher(options)
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


def _teacher(options: argparse.Namespace) -> Teacher:
    if options.keep_all:
        return no_teacher()
    timeout = options.timeout or ENDPOINT_TIMEOUT
    return endpoint_teacher(options.teacher_model, options.concurrency, timeout)
