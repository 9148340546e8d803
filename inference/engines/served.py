"""Names that requests may ask a local engine for, and its checks, prompt ids and graphs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from jinja2 import TemplateError

from inference.engines.contract import (
    DeadlineExceededError,
    InvalidRequestError,
    PromptTooLongError,
    Request,
    SubgraphInput,
    UnknownAdapterError,
    UnsupportedRequestError,
)
from inference.engines.long_texts import TokenizerThread
from models.files.text_table import TextFeatures
from models.parts.graph import (
    GraphBatch,
    Subgraph,
    build_subgraph,
    collate_graphs,
    encode_subgraphs,
    graph_texts,
)
from models.parts.graph_encoder import GraphEncoder
from models.processors.passages import PassageProcessor, text_ids
from models.processors.ras import RasProcessor

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# About what a chat template puts around a message.
TEMPLATE_CHARACTERS = 32


def start_ids(tokenizer: PreTrainedTokenizerBase, graph_token: bool) -> list[int]:
    """Return BOS where the tokenizer has one, then the graph placeholder (the padding id)."""
    start = [] if tokenizer.bos_token_id is None else [int(tokenizer.bos_token_id)]
    return [*start, int(tokenizer.pad_token_id)] if graph_token else start


def chat_text(tokenizer: PreTrainedTokenizerBase, request: Request) -> str:
    """Return a chat under the model's own template, the assistant's turn opened."""
    if not tokenizer.chat_template:
        raise UnsupportedRequestError("the model has no chat template; give a prompt instead")
    messages = [dict(message) for message in request.messages or ()]
    if not messages:
        raise InvalidRequestError("the request's messages are empty")
    try:
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    except TemplateError as error:  # such as two turns of one role, which some templates refuse
        raise InvalidRequestError(f"the model's chat template refuses messages: {error}") from None
    return str(text)


def characters_of(request: Request) -> int:
    """Return about how many characters a request gives to tokenise."""
    messages = request.messages or ()
    texts = [text for message in messages for text in message.values()]
    return len(request.prompt or "") + TEMPLATE_CHARACTERS * len(messages) + sum(map(len, texts))


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


def to_subgraphs(given: Sequence[SubgraphInput] | None) -> list[Subgraph]:
    """Return a request's sub-graphs, those given as triples built as in training."""
    return [
        subgraph if isinstance(subgraph, Subgraph) else build_subgraph(subgraph)
        for subgraph in given or ()
    ]


def collate_requests(samples: Sequence[Sequence[Subgraph]], features: TextFeatures) -> GraphBatch:
    """Return one batch of all requests' graphs; each distinct text is embedded once.

    A request without graphs stays in the batch as an empty sample.
    """
    texts = graph_texts(subgraph for sample in samples for subgraph in sample)
    rows = {text: row for row, text in enumerate(texts)}

    def rows_of(wanted: list[str]) -> npt.NDArray[np.int64]:
        return np.array([rows[text] for text in wanted], dtype=np.int64)

    encoded = [encode_subgraphs(sample, rows_of) for sample in samples]
    return collate_graphs(encoded, features.features(texts))


@dataclass(eq=False)
class Served:
    """One name that requests may ask for.

    name: None for the plain backbone.
    context_length: most tokens of soft prompt, text and output together; None where positions are
        unbounded.
    input_limit: most tokens that its encoder reads; None for a causal model and where unbounded.
    end_ids: tokens that end a text. vocabulary_size: columns of the logits.
    own_backbone: it runs another model than the engine's.
    prefix_length: tokens of its soft prompt.
    processor: makes the component's prompts; None for the plain backbone.
    graph_encoder, features: for a component that reads graphs; placed at `graph_position`.
    """

    name: str | None
    tokenizer: PreTrainedTokenizerBase
    context_length: int | None
    end_ids: frozenset[int]
    vocabulary_size: int
    is_encoder_decoder: bool = False
    input_limit: int | None = None
    own_backbone: bool = False
    prefix_length: int = 0
    processor: RasProcessor | PassageProcessor[Any] | None = None
    graph_encoder: GraphEncoder | None = None
    features: TextFeatures | None = None
    graph_position: int | None = None

    def encodes_graph(self, request: Request) -> bool:
        """Return whether the component puts a graph's token into the request's prompt."""
        return self.graph_encoder is not None and request.graph_encode

    async def prompt_ids(self, request: Request, thread: TokenizerThread) -> list[int]:
        """Return `input_ids`, which the thread makes of a long text, once all is made for them.

        Raises its errors, those of `make_ready` and DeadlineExceededError.
        """
        input_ids = await thread.run(
            self.tokenizer,
            characters_of(request),
            lambda tokenizer: self.input_ids(request, tokenizer),
            request.deadline_seconds,
        )
        try:
            async with asyncio.timeout(request.deadline_seconds):
                await self.make_ready()
        except TimeoutError:
            raise DeadlineExceededError(request.deadline_seconds) from None
        return input_ids

    async def make_ready(self) -> None:
        """Make what the first request needs and takes long, beside the event loop; nothing here."""

    def input_ids(
        self, request: Request, tokenizer: PreTrainedTokenizerBase | None = None
    ) -> list[int]:
        """Return the checked ids of a request, as the component's processor makes them in training.

        tokenizer: a copy of the component's own.

        Raises UnsupportedRequestError, InvalidRequestError, PromptTooLongError.
        """
        # A component trained without a graph encoder reads the same triples as text alone.
        if request.subgraphs and not isinstance(self.processor, RasProcessor):
            raise UnsupportedRequestError(
                f"adapter {request.adapter!r} reads no graphs; leave subgraphs out"
            )
        input_ids = self._prompt_ids(request, self.tokenizer if tokenizer is None else tokenizer)
        self._check_length(input_ids, request)
        return input_ids

    def _prompt_ids(self, request: Request, tokenizer: PreTrainedTokenizerBase) -> list[int]:
        if request.input_ids is not None:
            if self.graph_position is not None and request.graph_encode:
                check_placeholder(request.input_ids, self.graph_position, self.tokenizer)
            check_vocabulary(request.input_ids, self.vocabulary_size)
            return list(request.input_ids)
        if request.messages is not None:
            if self.name is not None:
                raise UnsupportedRequestError(
                    f"adapter {self.name!r} was trained on prompts; give prompt, not messages"
                )
            return text_ids(tokenizer, chat_text(tokenizer, request))
        text = request.prompt or ""
        # Every component was trained on texts in which a special token's name is text.
        literal = self.processor is not None
        if self.is_encoder_decoder:
            return text_ids(tokenizer, text, literal, add_special_tokens=True)
        start = start_ids(tokenizer, self.encodes_graph(request))
        return start + text_ids(tokenizer, text, split_special_tokens=literal)

    def _check_length(self, input_ids: Sequence[int], request: Request) -> None:
        if not input_ids:
            raise InvalidRequestError(
                "the prompt is empty and the tokenizer has no BOS to start from"
            )
        tokens, new_tokens = len(input_ids), request.sampling.max_new_tokens
        if self.input_limit is not None and tokens > self.input_limit:
            raise PromptTooLongError(
                f"the prompt has {tokens} tokens; the model's encoder reads {self.input_limit}. "
                "Shorten the prompt."
            )
        if self.context_length is None:
            return
        limit = self.context_length - self.prefix_length
        if tokens + new_tokens > limit:
            raise PromptTooLongError(
                f"the prompt has {tokens} tokens and {new_tokens} new ones are asked for; "
                f"the model's context holds {limit}. Shorten the prompt or lower max_new_tokens."
            )


def all_end_ids(
    tokenizer: PreTrainedTokenizerBase, generation_config: object | None
) -> frozenset[int]:
    """Return the ids that end a text: the tokenizer's and the generation configuration's."""
    configured = getattr(generation_config, "eos_token_id", None)
    listed = configured if isinstance(configured, list) else [configured]
    return frozenset(int(token) for token in [*listed, tokenizer.eos_token_id] if token is not None)


ServedT = TypeVar("ServedT", bound=Served)


class ServedNames(Generic[ServedT]):
    """The served components by name, and adapters behind another component's soft prompt."""

    def __init__(
        self,
        served: Mapping[str | None, ServedT],
        combine: Callable[[ServedT, ServedT], ServedT],
    ) -> None:
        """combine: makes of an adapter and a soft prompt what runs them together.

        It is called in the event loop and leaves what takes long to `make_ready`.
        """
        self.by_name = dict(served)
        self._combine = combine
        self._combined: dict[tuple[str | None, str], ServedT] = {}

    def add(self, name: str, served: ServedT) -> None:
        """Serve another component, or a new one under an old name."""
        self.by_name[name] = served
        self._combined = {pair: kept for pair, kept in self._combined.items() if name not in pair}

    def find(self, adapter: str | None, soft_prompt: str | None = None) -> ServedT:
        """Return the component that a request names.

        Raises UnknownAdapterError, naming those there are; UnsupportedRequestError for a soft
        prompt that is none, or that cannot go together with the adapter.
        """
        served = self._named(adapter)
        if soft_prompt is None:
            return served
        pair = (adapter, soft_prompt)
        if pair not in self._combined:
            prompt = self._named(soft_prompt)
            if not prompt.prefix_length:
                raise UnsupportedRequestError(f"{soft_prompt!r} has no soft prompt")
            if served.prefix_length or served.own_backbone:
                raise UnsupportedRequestError(
                    f"{adapter!r} takes no soft prompt in front: it has one already, or a backbone "
                    "of its own"
                )
            self._combined[pair] = self._combine(served, prompt)
        return self._combined[pair]

    def _named(self, name: str | None) -> ServedT:
        if name not in self.by_name:
            known = ", ".join(sorted(name for name in self.by_name if name)) or "none"
            raise UnknownAdapterError(f"no adapter {name!r} is loaded; there is: {known}")
        return self.by_name[name]
