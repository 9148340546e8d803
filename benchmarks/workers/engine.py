"""One engine in a process of its own; its last line is one JSON object."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch

from benchmarks.harness.processes import resident_bytes
from benchmarks.harness.settings import FiledSettings
from common.commands import command_parser
from common.tables import emit_json
from inference.engines.contract import T2T_ADAPTER, Completion, Constraint, Engine, Request
from inference.engines.vllm.process import (
    CPU_WORKER,
    VLLMSettings,
    main_module_hidden,
    set_environment,
)
from inference.opening.components import Component, triples_requests
from inference.retrieval.passages import Passage, load_corpus
from models.files.backbone import resolve_backbone
from models.formats.grammars import triples_regex
from models.formats.triples import parse_triples

DOCUMENTS_FILE = "documents.jsonl"
CONTESTANTS = {
    "transformers": "our engine on transformers, adapter merged",
    "transformers_whole_batches": "the same without requests that join the batch that runs",
    "vllm": "our engine on vLLM",
    "vllm_no_prefix_caching": "the same without prefix caching",
    "vllm_grammar": "our engine on vLLM, outputs held to the triples' grammar",
    "vllm_prompt_lookup": "our engine on vLLM, tokens drafted by prompt lookup",
    "bare_vllm": "vLLM's own LLM class, all requests at once",
}
MAX_MODEL_LEN = 2048


@dataclass(frozen=True)
class EngineRunSettings(FiledSettings):
    """Sizes of the comparison, the same for all contestants.

    t2t: component folder that extracts. documents: of each concurrency, all different.
    documents_one: of the concurrency of one. max_new_tokens: of an extraction.
    untrained: without the component's adapter. prompt_lookup_tokens: of `vllm_prompt_lookup`.
    """

    t2t: str
    dtype: str = "bfloat16"
    concurrencies: tuple[int, ...] = (1, 8, 32)
    documents: int = 64
    documents_one: int = 8
    max_new_tokens: int = 128
    untrained: bool = False
    prompt_lookup_tokens: int = 4
    threads: int = 2

    def __post_init__(self) -> None:
        # JSON has no tuples.
        object.__setattr__(self, "concurrencies", tuple(self.concurrencies))

    def documents_of(self, concurrency: int) -> int:
        """Return how many documents a concurrency gets."""
        return self.documents_one if concurrency == 1 else self.documents


def requests_of(settings: EngineRunSettings, passages: Sequence[Passage]) -> list[Request]:
    """Return extractions, no two alike."""
    make_request = triples_requests(Component.open(settings.t2t, "t2t"))
    requests = [make_request(passage) for passage in passages]
    return [
        replace(
            request,
            adapter=None if settings.untrained else request.adapter,
            sampling=replace(request.sampling, max_new_tokens=settings.max_new_tokens),
        )
        for request in requests
    ]


def shares(settings: EngineRunSettings, requests: Sequence[Request]) -> dict[int, list[Request]]:
    """Return each concurrency's own requests: what one has read no other finds in a cache."""
    taken, start = {}, 0
    for concurrency in settings.concurrencies:
        end = start + settings.documents_of(concurrency)
        taken[concurrency] = list(requests[start:end])
        start = end
    return taken


def open_contestant(name: str, settings: EngineRunSettings) -> Engine:
    """Return the engine of a name, loaded."""
    adapters = {T2T_ADAPTER: settings.t2t}
    if name.startswith("transformers"):
        from inference.engines.transformers.engine import TransformersEngine

        engine = TransformersEngine(adapters=adapters, dtype=settings.dtype, merge_adapters=True)
        engine.batcher.joinable = name != "transformers_whole_batches"
        return engine
    from inference.engines.vllm.engine import VLLMEngine

    options = VLLMSettings(
        max_model_len=MAX_MODEL_LEN,
        max_num_seqs=max(settings.concurrencies),
        enable_prefix_caching=name != "vllm_no_prefix_caching",
        prompt_lookup_tokens=settings.prompt_lookup_tokens if name == "vllm_prompt_lookup" else 0,
    )
    return VLLMEngine(adapters=adapters, dtype=settings.dtype, settings=options)


class Written(NamedTuple):
    """One output, of whichever engine."""

    text: str
    tokens: int
    cut: bool


def figures_of(outputs: Sequence[Written], seconds: float) -> dict[str, float]:
    """Return speeds, and how many outputs parse, the end of one that was cut aside."""
    parsed = [parse_triples(output.text) for output in outputs]
    readable = [p.malformed <= output.cut for p, output in zip(parsed, outputs, strict=True)]
    return {
        "documents": len(outputs),
        "seconds": seconds,
        "documents_per_second": len(outputs) / seconds,
        "output_tokens_per_second": sum(output.tokens for output in outputs) / seconds,
        "triples_per_second": sum(len(p.triples) for p in parsed) / seconds,
        "parseable": sum(readable) / len(readable),
        "cut": sum(output.cut for output in outputs),
    }


async def run_engine(name: str, settings: EngineRunSettings, folder: Path) -> dict[str, Any]:
    """Start an engine, warm it up on one request, then time each concurrency."""
    requests = requests_of(settings, load_corpus(folder / DOCUMENTS_FILE))
    if name == "vllm_grammar":
        held = Constraint(regex=triples_regex())
        requests = [replace(request, constraint=held) for request in requests]
    begin = time.perf_counter()
    engine = open_contestant(name, settings)
    started = time.perf_counter() - begin
    await engine.generate(requests[-1:])
    figures: dict[str, Any] = {"start_seconds": started}
    try:
        for concurrency, share in shares(settings, requests).items():
            figures[str(concurrency)] = await _timed(engine, share, concurrency)
        figures["resident_bytes"] = resident_bytes(psutil.Process())
        if name == "vllm_prompt_lookup":
            figures |= {key: getattr(engine, key) for key in ("draft_tokens", "accepted_tokens")}
    finally:
        await engine.close()
    return figures


async def _timed(engine: Engine, requests: Sequence[Request], concurrency: int) -> dict[str, float]:
    gate = asyncio.Semaphore(concurrency)
    waited: list[float] = []

    async def one(request: Request) -> Completion:
        async with gate:
            sent = time.perf_counter()
            [completion] = await engine.generate([request])
            waited.append(time.perf_counter() - sent)
            return completion

    begin = time.perf_counter()
    done = await asyncio.gather(*map(one, requests))
    seconds = time.perf_counter() - begin
    outputs = [Written(d.text, d.output_tokens, d.finish_reason == "length") for d in done]
    return figures_of(outputs, seconds) | {"seconds_a_document": statistics.median(waited)}


def run_bare(settings: EngineRunSettings, folder: Path) -> dict[str, Any]:
    """vLLM's own class on the prompts of the highest concurrency, all at once.

    With our settings of its environment, and on a CPU with our LoRA.
    """
    set_environment(VLLMSettings())
    from vllm import LLM, SamplingParams
    from vllm.lora.request import LoRARequest

    component = Component.open(settings.t2t, "t2t")
    requests = requests_of(settings, load_corpus(folder / DOCUMENTS_FILE))
    most = max(settings.concurrencies)
    on_cpu = not torch.cuda.is_available()
    begin = time.perf_counter()
    with main_module_hidden():
        engine = LLM(
            resolve_backbone(component.backbone),
            dtype=settings.dtype,
            max_model_len=MAX_MODEL_LEN,
            max_num_seqs=most,
            enforce_eager=on_cpu,
            enable_lora=True,
            max_lora_rank=16,
            worker_cls=CPU_WORKER if on_cpu else "auto",
        )
    started = time.perf_counter() - begin
    lora = LoRARequest("t2t", 1, settings.t2t)
    sampling = SamplingParams(temperature=0, max_tokens=settings.max_new_tokens)

    def generate(share: Sequence[Request]) -> Any:
        prompts: Any = [{"prompt_token_ids": list(r.input_ids or ())} for r in share]
        return engine.generate(
            prompts, sampling, lora_request=None if settings.untrained else lora, use_tqdm=False
        )

    generate(requests[-1:])
    share = shares(settings, requests)[most]
    begin = time.perf_counter()
    outputs = [output.outputs[0] for output in generate(share)]
    seconds = time.perf_counter() - begin
    written = [Written(o.text, len(o.token_ids), o.finish_reason == "length") for o in outputs]
    return {
        "start_seconds": started,
        str(most): figures_of(written, seconds),
        "resident_bytes": resident_bytes(psutil.Process()),
    }


def main() -> None:
    """Run the command."""
    parser = command_parser(__doc__)
    parser.add_argument("folder", type=Path, help="folder with settings.json and documents")
    parser.add_argument("contestant", choices=list(CONTESTANTS))
    arguments = parser.parse_args()
    settings = EngineRunSettings.read(arguments.folder)
    if arguments.contestant == "bare_vllm":
        figures = run_bare(settings, arguments.folder)
    else:
        figures = asyncio.run(run_engine(arguments.contestant, settings, arguments.folder))
    emit_json(figures)


if __name__ == "__main__":
    main()
