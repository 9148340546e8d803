"""The engine to serve with: vLLM, in one instance graphs, LoRA adapters and soft prompts."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inference.engines.batch_choice import Limits, Work
from inference.engines.batching import DynamicBatcher, all_at_once
from inference.engines.component_loader import first_backbone
from inference.engines.contract import (
    Completion,
    Constraint,
    DeadlineExceededError,
    EngineError,
    GenerationError,
    Health,
    InvalidRequestError,
    Request,
    generation_error,
)
from inference.engines.long_texts import TokenizerThread
from inference.engines.running_requests import completions_of, probe
from inference.engines.served import ServedNames, collate_requests, to_subgraphs
from inference.engines.text_pieces import TextPieces, text_pieces
from inference.engines.token_choice import ConstraintCompiler, output_text
from inference.engines.transformers.engine import TransformersEngine
from inference.engines.vllm.components import (
    VLLMComponentLoader,
    VLLMServed,
    check_capacity,
    decided,
)
from inference.engines.vllm.process import REQUEST_KEY, VLLMProcess, VLLMSettings, start_vllm
from inference.engines.vllm.supervisor import Supervisor
from models.parts.graph import Subgraph
from models.processors.passages import text_ids

GRAPH_BATCH_SIZE = 64


class VLLMEngine:
    """One vLLM instance in a process of its own, and a graph encoder per component in this one.

    Lives in one event loop. Every request is on its own in vLLM, which batches them at each token.
    """

    def __init__(
        self,
        backbone: str | None = None,
        adapters: Mapping[str, str | Path] | None = None,
        dtype: str = "auto",
        settings: VLLMSettings | None = None,
    ) -> None:
        """Start vLLM and load components; returns once it is ready (half a minute and more).

        Args:
            backbone: `smollm2`, a Hugging Face id or a folder; None: the first adapter's.
            adapters: component folders ("ras", "t2t" or "tri_rag") by the name that requests give.
            dtype: "auto" (as stored), "bfloat16", "float16" or "float32".
            settings: of vLLM.

        Raises EngineError: vLLM did not start; UnsupportedRequestError: a component that it cannot
        serve; NotACheckpointError, TruncatedCheckpointError, BackboneMismatchError.
        """
        folders = {name: Path(folder) for name, folder in (adapters or {}).items()}
        wanted = settings or VLLMSettings()
        loader = VLLMComponentLoader(backbone or first_backbone(folders), wanted.max_model_len)
        served: dict[str | None, VLLMServed] = {None: loader.plain()}
        for name, folder in folders.items():
            served[name] = loader.load(name, folder)
        self.served = ServedNames(served, loader.combined)
        self.settings = decided(wanted, served.values())
        for component in served.values():
            check_capacity(component, self.settings)
        self.tokenizer = loader.tokenizer
        self._loader = loader
        self._dtype = dtype
        self._compiler = ConstraintCompiler(loader.tokenizer, loader.vocabulary_size)
        self._graphs: DynamicBatcher[Prepared, torch.Tensor] = DynamicBatcher(
            all_at_once(encode_graphs), Limits(GRAPH_BATCH_SIZE, GRAPH_BATCH_SIZE)
        )
        self._tokenizing = TokenizerThread()
        self._beside = self._open_beside(folders)
        self._numbers = itertools.count()
        self.supervisor = Supervisor(
            self._start, self.settings.max_restarts, self.settings.stall_seconds
        )

    def _start(self) -> VLLMProcess:
        loader = self._loader
        return start_vllm(loader.source, self._dtype, self.settings, loader.prefix_folder)

    def _open_beside(self, folders: Mapping[str, Path]) -> dict[str, TransformersEngine]:
        """Return an engine for each component whose model vLLM does not hold."""
        return {
            name: TransformersEngine(
                adapters={name: folder},
                dtype=self._dtype,
                logprobs_of=self.settings.logprobs_of,
            )
            for name, folder in folders.items()
            if self.served.find(name).own_backbone
        }

    def add_adapter(self, name: str, folder: str | Path) -> None:
        """Serve another component from now on; vLLM reads its adapter at the first request.

        Raises UnsupportedRequestError: the engine was not started for its like; the errors of a
        folder that is no component of this backbone.
        """
        served = self._loader.load(name, Path(folder))
        check_capacity(served, self.settings)
        self.served.add(name, served)
        self._beside |= self._open_beside({name: Path(folder)})

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return a completion for each request; raises the first failure once all are done.

        Raises EngineError: a request that cannot be served is refused before any is run.
        """
        prepared = [await self._prepare(request) for request in requests]
        return await completions_of(map(self._settle, prepared))

    async def health(self) -> Health:
        """Return whether vLLM took a step lately, or an idle one answers."""
        supervisor = self.supervisor
        if not supervisor.running:
            return await probe(self, supervisor.restarts)
        since = supervisor.seconds_since_progress()
        ok = supervisor.process.alive() and (since or 0.0) <= self.settings.stall_seconds
        reason = "" if ok else "no step lately, or its process is dead"
        return Health(ok, reason, supervisor.running, since, supervisor.restarts)

    async def close(self) -> None:
        """End vLLM's process; what runs ends with EngineClosedError."""
        await self.supervisor.close()
        await self._graphs.close()
        for engine in self._beside.values():
            await engine.close()

    @property
    def preemptions(self) -> int:
        """Requests that were put off for want of cache, since the process started."""
        return self.supervisor.process.progress.preemptions

    @property
    def draft_tokens(self) -> int:
        """Tokens that prompt lookup drafted, since the process started."""
        return self.supervisor.process.progress.draft_tokens

    @property
    def accepted_tokens(self) -> int:
        """Draft tokens that the model agreed with, since the process started."""
        return self.supervisor.process.progress.accepted_tokens

    def count_tokens(self, text: str) -> int:
        """Return the tokens of `text` under the backbone's tokenizer, without special tokens."""
        return len(text_ids(self.tokenizer, text))

    async def _prepare(self, request: Request) -> Prepared:
        served = self.served.find(request.adapter, request.soft_prompt)
        input_ids = await served.prompt_ids(request, self._tokenizing)
        if request.constraint is not None and not served.own_backbone:
            self._compiler.check(request.constraint)
        subgraphs = to_subgraphs(request.subgraphs) if served.encodes_graph(request) else []
        pieces = None if served.own_backbone else text_pieces(request, served.tokenizer)
        return Prepared(request, served, input_ids, subgraphs, pieces)

    async def _settle(self, item: Prepared) -> Completion | EngineError:
        """Return the outcome as a value, so that one failure does not cancel the neighbours."""
        deadline = item.request.deadline_seconds
        try:
            async with asyncio.timeout(deadline):
                return await self._answer(item)
        except EngineError as error:
            return error
        except TimeoutError:
            return DeadlineExceededError(deadline)
        except Exception as error:
            return generation_error(error)

    async def _answer(self, item: Prepared) -> Completion:
        if item.served.own_backbone:
            engine = self._beside[str(item.request.adapter)]
            return (await engine.generate([item.request]))[0]
        graph_token = None
        if item.served.encodes_graph(item.request):
            [graph_token] = await self._graphs.submit([Work(item, item.served.name, 1)])
        prompt = vllm_prompt(item, graph_token)
        return await self.supervisor.run(lambda process: self._run(process, item, prompt))

    async def _run(self, process: VLLMProcess, item: Prepared, prompt: Any) -> Completion:
        from vllm.exceptions import VLLMClientError
        from vllm.lora.request import LoRARequest

        served, final, written = item.served, None, 0
        lora = None
        if served.lora_folder is not None:
            folder = str(served.lora_folder)
            lora = LoRARequest(folder, served.lora_id, folder)
        try:
            async for output in process.engine.generate(
                prompt, sampling_params(item), f"request-{next(self._numbers)}", lora_request=lora
            ):
                final = output.outputs[0]
                if item.pieces is not None:
                    item.pieces.grow(final.token_ids[written:])
                    written = len(final.token_ids)
        except (VLLMClientError, ValueError) as error:
            raise InvalidRequestError(f"vLLM refuses the request: {error}") from error
        if final is None or final.finish_reason not in ("stop", "length"):
            reason = "nothing came" if final is None else f"it ended with '{final.finish_reason}'"
            raise GenerationError(f"vLLM did not finish the request: {reason}")
        done = completion(item, final)
        if item.pieces is not None:
            item.pieces.end(done.text)
        return done


@torch.inference_mode()
def encode_graphs(batch: list[Prepared]) -> list[torch.Tensor]:
    """Return the graph tokens [d] of one component's requests, in one encoder call (RAS §3.3)."""
    served = batch[0].served
    assert served.graph_encoder is not None and served.features is not None
    graphs = collate_requests([item.subgraphs for item in batch], served.features)
    device = next(served.graph_encoder.parameters()).device
    return list(served.graph_encoder(graphs.to(device)).cpu().unbind())


@dataclass(frozen=True, eq=False)
class Prepared:
    """A checked request: ids, graphs, what it is asked of, and its text's pieces if any listens."""

    request: Request
    served: VLLMServed
    input_ids: list[int]
    subgraphs: list[Subgraph]
    pieces: TextPieces | None = None


def vllm_prompt(item: Prepared, graph_token: torch.Tensor | None) -> dict[str, Any]:
    """Return a prompt for vLLM: ids, a soft prompt's placeholders in front, a graph token.

    graph_token: [d] in the model's dtype, in place of the id at the component's position.
    """
    from vllm.inputs import EmbedsPrompt, TokensPrompt

    served = item.served
    ids = [int(served.tokenizer.pad_token_id)] * served.prefix_length + item.input_ids
    # Two prefixes over one text have the same ids: without a salt the cache would mix them up.
    salt = {"cache_salt": served.prefix} if served.prefix else {}
    if graph_token is None:
        return dict(TokensPrompt(prompt_token_ids=ids, **salt))
    assert served.graph_position is not None
    position = served.prefix_length + served.graph_position
    embeddings = graph_token.new_zeros(len(ids), len(graph_token))
    embeddings[position] = graph_token
    is_id = [place != position for place in range(len(ids))]
    return dict(
        EmbedsPrompt(
            prompt_embeds=embeddings, prompt_token_ids=ids, prompt_is_token_ids=is_id, **salt
        )
    )


def sampling_params(item: Prepared) -> Any:
    """Return how tokens are chosen, as vLLM's SamplingParams."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    sampling, constraint = item.request.sampling, item.request.constraint
    options: dict[str, Any] = {}
    kind = RequestOutputKind.FINAL_ONLY if item.pieces is None else RequestOutputKind.CUMULATIVE
    if item.served.prefix:
        options["extra_args"] = {"kv_transfer_params": {REQUEST_KEY: item.served.prefix}}
    if constraint is not None:
        options["structured_outputs"] = _structured_outputs(constraint)
    return SamplingParams(
        max_tokens=sampling.max_new_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        stop=list(sampling.stop),
        stop_token_ids=sorted(item.served.end_ids),
        logprobs=0 if sampling.logprobs else None,
        # The text is made from the ids once, at the end; vLLM needs it for stop strings alone.
        detokenize=bool(sampling.stop),
        output_kind=kind,
        **options,
    )


def _structured_outputs(constraint: Constraint) -> Any:
    from vllm.sampling_params import StructuredOutputsParams

    return StructuredOutputsParams(
        json=constraint.json_schema, regex=constraint.regex, grammar=constraint.grammar
    )


def completion(item: Prepared, output: Any) -> Completion:
    """vLLM's finished output as ours; the placeholders of a soft prompt are not counted."""
    token_ids = tuple(output.token_ids)
    logprobs = None
    if item.request.sampling.logprobs:
        pairs = zip(token_ids, output.logprobs, strict=True)
        logprobs = [float(listed[token].logprob) for token, listed in pairs]
    return Completion(
        text=output_text(item.served.tokenizer, token_ids, item.request.sampling.stop),
        token_ids=token_ids,
        input_tokens=len(item.input_ids),
        output_tokens=len(token_ids),
        finish_reason=output.finish_reason,
        logprobs=logprobs,
    )
