"""What the commands of this folder share: option types, logging and errors for people."""

import argparse
import functools
import logging
import signal
import sys
import threading
from collections.abc import Callable

from evaluation.commands import one_line_errors
from evaluation.shards import ShardError
from inference.engines.errors import EngineError
from inference.evaluation_log import EvaluationLogError
from inference.exports.errors import ExportError
from inference.hierarchy.database import HierarchyError
from inference.knowledge_base.output_log import DuplicateDocumentError
from inference.knowledge_base.store import KnowledgeBaseError
from inference.propositions.parts import PropositionIndexError
from inference.retrieval.passages import EmptyCorpusError, IndexMismatchError
from inference.triple_cache import CacheError
from models.backbone import BackboneNotFoundError
from models.cache import CacheFolderError
from models.checkpoint import CheckpointError
from models.formats.fields import RecordError
from models.sentence_encoder import EncoderNotFoundError


class OptionsError(ValueError):
    """Options that do not go together; the message says which and what to do."""


USER_ERRORS = (
    BackboneNotFoundError,
    CacheError,
    CacheFolderError,
    CheckpointError,
    DuplicateDocumentError,
    EmptyCorpusError,
    EncoderNotFoundError,
    EngineError,
    EvaluationLogError,
    ExportError,
    HierarchyError,
    IndexMismatchError,
    KnowledgeBaseError,
    OptionsError,
    OSError,
    PropositionIndexError,
    RecordError,
    ShardError,
)


def positive_int(text: str) -> int:
    """An argparse type for a number of 1 or more."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number of 1 or more")
    return number


def configure_logging() -> None:
    """Warnings of libraries and information of this project on standard error."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    for ours in ("inference", "models"):
        logging.getLogger(ours).setLevel(logging.INFO)


def command(main: Callable[[], None]) -> Callable[[], None]:
    """Decorator of a command's main: a wrong input ends it with one line on standard error.

    SIGTERM ends it as an exit does (status 143), so that an engine's processes end with it.
    """
    reported = one_line_errors(*USER_ERRORS)(main)

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
