"""Retrieval by size: in memory, memory-mapped, in embedded Milvus and from a Milvus server.

    benchmarks/retrieval_scale.py --sizes 10000 100000 --corpus DATA/corpus/*.jsonl

Every index is built in one process and opened and searched in another; the server is a process of
its own. Passages are those of --corpus, filled up with fictional worlds. Queries are titles of
passages drawn at random. Above --embed-up-to passages, random unit vectors around cluster centres
stand for the encoder's in all that is dense. The last line of the output is one JSON object.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness.milvus import milvus_server
from benchmarks.harness.processes import (
    PartResult,
    PartRunner,
    benchmark_parser,
    resident_bytes,
)
from benchmarks.harness.run_folder import SETTINGS_FILE
from benchmarks.workers.retrieval import BACKENDS, CORPUS_FILE, SERVER
from common.commands import one_line_errors
from common.tables import emit_json, print_table
from data_gen.world.passages import write_passages
from data_gen.world.population import build_population
from data_gen.world.records import passage_record
from inference.retrieval.passages import Passage
from models.formats.records import PassageRecord, read_records, write_records

SIZES = (10_000, 100_000)
# Entities of one world, each of which has a passage.
WORLD = 20_000
BUILD_COLUMNS = ("lexical_build_seconds", "lexical_build_cpu_seconds", "dense_build_seconds",
                 "dense_build_cpu_seconds", "bytes_on_disk", "build_peak_mib")  # fmt: skip
SEARCH_COLUMNS = ("open_seconds", "resident_mib", "own_mib", "server_mib",
                  "bm25_ms_median", "bm25_ms_p95", "bm25_cpu_ms", "bm25_queries_per_second",
                  "dense_ms_median", "dense_ms_p95", "dense_cpu_ms", "dense_queries_per_second",
                  "search", "recall_at_10")  # fmt: skip


def write_corpus(out: Path, size: int, corpora: Sequence[Path]) -> dict[str, int]:
    """Write a corpus of a size, each id once; returns how many passages come from where."""
    counts = {"corpora": 0, "worlds": 0}

    def passages() -> Iterator[Passage]:
        for number, path in enumerate(corpora):
            for passage in islice(read_records(path, PassageRecord), size - counts["corpora"]):
                counts["corpora"] += 1
                yield Passage(f"{number}/{passage.id}", passage.title, passage.text)
        seed = 0
        while counts["corpora"] + counts["worlds"] < size:
            world = build_population(WORLD, seed)
            left = size - counts["corpora"] - counts["worlds"]
            for passage in map(passage_record, write_passages(world, seed)[:left]):
                counts["worlds"] += 1
                yield Passage(f"world{seed}/{passage.id}", passage.title, passage.text)
            seed += 1

    write_records(out, passages())
    return counts


def measure(folder: Path, backend: str, runner: PartRunner) -> dict[str, Any]:
    """Return the figures of one back end at one size; `status` says what went wrong."""
    if backend != SERVER:
        return _parts(backend, runner, None)
    with milvus_server(folder / "server") as (address, process):
        settings = json.loads((folder / SETTINGS_FILE).read_text())
        settings["address"] = f"{address}/passages"
        (folder / SETTINGS_FILE).write_text(json.dumps(settings))
        return _parts(backend, runner, process)


def _parts(backend: str, runner: PartRunner, server: psutil.Process | None) -> dict[str, Any]:
    built = runner.run(f"build:{backend}")
    if not built.ok:
        return {"status": f"build: {built.status}"}
    searched = runner.run(f"search:{backend}")
    figures = {**built.figures, **searched.figures, "status": _said(searched)}
    if server is not None:
        figures["server_mib"] = resident_bytes(server) / 2**20
    return figures


def _said(result: PartResult) -> str:
    return "ok" if result.ok else f"search: {result.status}"


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--corpus", nargs="*", type=Path, default=[], help="JSON Lines of {id, title, text}")
    add("--sizes", nargs="+", type=int, default=SIZES, help="passages (default: 10000 100000)")
    add("--backends", nargs="+", choices=BACKENDS, default=BACKENDS, help="(default: all)")
    add("--encoder", default="minilm", help="of the dense rows (default: minilm)")
    add("--embed-up-to", type=int, default=10_000, help="passages (default: 10000)")
    add("--queries", type=int, default=200, help="asked one by one and all at once (default: 200)")
    add("--limit-seconds", type=float, default=3600.0, help="for a size (default: 3600)")
    add("--dir", type=Path, help="folder to work in, kept; its disk is used (default: a temporary)")
    return parser


def compare(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the figures by size and back end."""
    sizes: dict[str, Any] = {}
    for size in options.sizes:
        own = folder / str(size)
        own.mkdir(parents=True, exist_ok=True)
        counts = write_corpus(own / CORPUS_FILE, size, options.corpus)
        vectors = "encoder" if size <= options.embed_up_to else "clusters"
        settings = {"queries": options.queries, "encoder": options.encoder, "vectors": vectors}
        (own / SETTINGS_FILE).write_text(json.dumps(settings))
        runner = PartRunner(own, 1, options.limit_seconds, "benchmarks.workers.retrieval")
        figures = {name: measure(own, name, runner) for name in options.backends}
        sizes[str(size)] = {"passages_from": counts, "vectors": vectors, "backends": figures}
    return {"benchmark": "retrieval_scale", "queries": options.queries, "sizes": sizes}


@one_line_errors()
def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        report = compare(options, options.dir or Path(temporary))
    for title, columns in (("Builds", BUILD_COLUMNS), ("Searches", SEARCH_COLUMNS)):
        rows = [
            [size, name, figures["vectors"], *(row.get(c) for c in columns), row["status"]]
            for size, figures in report["sizes"].items()
            for name, row in figures["backends"].items()
        ]
        print_table(title, ["passages", "index", "vectors", *columns, "status"], rows)
    emit_json(report)


if __name__ == "__main__":
    main()
