"""A teacher by what a command line says: a model of an endpoint, or one that runs here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from common.errors import UserError
from inference.engines.contract import Engine, EngineOptions
from inference.engines.openai import CHARACTERS_A_TOKEN
from inference.opening.engine import build_engine

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# The name of a trained sub-query writer among an engine's adapters.
WRITER_ADAPTER = "subquery_writer"


@dataclass(frozen=True)
class Teacher:
    """A model that is not running yet.

    model: tells it from others in the journal. adapter: of its requests. count_tokens: exact for a
    model that runs here, else an estimate. max_prompt_tokens: that it was trained for, counted so.
    is_remote: behind an endpoint.
    """

    model: str
    open_engine: Callable[[], Engine]
    count_tokens: Callable[[str], int]
    adapter: str | None = None
    max_prompt_tokens: int | None = None
    is_remote: bool = False


class TeacherError(UserError, ValueError):
    """A teacher that cannot be opened; the message says why and what to do."""


def endpoint_teacher(model: str, concurrency: int, timeout: float) -> Teacher:
    """Return a model of the endpoint that `OPENAI_BASE_URL` and `OPENAI_API_KEY` name.

    The client makes each request once: retries are TeacherCaller's.
    """
    options = EngineOptions("openai", max_batch_size=concurrency, max_retries=0, timeout=timeout)
    return Teacher(model, lambda: build_engine(options, model), estimated_tokens, is_remote=True)


def no_teacher() -> Teacher:
    """For a stage that asks nobody."""

    def refuse() -> Engine:
        raise TeacherError("this stage was to ask no teacher")

    return Teacher("none", refuse, estimated_tokens)


# models.files.backbone and models.files.checkpoint bring torch, which an endpoint needs none of.
def backbone_teacher(name: str, options: EngineOptions) -> Teacher:
    """Return a plain model that runs here. Raises TeacherError."""
    from common.cache import CacheFolderError
    from models.files.backbone import BackboneNotFoundError, backbone_id, load_tokenizer

    try:
        model, count = f"{name} {backbone_id(name)} {options.dtype}", _counter(load_tokenizer(name))
    except (BackboneNotFoundError, CacheFolderError, OSError) as error:
        raise TeacherError(f"{name}: {error}") from error
    return Teacher(model, lambda: build_engine(options, name), count)


def writer_teacher(folder: Path, options: EngineOptions) -> Teacher:
    """Return a helper that was trained to write sub-queries: its adapter on its backbone.

    Raises TeacherError for a folder that holds none.
    """
    from common.cache import CacheFolderError
    from models.files.backbone import BackboneNotFoundError, load_tokenizer
    from models.files.checkpoint import CheckpointError, component_fingerprint
    from models.helper import COMPONENT, read_helper_config

    try:
        settings = read_helper_config(folder, "subquery")
        model = f"{COMPONENT} {component_fingerprint(folder)} {options.dtype}"
        tokenizer = load_tokenizer(settings.backbone, settings.backbone_revision)
    except (BackboneNotFoundError, CacheFolderError, CheckpointError, OSError) as error:
        raise TeacherError(str(error)) from error
    adapters = {WRITER_ADAPTER: folder}
    # A beginning-of-text token, which no prompt's own count has, takes one place.
    limit = settings.max_input_tokens - (tokenizer.bos_token_id is not None)
    return Teacher(
        model,
        lambda: build_engine(options, settings.backbone, adapters),
        _counter(tokenizer),
        WRITER_ADAPTER,
        limit,
    )


def estimated_tokens(text: str) -> int:
    """About as many tokens as a text has, where its tokenizer is not at hand."""
    return -(-len(text) // CHARACTERS_A_TOKEN)


def _counter(tokenizer: "PreTrainedTokenizerBase") -> Callable[[str], int]:
    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    return count
