"""vLLM with graphs, LoRA adapters and soft prompts at once, beside the engine on transformers."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness.gpu import GpuSettings
from benchmarks.harness.settings import StepSettings
from benchmarks.harness.workload import make_samples
from data_gen.build_world import build_world
from inference.engines.contract import (
    DEFAULT_CHECKPOINTS,
    EXTRACTOR_ADAPTER,
    RAS_ADAPTER,
    T2T_ADAPTER,
    Completion,
    Engine,
    Request,
    Sampling,
)
from inference.opening.components import Component, conditions_requests, triples_requests
from inference.retrieval.passages import Passage, load_corpus
from models.files.backbone import load_tokenizer
from models.formats.records import RasSample
from models.graph_llm import GraphLLMConfig

REQUESTS, NEW_TOKENS = 128, 64
KINDS = {"lora": T2T_ADAPTER, "graph": RAS_ADAPTER, "soft_prompt": EXTRACTOR_ADAPTER}
# Beside the model of transformers, which is gone by then, and its context.
GPU_SHARE = 0.8


def vllm(folder: Path, settings: GpuSettings, _: str = "") -> dict[str, Any]:
    """Return output tokens a second of both engines, of each kind of request and of all at once.

    `identical` is the share of greedy outputs that are the same text in both.
    """
    from inference.engines.transformers.engine import TransformersEngine
    from inference.engines.vllm.engine import VLLMEngine
    from inference.engines.vllm.process import VLLMSettings

    adapters: Mapping[str, str | Path] = {n: DEFAULT_CHECKPOINTS[n] for n in KINDS.values()}
    requests = requests_of(adapters, REQUESTS, NEW_TOKENS, settings.seed)
    wanted = VLLMSettings(max_model_len=2048, max_num_seqs=256, gpu_memory_utilization=GPU_SHARE)
    return compared(
        {
            "transformers": lambda: TransformersEngine(
                adapters=adapters, dtype="bfloat16", max_batch_size=64
            ),
            "vllm": lambda: VLLMEngine(adapters=adapters, dtype="bfloat16", settings=wanted),
        },
        requests,
    )


def compared(
    openers: Mapping[str, Callable[[], Engine]], requests: Mapping[str, Sequence[Request]]
) -> dict[str, Any]:
    """Return the figures of engines, one open at a time, and how many outputs are the first's."""
    figures: dict[str, Any] = {"requests": {name: len(own) for name, own in requests.items()}}
    texts: dict[str, list[str]] = {}
    for name, opener in openers.items():
        figures[name], texts[name] = asyncio.run(measured(opener, requests))
    first, *others = texts.values()
    same = [len(set(of)) == 1 for of in zip(first, *others, strict=True)]
    return {**figures, "identical": sum(same) / len(same)}


async def measured(
    opener: Callable[[], Engine], requests: Mapping[str, Sequence[Request]]
) -> tuple[dict[str, Any], list[str]]:
    """Return an engine's figures, and what it wrote for every request on its own kind's turn."""
    begin = time.perf_counter()
    engine = opener()
    figures: dict[str, Any] = {"start_seconds": time.perf_counter() - begin}
    texts: list[str] = []
    try:
        for name, own in requests.items():
            await engine.generate(own[:1])
            figures[name], done = await _timed(engine, own)
            texts += [completion.text for completion in done]
        figures["mixed"], _ = await _timed(engine, [r for own in requests.values() for r in own])
    finally:
        await engine.close()
    return figures, texts


async def _timed(
    engine: Engine, requests: Sequence[Request]
) -> tuple[dict[str, float], list[Completion]]:
    begin = time.perf_counter()
    done = await engine.generate(requests)
    seconds = time.perf_counter() - begin
    tokens = sum(completion.output_tokens for completion in done)
    found = {"output_tokens": tokens, "seconds": seconds, "tokens_per_second": tokens / seconds}
    return found, done


def requests_of(
    adapters: Mapping[str, str | Path], count: int, new_tokens: int, seed: int
) -> dict[str, list[Request]]:
    """Return requests of each kind: texts to triples, histories with graphs, texts to conditions.

    Greedy, with at most so many new tokens.
    """
    sampling = Sampling(max_new_tokens=new_tokens)
    passages = world_passages(count, seed)
    made = {
        "lora": map(triples_requests(Component.open(adapters[T2T_ADAPTER], "t2t")), passages),
        "graph": ras_requests(adapters[RAS_ADAPTER], count, seed),
        "soft_prompt": map(
            conditions_requests(Component.open(adapters[EXTRACTOR_ADAPTER], "tri_rag")), passages
        ),
    }
    return {name: [replace(r, sampling=sampling) for r in own] for name, own in made.items()}


def world_passages(count: int, seed: int) -> list[Passage]:
    """Return so many passages of a fictional world."""
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder) / "world"
        build_world(count, seed, world, fractions=(0.0, 0.0, 1.0), progress=False)
        return list(load_corpus(world / "corpus.jsonl"))[:count]


def ras_requests(component: str | Path, count: int, seed: int) -> list[Request]:
    """Return plans and answers on synthetic histories, each with its graphs."""
    config = GraphLLMConfig.read(component)
    processor = config.processor(load_tokenizer(config.backbone, config.backbone_revision))

    def encoded(sample: RasSample) -> Any:
        return processor.encode_prompt(sample.task, sample.prompt_history)

    most = config.max_input_tokens
    sizes = StepSettings(
        batches=count, batch_size=1, min_tokens=most // 8, max_tokens=most // 2, seed=seed
    )
    samples = make_samples(sizes, lambda sample: len(encoded(sample).input_ids))
    return [
        Request(
            input_ids=tuple(prompt.input_ids), adapter=RAS_ADAPTER,
            subgraphs=tuple(prompt.subgraphs),
        )
        for prompt in map(encoded, samples)
    ]  # fmt: skip
