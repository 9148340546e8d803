"""Compare engines on Ray with the engine alone: the cost of a request, and speed by their number.

All engines are transformers engines of one thread on this machine, over one component's folder. The
last line of the output is one JSON object.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.engines import write_documents
from benchmarks.harness.processes import available_threads, benchmark_parser
from benchmarks.workers.engine import DOCUMENTS_FILE
from common.commands import one_line_errors
from common.provenance import portable_path
from common.tables import emit_json, print_table
from inference.engines.contract import (
    DEFAULT_CHECKPOINTS,
    T2T_ADAPTER,
    Engine,
    EngineOptions,
    Request,
)
from inference.opening.components import Component, triples_requests
from inference.opening.engine import build_engine
from inference.retrieval.passages import load_corpus

ALONE = "alone"
COLUMNS = ("engines", "start, s", "one request, ms", "documents/s", "output tokens/s")


def requests_of(component: Component, documents: Path, new_tokens: int) -> list[Request]:
    """Return an extraction of each document, of so many new tokens at most."""
    make_request = triples_requests(component)
    made = (make_request(passage) for passage in load_corpus(documents))
    return [replace(r, sampling=replace(r.sampling, max_new_tokens=new_tokens)) for r in made]


async def measured(engine: Engine, requests: Sequence[Request], singles: int) -> dict[str, float]:
    """Return the median milliseconds of the shortest request, and the speed of all at once.

    Of one token for one token, so that what Ray adds to it is not lost in the reading of a passage.
    """
    sampling = replace(requests[0].sampling, max_new_tokens=1)
    one = replace(requests[0], input_ids=(requests[0].input_ids or ())[-1:], sampling=sampling)
    seconds = []
    for _ in range(singles + 1):
        begin = time.perf_counter()
        await engine.generate([one])
        seconds.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    done = await engine.generate(requests)
    took = time.perf_counter() - begin
    return {
        # The first warms up.
        "request_ms": 1000 * statistics.median(seconds[1:]),
        "documents_per_second": len(requests) / took,
        "output_tokens_per_second": sum(d.output_tokens for d in done) / took,
    }


async def run(options: argparse.Namespace, documents: Path) -> dict[str, dict[str, float]]:
    """Measure the engine alone and each number of engines on Ray, one after the other."""
    component = Component.open(options.t2t, "t2t")
    requests = requests_of(component, documents, options.max_new_tokens)
    figures = {}
    cpus = min(1.0, available_threads() / max(options.engines))
    base = EngineOptions("transformers", "float32", max_batch_size=options.max_batch_size)
    kinds = {ALONE: base}
    for count in options.engines:
        kinds[str(count)] = replace(
            base, kind="ray", engines=count, ray_engine="transformers", engine_cpus=cpus
        )
    for name, settings in kinds.items():
        begin = time.perf_counter()
        engine = build_engine(settings, component.backbone, {T2T_ADAPTER: component.folder})
        started = time.perf_counter() - begin
        try:
            measures = await measured(engine, requests, options.singles)
        finally:
            await engine.close()
        figures[name] = {"start_seconds": started, **measures}
    return figures


def report_of(figures: dict[str, dict[str, float]], options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures, what Ray adds to a request, and the speeds as ratios to one engine."""
    first = str(options.engines[0])
    speed = {name: own["documents_per_second"] for name, own in figures.items()}
    return {
        "benchmark": "ray_engines",
        "overhead_ms": figures[first]["request_ms"] - figures[ALONE]["request_ms"],
        **{f"ratio_{n}_vs_{first}": speed[str(n)] / speed[first] for n in options.engines[1:]},
        f"ratio_{first}_vs_{ALONE}": speed[first] / speed[ALONE],
        "settings": {
            "t2t": portable_path(str(options.t2t)),
            "documents": options.documents,
            "max_new_tokens": options.max_new_tokens,
            "max_batch_size": options.max_batch_size,
            "singles": options.singles,
            "cores": available_threads(),
        },
        "engines": figures,
    }


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add(
        "--t2t", type=Path, default=DEFAULT_CHECKPOINTS[T2T_ADAPTER], help="component that extracts"
    )
    add("--corpus", type=Path, help="JSON Lines of {id, title, text} (default: a world's)")
    add("--engines", type=int, nargs="+", default=[1, 2, 3], help="default: 1 2 3")
    add("--documents", type=int, default=96, help="extracted at once (default: 96)")
    add("--max-new-tokens", type=int, default=32, help="of an extraction (default: 32)")
    add("--max-batch-size", type=int, default=8, help="of each engine (default: 8)")
    add("--singles", type=int, default=30, help="requests one after another (default: 30)")
    add("--seed", type=int, default=0, help="of the world (default: 0)")
    options = parser.parse_args()
    # One thread everywhere: actors take it from the environment.
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        write_documents(Path(folder), options.documents, options.corpus, options.seed)
        figures = asyncio.run(run(options, Path(folder) / DOCUMENTS_FILE))
    report = report_of(figures, options)
    rows = [[name, *(round(value, 2) for value in own.values())] for name, own in figures.items()]
    print_table("Engines on Ray", COLUMNS, rows)
    shown = [[name, round(value, 2)] for name, value in report.items() if isinstance(value, float)]
    print_table("Compared", ("figure", "value"), shown)
    emit_json(report)


if __name__ == "__main__":
    main()
