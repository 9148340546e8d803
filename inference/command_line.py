"""What the commands of this folder share: logging and errors for people."""

import functools
import logging
import sys
from collections.abc import Callable

from inference.engines.contract import EngineError
from inference.retrieval.passages import EmptyCorpusError, IndexMismatchError
from models.backbone import BackboneNotFoundError
from models.checkpoint import CheckpointError
from models.formats.fields import RecordError

USER_ERRORS = (
    BackboneNotFoundError,
    CheckpointError,
    EmptyCorpusError,
    EngineError,
    FileNotFoundError,
    IndexMismatchError,
    RecordError,
)


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
            sys.exit(f"error: {error}")

    return run
