"""(b) Write one sub-query for each supporting document, given the earlier ones (RAS App. C.2)."""

import argparse
from pathlib import Path

from data_gen.hotpot_subq.call_options import (
    ENDPOINT_TIMEOUT,
    add_call_options,
    add_stage_options,
    check_call_options,
    engine_options,
    positive,
    question_files,
)
from data_gen.hotpot_subq.prompt_limit import PromptLimit
from data_gen.hotpot_subq.run_stage import StagePlan, run_stage
from data_gen.hotpot_subq.stage import QuestionWriter
from data_gen.hotpot_subq.subqueries import SubqueryWriting
from data_gen.source_args import NamedPath
from data_gen.teacher.open_teacher import Teacher, endpoint_teacher, writer_teacher
from data_gen.teacher.prompts import SUBQUERY_VERSION, WRITER_VERSION

MAX_NEW_TOKENS = 96


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


def check_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with an error where options contradict each other."""
    check_call_options(parser, options)


def run(options: argparse.Namespace) -> None:
    """Run the stage."""
    teacher = _teacher(options)
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


def _teacher(options: argparse.Namespace) -> Teacher:
    if options.teacher is not None:
        return writer_teacher(options.teacher, engine_options(options))
    timeout = options.timeout or ENDPOINT_TIMEOUT
    return endpoint_teacher(options.teacher_model, options.concurrency, timeout)
