"""The options of a stage that calls a teacher."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.commands import add_output_options
from data_gen.facts.held_out import HeldOutQuestions
from data_gen.hotpot_subq.documents import QuestionFiles
from data_gen.sources.arguments import NamedPath
from data_gen.teacher.caller import CallLimits, RetryPolicy
from data_gen.teacher.open_teacher import Teacher, endpoint_teacher
from data_gen.teacher.prompts import most_input_tokens, request_text
from data_gen.teacher.spending import Prices, SpendCap
from inference.engines.contract import ENGINE_KINDS, EngineOptions, Request
from models.files.backbone import DTYPE_CHOICES, NATIVE, resolve_dtype

LOCAL_ENGINES = tuple(kind for kind in ENGINE_KINDS if kind != "openai")
ENDPOINT_TIMEOUT = 120.0


@dataclass(frozen=True)
class PromptLimit:
    """Prompts above `max_tokens` are refused before the call: an API would charge for them."""

    max_tokens: int
    count_tokens: Callable[[str], int]

    def fits(self, request: Request) -> bool:
        """Return whether a request's prompt has at most `max_tokens` tokens."""
        if most_input_tokens(request) <= self.max_tokens:
            return True
        return self.count_tokens(request_text(request)) <= self.max_tokens


def positive(number: type[int] | type[float]) -> "type[int] | type[float]":
    """Return an argparse type for a number above 0."""

    def read(text: str) -> float:
        value = number(text)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r}: give a number above 0")
        return value

    read.__name__ = number.__name__  # argparse names the type in its own errors
    return read  # type: ignore[return-value]


def add_stage_options(parser: argparse.ArgumentParser) -> None:
    """Input, output and bookkeeping of a stage."""
    add = parser.add_argument
    add_output_options(parser)
    add("--journal", type=Path, help="answers of all calls (teacher_journal.jsonl beside --out)")
    add("--limit", type=positive(int), metavar="N", help="only the first N questions")
    add("--skip-bad", action="store_true", help="skip and count broken records")
    add(
        "--exclude", type=Path, action="append", default=[], metavar="PATH",
        help="test questions (contract form): left out, with what shares a hop or a fact with one",
    )  # fmt: skip
    add(
        "--leave-out-failed", action="store_true",
        help="write without the questions whose calls failed (else the stage ends with an error "
        "and is run again)",
    )  # fmt: skip
    add("--dry-run", action="store_true", help="print the estimate of calls and cost, and end")


def add_call_options(parser: argparse.ArgumentParser, max_new_tokens: int) -> None:
    """Limits, prices and caps of calls, and how a model that runs here is run."""
    add = parser.add_argument_group("calls").add_argument
    add("--concurrency", type=positive(int), default=16, help="calls in flight (%(default)s)")
    add("--attempts", type=positive(int), default=10, help="of one call (%(default)s)")
    add(
        "--backoff", type=positive(float), default=1.0, metavar="SECONDS",
        help="longest first wait; doubles up to a minute, each wait drawn from 0 up (%(default)s)",
    )  # fmt: skip
    add(
        "--timeout", type=positive(float), metavar="SECONDS",
        help=f"of one attempt (endpoint: {ENDPOINT_TIMEOUT:g}; a model that runs here: none)",
    )  # fmt: skip
    add(
        "--max-prompt-tokens", type=positive(int), default=8000, metavar="N",
        help="longer prompts are not sent, their questions left out (%(default)s)",
    )  # fmt: skip
    add(
        "--max-new-tokens", type=positive(int), default=max_new_tokens, metavar="N",
        help="of one answer (%(default)s)",
    )  # fmt: skip
    add("--input-price", type=float, default=0.0, help="of a million input tokens")
    add("--output-price", type=float, default=0.0, help="of a million output tokens")
    add(
        "--max-spend", type=positive(float),
        help="most that all calls in the journal together may cost, at the given prices",
    )  # fmt: skip
    add("--max-tokens", type=positive(int), help="most tokens that they may take")
    add(
        "--engine", choices=LOCAL_ENGINES, default="auto",
        help="what runs a model here (%(default)s: vLLM on a GPU where it is installed)",
    )  # fmt: skip
    add(
        "--engines", type=positive(int), default=1,
        help="ray: how many, on this machine or at RAY_ADDRESS (default: %(default)s)",
    )  # fmt: skip
    add("--dtype", choices=DTYPE_CHOICES, default=NATIVE)


def check_call_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with an error where options contradict each other."""
    if options.input_price < 0 or options.output_price < 0:
        parser.error("a price is not below 0")
    if options.max_spend is not None and not (options.input_price or options.output_price):
        parser.error("--max-spend needs --input-price and --output-price")
    if options.journal is None:
        options.journal = options.out.absolute().parent / "teacher_journal.jsonl"
    if options.out.absolute() in options.journal.absolute().parents:
        parser.error("--journal lies in --out, which is replaced: name a place beside it")


def question_files(options: argparse.Namespace, files: list[NamedPath]) -> QuestionFiles:
    """Return the input of a stage."""
    held_out = HeldOutQuestions.of_files(options.exclude)
    return QuestionFiles(files, options.limit, options.skip_bad, held_out)


def prices(options: argparse.Namespace) -> Prices:
    """Return the prices given."""
    return Prices(options.input_price, options.output_price)


def call_limits(options: argparse.Namespace, remote: bool) -> CallLimits:
    """Return what the caller keeps to."""
    return CallLimits(
        concurrency=options.concurrency,
        prices=prices(options),
        cap=SpendCap(options.max_spend, options.max_tokens),
        retries=RetryPolicy(options.attempts, options.backoff),
        deadline_seconds=options.timeout or (ENDPOINT_TIMEOUT if remote else None),
    )


def asked_endpoint(model: str, options: argparse.Namespace) -> Teacher:
    """Return the model of an endpoint that the options say how to ask."""
    timeout = options.timeout or ENDPOINT_TIMEOUT
    return endpoint_teacher(model, options.concurrency, timeout)


def engine_options(options: argparse.Namespace) -> EngineOptions:
    """Return how a model that runs here is run."""
    return EngineOptions(
        kind=options.engine,
        dtype=resolve_dtype(options.dtype),
        max_batch_size=options.concurrency,
        engines=options.engines,
    )
