"""A request's text as the ids that its component was trained on."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from inference.engines.contract import Request
from inference.engines.errors import InvalidRequestError, UnsupportedRequestError


def start_ids(tokenizer: PreTrainedTokenizerBase, graph_token: bool) -> list[int]:
    """BOS where the tokenizer has one, then the graph placeholder (the padding id)."""
    start = [] if tokenizer.bos_token_id is None else [int(tokenizer.bos_token_id)]
    return [*start, int(tokenizer.pad_token_id)] if graph_token else start


def text_ids(
    tokenizer: PreTrainedTokenizerBase, text: str, split_special_tokens: bool = False
) -> list[int]:
    """Ids of a text alone; `split_special_tokens` reads the name of a special token as text."""
    encoded = tokenizer(
        text,
        add_special_tokens=False,
        split_special_tokens=split_special_tokens,
        verbose=False,
    )
    return list(encoded["input_ids"])


def chat_ids(tokenizer: PreTrainedTokenizerBase, request: Request) -> list[int]:
    """Ids of a chat under the model's own template, the assistant's turn opened."""
    if not tokenizer.chat_template:
        raise UnsupportedRequestError("the model has no chat template; give a prompt instead")
    messages = [dict(message) for message in request.messages or ()]
    if not messages:
        raise InvalidRequestError("the request's messages are empty")
    try:
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    except TemplateError as error:  # such as two turns of one role, which some templates refuse
        raise InvalidRequestError(f"the model's chat template refuses messages: {error}") from None
    return text_ids(tokenizer, str(text))


def check_placeholder(
    input_ids: Sequence[int], position: int, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Raise InvalidRequestError unless ready-made ids hold the graph placeholder in its place."""
    if len(input_ids) <= position or input_ids[position] != tokenizer.pad_token_id:
        raise InvalidRequestError(
            f"input_ids hold no graph placeholder (id {tokenizer.pad_token_id}) at position "
            f"{position}; make them with the component's processor, or give a prompt"
        )


def check_vocabulary(input_ids: Sequence[int], vocabulary_size: int) -> None:
    """Raise InvalidRequestError for an id that no token has: on a GPU it would end the process."""
    for token in input_ids:
        if not 0 <= token < vocabulary_size:
            raise InvalidRequestError(
                f"input_ids hold {token}; the model's tokens are 0 to {vocabulary_size - 1}"
            )
