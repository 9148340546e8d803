"""The reference engine: Hugging Face models in this process, with dynamic batching."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inference.engines.batching import DynamicBatcher, Limits
from inference.engines.components import ComponentLoader, Served, default_device
from inference.engines.contract import (
    Completion,
    InvalidRequestError,
    PromptTooLongError,
    Request,
    UnknownAdapterError,
    UnsupportedRequestError,
)
from inference.engines.decoding import decode_causal, decode_encoder_decoder
from inference.engines.graph_inputs import collate_requests, to_subgraphs
from inference.engines.prompt_ids import chat_ids, check_placeholder, start_ids, text_ids
from inference.engines.token_choice import RowState
from models.checkpoint import read_component_config
from models.graph import Subgraph
from models.passage_processor import PassageProcessor
from models.ras_processor import RasProcessor


@dataclass(frozen=True, eq=False)
class Prepared:
    """A checked request: ids, graphs and what runs it."""

    request: Request
    served: Served
    input_ids: list[int]
    subgraphs: list[Subgraph]


class TransformersEngine:
    """One backbone, its adapters by name, and a queue in front of them.

    Concurrent `generate` calls share batches; results do not depend on what else is in a batch,
    up to the rounding of the dtype (in float32, greedy tokens are the same).
    """

    def __init__(
        self,
        backbone: str | None = None,
        adapters: Mapping[str, str | Path] | None = None,
        dtype: str = "auto",
        device: str | None = None,
        max_batch_size: int = 32,
        max_batch_tokens: int = 16384,
        revision: str | None = None,
        merge_adapters: bool = False,
    ) -> None:
        """Load models.

        Args:
            backbone: `smollm2`, a Hugging Face id or a folder; None: the first adapter's.
            adapters: component folders ("ras", "t2t" or "tri_rag") by the name that requests give.
            dtype: "auto" (as stored), "bfloat16", "float16" or "float32".
            device: "cpu", "cuda", ...; None: a GPU where there is one.
            max_batch_size: most requests run together.
            max_batch_tokens: most tokens of a batch, the longest prompt and output times rows.
            revision: of the backbone.
            merge_adapters: add each adapter into a copy of the backbone's weights.

        Raises NotACheckpointError, TruncatedCheckpointError, BackboneMismatchError.
        """
        folders = {name: Path(folder) for name, folder in (adapters or {}).items()}
        if backbone is None:
            backbone = _backbone_of(folders)
        loader = ComponentLoader(
            backbone, dtype, device or default_device(), revision, merge_adapters
        )
        self.served = loader.load(folders)
        self.tokenizer = loader.tokenizer
        self._closing = threading.Event()
        limits = Limits(max_batch_size, max_batch_tokens)
        self.batcher: DynamicBatcher[Prepared, Completion] = DynamicBatcher(self._run, limits)

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion a request, in order.

        Raises EngineError: a request that cannot be served is refused before any is run.
        """
        prepared = [self._prepare(request) for request in requests]
        return await self.batcher.submit(
            [
                (
                    item,
                    item.request.adapter,
                    len(item.input_ids) + item.request.sampling.max_new_tokens,
                )
                for item in prepared
            ]
        )

    async def close(self) -> None:
        """Stop at the next token; running and waiting requests end with EngineClosedError."""
        self._closing.set()
        await self.batcher.close()

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` under the backbone's tokenizer, without special tokens."""
        return len(text_ids(self.tokenizer, text))

    def processor(self, adapter: str) -> RasProcessor | PassageProcessor[Any]:
        """The processor of a loaded component, the one that training used."""
        processor = self._find(adapter).processor
        assert processor is not None
        return processor

    def _find(self, adapter: str | None) -> Served:
        if adapter not in self.served:
            known = ", ".join(sorted(name for name in self.served if name)) or "none"
            raise UnknownAdapterError(f"no adapter {adapter!r} is loaded; there is: {known}")
        return self.served[adapter]

    def _prepare(self, request: Request) -> Prepared:
        served = self._find(request.adapter)
        # A component trained without a graph encoder reads the same triples as text alone.
        if request.subgraphs and not isinstance(served.processor, RasProcessor):
            raise UnsupportedRequestError(
                f"adapter {request.adapter!r} reads no graphs; leave subgraphs out"
            )
        input_ids = prompt_ids_of(request, served)
        _check_length(input_ids, request, served)
        subgraphs = to_subgraphs(request.subgraphs) if served.graph_encoder else []
        return Prepared(request, served, input_ids, subgraphs)

    @torch.inference_mode()
    def _run(self, batch: list[Prepared]) -> list[Completion]:
        """Generate for requests of one component; called in the batcher's thread."""
        served = batch[0].served
        served.activate()
        end_ids = served.end_ids()
        rows = [RowState(item.request.sampling, served.tokenizer, end_ids) for item in batch]
        if served.is_encoder_decoder:
            prompts = [item.input_ids for item in batch]
            decode_encoder_decoder(served.model, prompts, rows, self._closing.is_set)
        else:
            embeddings, stop = embed_prompts(batch), self._closing.is_set
            decode_causal(served.model, embeddings, rows, stop, served.deep_prompt)
        return [_completion(item, row) for item, row in zip(batch, rows, strict=True)]


def prompt_ids_of(request: Request, served: Served) -> list[int]:
    """The ids of a request, as the component's processor makes them in training."""
    if request.input_ids is not None:
        if served.graph_position is not None:
            check_placeholder(request.input_ids, served.graph_position, served.tokenizer)
        return list(request.input_ids)
    if request.messages is not None:
        if served.name is not None:
            raise UnsupportedRequestError(
                f"adapter {served.name!r} was trained on prompts; give prompt, not messages"
            )
        return chat_ids(served.tokenizer, request)
    text = request.prompt or ""
    if served.is_encoder_decoder:
        return list(served.tokenizer(text)["input_ids"])
    start = start_ids(served.tokenizer, served.graph_encoder is not None)
    literal = isinstance(served.processor, RasProcessor)
    return start + text_ids(served.tokenizer, text, split_special_tokens=literal)


def embed_prompts(batch: Sequence[Prepared]) -> list[torch.Tensor]:
    """Prompts as embeddings [t_i, d], each graph token in its place (RAS §3.3)."""
    served = batch[0].served
    device, dtype = served.model.device, served.model.dtype
    embed = served.model.get_input_embeddings()
    embeddings = [embed(torch.tensor(item.input_ids, device=device)) for item in batch]
    if served.graph_encoder is None or served.features is None:
        return embeddings
    graphs = collate_requests([item.subgraphs for item in batch], served.features)
    with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
        tokens = served.graph_encoder(graphs.to(device))
    for prompt, token in zip(embeddings, tokens, strict=True):
        prompt[served.graph_position] = token.to(prompt.dtype)
    return embeddings


def _check_length(input_ids: Sequence[int], request: Request, served: Served) -> None:
    new_tokens = request.sampling.max_new_tokens
    limit = served.context_length
    if not input_ids:
        raise InvalidRequestError("the prompt is empty and the tokenizer has no BOS to start from")
    if limit is not None and len(input_ids) + new_tokens > limit:
        raise PromptTooLongError(
            f"the prompt has {len(input_ids)} tokens and {new_tokens} new ones are asked for; "
            f"the model's context holds {limit}. Shorten the prompt or lower max_new_tokens."
        )


def _completion(item: Prepared, row: RowState) -> Completion:
    generated = row.result()
    return Completion(
        text=generated.text,
        token_ids=generated.token_ids,
        input_tokens=len(item.input_ids),
        output_tokens=len(generated.token_ids),
        finish_reason=generated.finish_reason,
        logprobs=generated.logprobs,
    )


def _backbone_of(folders: Mapping[str, Path]) -> str:
    """The backbone that adapters name, a causal one's before a text-to-triples model's own."""
    if not folders:
        raise InvalidRequestError("an engine needs a backbone, or an adapter that names one")
    configs = [read_component_config(folder) for folder in folders.values()]
    configs.sort(key=lambda config: config.get("component") not in ("ras", "tri_rag"))
    return str(configs[0]["backbone"])
