"""What the commands of this folder share: option types, logging and errors for people."""

import argparse
import logging

from evaluation.commands import one_line_errors
from inference.engines.errors import EngineError
from inference.evaluation_log import EvaluationLogError
from inference.exports.errors import ExportError
from inference.hierarchy.database import HierarchyError
from inference.knowledge_base.output_log import DuplicateDocumentError
from inference.knowledge_base.store import KnowledgeBaseError
from inference.retrieval.passages import EmptyCorpusError, IndexMismatchError
from inference.triple_cache import CacheError
from models.backbone import BackboneNotFoundError
from models.checkpoint import CheckpointError
from models.formats.fields import RecordError
from models.sentence_encoder import EncoderNotFoundError

USER_ERRORS = (
    BackboneNotFoundError,
    CacheError,
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
    OSError,
    RecordError,
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
    logging.getLogger("inference").setLevel(logging.INFO)


command = one_line_errors(*USER_ERRORS)
"""End a command whose input is wrong with one line on standard error and status 1."""
