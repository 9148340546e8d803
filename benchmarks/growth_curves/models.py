"""Costs of models by size: a training step, the graph encoder, requests to an engine."""

import asyncio
import time
import zlib
from collections.abc import Callable
from itertools import count

import numpy as np
import torch

from benchmarks.growth_curves.fit import Curve
from inference.engines.contract import Engine, Request, Sampling
from models.formats.triples import Triple
from models.parts.graph import build_subgraph, collate_graphs, encode_subgraphs
from models.parts.graph_encoder import GraphEncoder, GraphEncoderConfig
from training.recipe.collator import Collator
from training.recipe.samples import TrainingSample

# Label tokens of a sample, as an answer or a plan has them.
LABEL = 16
TOKENS_OF_A_SAMPLE = 128
TRIPLES_OF_A_GRAPH = 8
NEW_TOKENS = 16
LEARNING_RATE = 1e-4


def _step(backbone: str) -> Callable[[int, int], float]:
    """Return the seconds of an optimizer step by tokens of a sample and samples of the batch."""
    from models.files.backbone import load_tokenizer
    from models.graph_llm import GraphLLM, GraphLLMConfig

    config = GraphLLMConfig(backbone=backbone, graph=None)
    model = GraphLLM.from_config(config, dtype="float32").train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE)
    tokenizer = load_tokenizer(backbone)
    collate = Collator(int(tokenizer.pad_token_id or 0))
    draw = np.random.default_rng(0)

    def seconds(tokens: int, batch_size: int) -> float:
        ids = draw.integers(3, len(tokenizer), (batch_size, tokens), dtype=np.int32)
        samples = [TrainingSample(str(n), row, tokens - LABEL) for n, row in enumerate(ids)]
        started = time.perf_counter()
        batch = collate(samples)
        del batch["sample_ids"]
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - started

    # The first step allocates what the others find.
    seconds(TOKENS_OF_A_SAMPLE, 1)
    return seconds


def step_by_tokens(backbone: str) -> Callable[[int], float]:
    """A step of one sample, by its tokens."""
    seconds = _step(backbone)
    return lambda tokens: seconds(tokens, 1)


def step_by_samples(backbone: str) -> Callable[[int], float]:
    """A step of samples of 128 tokens, by their number."""
    seconds = _step(backbone)
    return lambda samples: seconds(TOKENS_OF_A_SAMPLE, samples)


def _graph_step() -> Callable[[int, int], float]:
    """Return the seconds of the graph encoder by triples of a graph and graphs of the sample."""
    features = np.random.default_rng(0).normal(size=(4096, 384)).astype(np.float32)
    encoder = GraphEncoder(GraphEncoderConfig(output_dim=576)).train()

    def rows(texts: list[str]) -> np.ndarray:
        return np.array([zlib.crc32(text.encode()) % len(features) for text in texts])

    def seconds(triples: int, graphs: int) -> float:
        # Two facts an entity, as in a passage's graph.
        facts = [Triple(f"e{n // 2}", f"p{n % 16}", f"o{n}") for n in range(triples)]
        encoded = encode_subgraphs([build_subgraph(facts)] * graphs, rows)
        started = time.perf_counter()
        encoder(collate_graphs([encoded], features)).sum().backward()
        encoder.zero_grad(set_to_none=True)
        return time.perf_counter() - started

    seconds(TRIPLES_OF_A_GRAPH, 1)
    return seconds


def graph_by_triples(backbone: str) -> Callable[[int], float]:
    """The graph encoder forward and backward on one graph, by its triples."""
    seconds = _graph_step()
    return lambda triples: seconds(triples, 1)


def graph_by_graphs(backbone: str) -> Callable[[int], float]:
    """The graph encoder on graphs of eight triples, by their number."""
    seconds = _graph_step()
    return lambda graphs: seconds(TRIPLES_OF_A_GRAPH, graphs)


def _requests(backbone: str) -> Callable[[int, int, int], float]:
    """Return the seconds of requests by their number, their words and those run at once."""
    from inference.engines.transformers.engine import TransformersEngine

    # Texts of their own each time: none is in a cache.
    numbers = count()

    def request(words: int) -> Request:
        text = " ".join(f"fact{next(numbers)}" for _ in range(words))
        return Request(prompt=text, sampling=Sampling(max_new_tokens=NEW_TOKENS))

    async def answer(engine: Engine, requests: int, words: int) -> float:
        asked = [request(words) for _ in range(requests)]
        started = time.perf_counter()
        await engine.generate(asked)
        await engine.close()
        return time.perf_counter() - started

    def seconds(requests: int, words: int, at_once: int) -> float:
        engine = TransformersEngine(backbone, dtype="float32", max_batch_size=at_once)
        return asyncio.run(answer(engine, requests, words))

    return seconds


def extraction_by_passages(backbone: str) -> Callable[[int], float]:
    """Requests of 32 words and 16 new tokens to the transformers engine, by their number."""
    seconds = _requests(backbone)
    return lambda passages: seconds(passages, 32, 8)


def extraction_by_words(backbone: str) -> Callable[[int], float]:
    """Two requests of 16 new tokens, by the words of each."""
    seconds = _requests(backbone)
    return lambda words: seconds(2, words, 8)


def extraction_by_concurrency(backbone: str) -> Callable[[int], float]:
    """Sixteen requests, by those that run at once: none of it may cost more than one by one."""
    seconds = _requests(backbone)
    return lambda at_once: seconds(16, 32, at_once)


CURVES = {
    "training step, tokens of a sample": Curve("tokens", 1, 64, step_by_tokens, most=1024),
    "training step, samples of a batch": Curve(
        "samples", 1, 1, step_by_samples, sizes=(1, 2, 4, 8)
    ),
    "graph encoder, triples of a graph": Curve("triples", 1, 16, graph_by_triples),
    "graph encoder, graphs of a sample": Curve("graphs", 1, 2, graph_by_graphs),
    "engine, requests": Curve("requests", 1, 8, extraction_by_passages, sizes=(8, 16, 32)),
    "engine, words of a prompt": Curve(
        "words", 1, 16, extraction_by_words, sizes=(16, 32, 64, 128, 256)
    ),
    "engine, requests at once": Curve(
        "requests", 0, 1, extraction_by_concurrency, sizes=(1, 2, 4, 8, 16)
    ),
}
