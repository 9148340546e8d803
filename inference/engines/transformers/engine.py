"""The reference engine: Hugging Face models in this process, with dynamic batching."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from inference.engines.batch_choice import Job, Limits, Running, Work
from inference.engines.batching import DynamicBatcher, RunningBatch
from inference.engines.component_loader import first_backbone
from inference.engines.contract import Completion, Health, LogprobsOf, Request
from inference.engines.long_texts import TokenizerThread
from inference.engines.running_requests import probe
from inference.engines.served import ServedNames, collate_requests, to_subgraphs
from inference.engines.text_pieces import TextPieces, text_pieces
from inference.engines.token_choice import ConstraintCompiler, RowState
from inference.engines.transformers.components import (
    LocalServed,
    TransformersComponentLoader,
)
from inference.engines.transformers.decoding import decode_causal, decode_encoder_decoder
from inference.engines.transformers.freed_memory import FreedMemory
from models.files.backbone import default_device
from models.parts.graph import Subgraph
from models.processors.passages import PassageProcessor, text_ids
from models.processors.ras import RasProcessor

# An engine at work that has not come to its next call of the model for so long is stuck.
STALLED_SECONDS = 120.0


@dataclass(frozen=True, eq=False)
class Prepared:
    """A checked request: ids, graphs, what runs it, and whether anyone still waits for it.

    pieces: of its text, where someone listens.
    """

    request: Request
    served: LocalServed
    input_ids: list[int]
    subgraphs: list[Subgraph]
    pieces: TextPieces | None = None
    settled: threading.Event = field(default_factory=threading.Event)

    @cached_property
    def prompt(self) -> Hashable:
        """What the model reads; requests of one component with equal prompts read the same."""
        graphs = [
            (graph.nodes, graph.edges, graph.edge_index.tobytes()) for graph in self.subgraphs
        ]
        return tuple(self.input_ids), self.request.graph_encode, tuple(graphs)

    def work(self) -> Work[Prepared]:
        """Return what the batcher needs to know of it."""
        new_tokens = self.request.sampling.max_new_tokens
        return Work(
            self,
            group=id(self.served),
            length=len(self.input_ids) + new_tokens,
            new_tokens=new_tokens,
            deadline_seconds=self.request.deadline_seconds,
            on_settled=self.settled.set,
        )


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
        merge_adapters: bool = False,
        logprobs_of: LogprobsOf = "model",
    ) -> None:
        """Load models.

        Args:
            backbone: `smollm2`, a Hugging Face id or a folder; None: the first adapter's.
            adapters: component folders ("ras", "t2t" or "tri_rag") by the name that requests give.
            dtype: "auto" (as stored), "bfloat16", "float16" or "float32".
            device: "cpu", "cuda", ...; None: a GPU where there is one.
            max_batch_size: most requests run together.
            max_batch_tokens: most tokens of a batch, the longest prompt and output times rows.
            merge_adapters: add each adapter into a copy of the backbone's weights.
            logprobs_of: see `EngineOptions`.

        Raises NotACheckpointError, TruncatedCheckpointError, BackboneMismatchError.
        """
        folders = {name: Path(folder) for name, folder in (adapters or {}).items()}
        if backbone is None:
            backbone = first_backbone(folders)
        device = device or default_device()
        loader = TransformersComponentLoader(backbone, dtype, device, merge_adapters)
        self.served = ServedNames(loader.load_all(folders), loader.combined)
        self.tokenizer = loader.tokenizer
        self._logprobs_of = logprobs_of
        self._compilers: dict[int, ConstraintCompiler] = {}
        self._tokenizing = TokenizerThread()
        self._closing = threading.Event()
        self._progress: float | None = None
        self._freed = FreedMemory() if torch.device(device).type == "cpu" else None
        limits = Limits(max_batch_size, max_batch_tokens)
        self.batcher: DynamicBatcher[Prepared, Completion] = DynamicBatcher(self._run, limits)

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion for each request, in order.

        Raises EngineError: a request that cannot be served is refused before any is run.
        """
        prepared = [await self._prepare(request) for request in requests]
        if not self.batcher.unfinished:
            # What it came to before it idled says nothing of what begins now.
            self._progress = time.monotonic()
        return await self.batcher.submit([item.work() for item in prepared])

    async def health(self) -> Health:
        """Return whether the running batch goes on, or an idle engine comes to a token."""
        if self._closing.is_set():
            return Health(False, "the engine is closed")
        running = self.batcher.unfinished
        if not running:
            return await probe(self)
        since = None if self._progress is None else time.monotonic() - self._progress
        stalled = since is not None and since > STALLED_SECONDS
        return Health(not stalled, "no progress lately" if stalled else "", running, since)

    async def close(self) -> None:
        """Stop at the next token; running and waiting requests end with EngineClosedError."""
        self._closing.set()
        await self.batcher.close()

    def count_tokens(self, text: str) -> int:
        """Return the tokens of `text` under the backbone's tokenizer, without special tokens."""
        return len(text_ids(self.tokenizer, text))

    def processor(self, adapter: str) -> RasProcessor | PassageProcessor[Any]:
        """Return the processor of a loaded component, the one that training used."""
        processor = self.served.find(adapter).processor
        assert processor is not None
        return processor

    async def _prepare(self, request: Request) -> Prepared:
        served = self.served.find(request.adapter, request.soft_prompt)
        input_ids = await served.prompt_ids(request, self._tokenizing)
        if request.constraint is not None:
            self._compiler(served).check(request.constraint)
        subgraphs = to_subgraphs(request.subgraphs) if served.encodes_graph(request) else []
        pieces = text_pieces(request, served.tokenizer)
        # A batch that fails is run again in parts, which has to go on with the text that was begun.
        request = replace(request, sampling=request.sampling.seeded())
        return Prepared(request, served, input_ids, subgraphs, pieces)

    @torch.inference_mode()
    def _run(self, batch: RunningBatch[Prepared, Completion]) -> None:
        """Generate for requests of one component; called in the batcher's thread."""
        jobs = batch.jobs
        served = jobs[0].work.item.served
        served.activate()
        rows = [self._row(job, batch) for job in jobs]
        if served.is_encoder_decoder:
            prompts = [job.work.item.input_ids for job in jobs]
            decode_encoder_decoder(served.model, prompts, rows, self._at_call)
            return

        def join(running: Running, least: int) -> tuple[list[torch.Tensor], list[RowState]]:
            joining = batch.join(running, least)
            return _embedded(joining), [self._row(job, batch) for job in joining]

        decode_causal(served.model, _embedded(jobs), rows, self._at_call, served.deep_prompt, join)

    def _at_call(self) -> bool:
        """Called before each call of the model: notes the progress, says whether to stop."""
        self._progress = time.monotonic()
        if self._freed is not None:
            self._freed.give_back()
        return self._closing.is_set()

    def _row(
        self, job: Job[Prepared, Completion], batch: RunningBatch[Prepared, Completion]
    ) -> RowState:
        """Return the state of a job's row, which hands over the outcome as soon as it is done."""
        item = job.work.item
        constraint, served = item.request.constraint, item.served
        matcher = None if constraint is None else self._compiler(served).matcher(constraint)
        if item.pieces is not None:
            item.pieces.begin()
        return RowState(
            item.request.sampling,
            served.tokenizer,
            served.end_ids,
            matcher,
            item.settled.is_set,
            None if item.pieces is None else item.pieces.grow,
            lambda row: batch.finish(job, _completion(item, row)),
            self._logprobs_of,
        )

    def _compiler(self, served: LocalServed) -> ConstraintCompiler:
        """Of the vocabulary of a component's tokenizer, made when first asked for."""
        key = id(served.tokenizer)
        if key not in self._compilers:
            self._compilers[key] = ConstraintCompiler(served.tokenizer, served.vocabulary_size)
        return self._compilers[key]


def _embedded(jobs: Sequence[Job[Prepared, Completion]]) -> list[torch.Tensor]:
    return embed_prompts([job.work.item for job in jobs]) if jobs else []


def embed_prompts(batch: Sequence[Prepared]) -> list[torch.Tensor]:
    """Return the prompts as embeddings [t_i, d], each graph token in its place (RAS §3.3).

    Requests with the same prompt, such as draws of several answers to it, have one tensor.
    """
    served = batch[0].served
    device, dtype = served.model.device, served.model.dtype
    embed = served.model.get_input_embeddings()
    different = {item.prompt: item for item in batch}
    embeddings = {
        prompt: embed(torch.tensor(item.input_ids, device=device))
        for prompt, item in different.items()
    }
    if served.graph_encoder is not None and served.features is not None:
        graphs = collate_requests([item.subgraphs for item in different.values()], served.features)
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            tokens = served.graph_encoder(graphs.to(device))
        for (prompt, item), token in zip(different.items(), tokens, strict=True):
            if served.encodes_graph(item.request):
                embedded = embeddings[prompt]
                embedded[served.graph_position] = token.to(embedded.dtype)
    return [embeddings[item.prompt] for item in batch]


def _completion(item: Prepared, row: RowState) -> Completion:
    generated = row.result()
    if item.pieces is not None and row.finish_reason != "abandoned":
        item.pieces.end(generated.text)
    return Completion(
        text=generated.text,
        token_ids=generated.token_ids,
        input_tokens=len(item.input_ids),
        output_tokens=len(generated.token_ids),
        finish_reason=generated.finish_reason,
        logprobs=generated.logprobs,
    )
