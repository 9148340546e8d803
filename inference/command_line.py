"""What the commands of this folder share: option types, logging and errors for people."""

import argparse
import functools
import logging
import sys
from collections.abc import Callable

from inference.engines.contract import EngineError
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
    EmptyCorpusError,
    EncoderNotFoundError,
    EngineError,
    IndexMismatchError,
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


def command(main: Callable[[], None]) -> Callable[[], None]:
    """End a command whose input is wrong with one line on standard error and status 1."""

    @functools.wraps(main)
    def run() -> None:
        try:
            main()
        except USER_ERRORS as error:
            sys.exit(f"error: {_message(error)}")

    return run


def _message(error: Exception) -> str:
    """The error in one line; the system's own name a file and say no remedy."""
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename}: no such file. Check the path."
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}. Check the path and its permissions."
    return " ".join(str(error).split())
