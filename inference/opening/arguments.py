"""Command-line options and errors that the commands of this folder share."""

import argparse
import functools
import logging
import signal
import sys
import threading
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from common.commands import one_line_errors
from inference.engines.contract import ENGINE_KINDS, RAY_ENGINES, EngineOptions
from inference.retrieval.passages import (
    Passage,
    documents_of_questions,
    load_corpus,
)
from models.files.backbone import DTYPE_CHOICES, resolve_dtype

# Under the same name there and here; an endpoint's address and key are the environment's, its
# retries the defaults, and what log-probabilities are of is the command's to say.
ELSEWHERE = ("kind", "base_url", "api_key", "max_retries", "timeout", "logprobs_of")
OPTIONS = [field.name for field in fields(EngineOptions) if field.name not in ELSEWHERE]


def whole_number(least: int) -> Callable[[str], int]:
    """Return what reads a number of `least` or more, as an argparse type."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"{text!r}: give a whole number of {least} or more")
        return number

    return read


positive_int = whole_number(1)


def _cpus(text: str) -> float:
    """Read what Ray takes as CPUs."""
    try:
        cpus = float(text)
    except ValueError:
        cpus = 0.0
    if not 0 < cpus < 1 and not (cpus >= 1 and cpus.is_integer()):
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number, or a part of one CPU")
    return cpus


def configure_logging() -> None:
    """Warnings of libraries and information of this project on standard error."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    for ours in ("inference", "models"):
        logging.getLogger(ours).setLevel(logging.INFO)


def command(main: Callable[[], None]) -> Callable[[], None]:
    """Decorator of a command's main: a wrong input ends it with one line on standard error.

    SIGTERM ends it as an exit does (status 143), so that an engine's processes end with it.
    """
    reported = one_line_errors()(main)

    @functools.wraps(main)
    def run() -> None:
        if threading.current_thread() is not threading.main_thread():
            reported()
            return
        earlier = signal.signal(signal.SIGTERM, _exit)
        try:
            reported()
        finally:
            signal.signal(signal.SIGTERM, earlier)

    return run


def _exit(signal_number: int, _frame: object) -> None:
    sys.exit(128 + signal_number)


def add_engine_arguments(parser: ArgumentParser) -> None:
    """Options of `EngineOptions` with its defaults; what a key is comes from the environment."""
    group = parser.add_argument_group("engine")
    add = group.add_argument
    add(
        "--engine",
        choices=ENGINE_KINDS,
        help="what runs the models: auto is vLLM where it and a GPU are there, transformers "
        "otherwise; ray is several of these (default: %(default)s)",
    )
    add(
        "--dtype",
        choices=DTYPE_CHOICES,
        help="of the backbone's weights; native: bfloat16 where this machine computes in it, else "
        "float32; auto: as stored (default: %(default)s)",
    )
    add(
        "--max-batch-size",
        type=positive_int,
        help="requests that the engine runs at once (default: %(default)s)",
    )
    add(
        "--max-batch-tokens",
        type=positive_int,
        help="transformers: most tokens of a batch, rows times the longest prompt and output; what "
        "a GPU has room for makes fuller batches (default: %(default)s)",
    )
    add(
        "--merge-adapters",
        action=BooleanOptionalAction,
        help="transformers: serve each adapter merged into a copy of the backbone (default: yes)",
    )
    add(
        "--gpu-memory-utilization",
        type=float,
        help="vLLM: share of the GPU's memory that it may use (default: %(default)s)",
    )
    add(
        "--tensor-parallel-size",
        type=positive_int,
        help="vLLM: GPUs that share one model (default: %(default)s)",
    )
    add(
        "--max-model-len",
        type=positive_int,
        help="vLLM: most tokens of prompt and output (default: the backbone's context)",
    )
    add(
        "--compile",
        action=BooleanOptionalAction,
        help="vLLM: compile the model, a minute at the start (default: on a GPU)",
    )
    add(
        "--prompt-lookup-tokens",
        type=whole_number(0),
        metavar="TOKENS",
        help="vLLM: draft so many tokens a step from what followed the same words before (prompt-"
        "lookup decoding); 0: none (default: %(default)s)",
    )
    add("--engines", type=positive_int, help="ray: how many (default: %(default)s)")
    add(
        "--ray-engine",
        choices=RAY_ENGINES,
        help="ray: what each of them is (default: %(default)s)",
    )
    add(
        "--engine-cpus",
        type=_cpus,
        metavar="CPUS",
        help="ray: CPUs of each, a whole number or less than 1 (default: as many as each can have)",
    )
    add(
        "--ray-address",
        metavar="HOST:PORT",
        help="ray: the head of a cluster (default: RAY_ADDRESS, else one on this machine)",
    )
    add(
        "--constrain",
        action="store_true",
        help="hold plans, triples and condition triplets to their grammars",
    )
    defaults = {name: getattr(EngineOptions, name) for name in OPTIONS}
    parser.set_defaults(engine=EngineOptions.kind, **defaults)


def engine_options_from(arguments: Namespace) -> EngineOptions:
    """Return the engine's options out of a parsed command line."""
    given = {name: getattr(arguments, name) for name in OPTIONS}
    # As it is on this machine, so that an evaluation's folder says it.
    given["dtype"] = resolve_dtype(given["dtype"])
    return EngineOptions(kind=arguments.engine, **given)


def add_corpus_arguments(parser: ArgumentParser, required: bool = True) -> None:
    """`--corpus` and what narrows it down; `documents_from` reads them.

    required: False where a command has something to do without new documents.
    """
    add = parser.add_argument
    without = "" if required else "; none: only delete or count"
    add("--corpus", required=required, type=Path, help="JSON Lines of {id, title, text}" + without)
    add("--limit", type=positive_int, help="only the first so many documents")
    add("--questions", type=Path, help="only documents in the contexts of these questions")
    add("--question-limit", type=positive_int, help="of the first so many of them")


def add_searched_corpus(parser: ArgumentParser) -> None:
    """`--corpus` and `--question-documents` of an evaluation's command."""
    add = parser.add_argument
    add("--corpus", type=Path, help="JSON Lines of {id, title, text}, for loops that search")
    add(
        "--question-documents",
        action="store_true",
        help="search only the documents in the contexts of the data set's questions",
    )


def documents_from(arguments: Namespace) -> list[Passage]:
    """Return the documents that a parsed command line names; none without `--corpus`.

    Raises OSError, RecordError, EmptyCorpusError.
    """
    if arguments.corpus is None:
        return []
    corpus = load_corpus(arguments.corpus)
    if arguments.questions:
        corpus = documents_of_questions(corpus, arguments.questions, arguments.question_limit)
    return corpus[: arguments.limit]
