"""A CPU's products with weights laid out for oneDNN, and as PyTorch multiplies by them: ratios.

The engine on transformers decodes, the extractive reader reads passages and the sentence encoder
embeds texts, both ways in one process and in turns. The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from tqdm import tqdm

from benchmarks.harness.processes import ROOT, available_threads, benchmark_parser
from common.commands import one_line_errors
from common.tables import emit_json, print_table
from inference.engines.contract import DEFAULT_SPAN_READER, Request, Sampling
from inference.opening.arguments import positive_int
from inference.retrieval.passages import Passage, load_corpus
from models.files.sentence_encoder import SentenceEncoder, load_sentence_encoder
from models.formats.prompts import passage_text

if TYPE_CHECKING:
    from inference.engines.transformers.engine import TransformersEngine
    from inference.indexes.spans import SpanService

DOCUMENTS = ROOT / "evaluation" / "own_words" / "documents.jsonl"
QUESTION = "Who is the chair?"


class Models(NamedTuple):
    """One of the two contestants."""

    engine: TransformersEngine
    spans: SpanService
    encoder: SentenceEncoder


def load(packed: bool, dtype: str, backbone: str, encoder: str) -> Models:
    """Return the models, their weights laid out or not; the encoder is in float32 always."""
    # Imported here: they take seconds that --help need not wait.
    from inference.engines.transformers.engine import TransformersEngine
    from inference.indexes.spans import SpanService
    from models.span_reader import SpanReader

    # Without oneDNN no weights are laid out.
    with patch.object(torch.backends.mkldnn, "is_available", return_value=packed):
        return Models(
            TransformersEngine(backbone, dtype=dtype, device="cpu", max_batch_size=64),
            SpanService(SpanReader.from_pretrained(DEFAULT_SPAN_READER, dtype=dtype)),
            load_sentence_encoder(encoder, "cpu"),
        )


def tasks(
    passages: Sequence[Passage], concurrencies: Sequence[int], new_tokens: int, reads: int
) -> dict[str, Callable[[Models], Any]]:
    """Return what both do, by name; each returns its outcome, which is to be the same."""
    sampling = Sampling(max_new_tokens=new_tokens)
    texts = [passage_text(passage.title, passage.text) for passage in passages]

    def decode(models: Models, many: int) -> list[tuple[int, ...]]:
        requests = [Request(prompt=text, sampling=sampling) for text in texts[:many]]
        done = asyncio.run(models.engine.generate(requests))
        return [completion.token_ids for completion in done]

    def read(models: Models) -> list[str]:
        models.spans.forget()
        return [span.text for span in models.spans.read(QUESTION, passages[:reads])]

    def embed(models: Models) -> np.ndarray[Any, Any]:
        return models.encoder.encode(texts[:reads]).round(4)

    decoding = {
        f"decode {many} at once": lambda models, many=many: decode(models, many)
        for many in concurrencies
    }
    return {**decoding, f"read {reads} passages": read, f"embed {reads} texts": embed}


def measure(
    plain: Models, packed: Models, todo: dict[str, Callable[[Models], Any]], rounds: int
) -> dict[str, Any]:
    """Return each task's median seconds by both, the median ratio, and whether they agree."""
    figures = {}
    for name, task in tqdm(todo.items(), desc="tasks"):
        same = bool(np.array_equal(task(plain), task(packed)))
        seconds = [(_seconds(task, plain), _seconds(task, packed)) for _ in range(rounds)]
        figures[name] = {
            "plain_seconds": median(first for first, _ in seconds),
            "packed_seconds": median(second for _, second in seconds),
            "ratio": median(first / second for first, second in seconds),
            "same": same,
        }
    return figures


def _seconds(task: Callable[[Models], Any], models: Models) -> float:
    start = time.perf_counter()
    task(models)
    return time.perf_counter() - start


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--corpus", type=Path, default=DOCUMENTS, help="texts (default: evaluation/own_words)")
    add("--backbone", default="smollm2", help="default: smollm2")
    add("--encoder", default="minilm", help="default: minilm")
    add(
        "--dtype",
        choices=("float32", "bfloat16"),
        default="float32",
        help="of engine and reader (default: float32)",
    )
    add("--concurrency", type=positive_int, nargs="+", default=[1, 8, 32], help="default: 1 8 32")
    add("--new-tokens", type=positive_int, default=16, help="of a request (default: 16)")
    add("--texts", type=positive_int, default=32, help="read and embedded (default: 32)")
    add("--rounds", type=positive_int, default=3, help="default: 3")
    add("--threads", type=positive_int, default=available_threads(), help="default: all cores")
    return parser


@one_line_errors()
def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    torch.set_num_threads(options.threads)
    # Each differs from the others, so that nothing is read once for several.
    count = max(options.texts, *options.concurrency)
    corpus = itertools.islice(itertools.cycle(load_corpus(options.corpus)), count)
    passages = [replace(p, title=f"{number}. {p.title}") for number, p in enumerate(corpus)]
    plain, packed = (
        load(layout, options.dtype, options.backbone, options.encoder) for layout in (False, True)
    )
    todo = tasks(passages, options.concurrency, options.new_tokens, options.texts)
    figures = measure(plain, packed, todo, options.rounds)
    for models in (plain, packed):
        asyncio.run(models.engine.close())
    columns = ["task", "seconds as they were", "seconds laid out", "ratio", "same outcome"]
    rows = [[name, *one.values()] for name, one in figures.items()]
    print_table("Weights laid out for oneDNN", columns, rows)
    emit_json(
        {
            "benchmark": "packed_weights",
            "dtype": options.dtype,
            "threads": options.threads,
            "new_tokens": options.new_tokens,
            "rounds": options.rounds,
            "tasks": figures,
        }
    )


if __name__ == "__main__":
    main()
