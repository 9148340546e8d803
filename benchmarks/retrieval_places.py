"""The same questions wherever the index lies: in memory, in files, in embedded Milvus, at a server.

    benchmarks/retrieval_places.py --corpus DATA/corpus.jsonl --dataset DATA/questions.jsonl

Every loop answers the questions of a fictional world with a scripted perfect model, once for each
place of its indexes: passages, propositions, conditions or a hierarchy's sentences. Counted are the
questions whose answer, and whose whole trace with all hits, is that of memory. With --corpus and
--dataset the same is counted of the hits, with their scores, of real questions. The last line of
the output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

from tqdm import tqdm

from benchmarks.harness.milvus import milvus_server
from benchmarks.harness.processes import benchmark_parser
from benchmarks.scripted_loops import conditions
from benchmarks.scripted_world.loops import LOOPS, TITLE_WEIGHT, Settings, WorldLoops
from benchmarks.scripted_world.measure import CONCURRENCY, Conditions
from benchmarks.scripted_world.world_model import WorldModel
from common.provenance import portable_path
from common.tables import emit_json, print_table
from evaluation.answers import exact_match
from inference.indexes.propositions.index import PropositionSearch
from inference.loops.ras import RasLoop
from inference.loops.t2rag import T2RagLoop
from inference.loops.th_rag import ThRagLoop
from inference.loops.trace import Loop, Trace, TraceStep
from inference.loops.tri_rag import TriRagLoop
from inference.loops.trig_nav import TrigNavLoop
from inference.opening.arguments import command, positive_int
from inference.retrieval.corpus import open_corpus
from inference.retrieval.open_retriever import RETRIEVER_KINDS, build_retriever
from inference.retrieval.passages import Retriever, load_corpus
from inference.runs.evaluation import run_questions
from models.formats.records import QuestionRecord, read_records

MEMORY, MAPPED, EMBEDDED, SERVER = "memory", "mapped", "embedded", "server"
# Of the vectors that memory alone keeps: other places of the same index are Milvus's.
IN_MILVUS = (EMBEDDED, SERVER)
TOP_K = 10


def place_of(kind: str, name: str, folder: Path, address: str) -> str | Path | None:
    """Return where an index of a name lies."""
    places = {
        MEMORY: None,
        MAPPED: folder / name,
        EMBEDDED: folder / f"{name}.db",
        SERVER: f"{address}/{name}",
    }
    return places[kind]


def retriever_at(corpus: Path, kind: str, encoder: str, place: str | Path | None) -> Retriever:
    """Return a retriever over a corpus whose index lies at a place; it is built there."""
    passages = load_corpus(corpus) if place is None else open_corpus(corpus, place)
    return build_retriever(kind, passages, encoder, place, TITLE_WEIGHT)


def move(loop: Loop, retriever: Retriever, place: str | Path | None, in_milvus: bool) -> None:
    """Have a loop search at a place."""
    if isinstance(loop, RasLoop):
        loop.retriever = retriever
    elif isinstance(loop, TrigNavLoop):
        loop.evidence.retriever = retriever
    elif not in_milvus:
        return
    elif isinstance(loop, T2RagLoop) and isinstance(loop.search, PropositionSearch):
        loop.search.index.keep_vectors_in(place)
    elif isinstance(loop, TriRagLoop):
        loop.base.keep_vectors_in(place)
    elif isinstance(loop, ThRagLoop):
        loop.index.keep_vectors_in(place)


async def answered(
    name: str, given: Conditions, folder: Path, encoder: str, place: str | Path | None, kind: str
) -> tuple[list[Trace], float]:
    """Return what a loop says to all questions with its index at a place, and the seconds."""
    loops = WorldLoops(given.world, given.topics, WorldModel(given.world), given.encoder)
    loop = await loops.open(name, Settings(), folder / f"hierarchy-{name}-{kind}")
    retriever = await asyncio.to_thread(
        retriever_at, folder / "world" / "corpus.jsonl", "hybrid", encoder, place
    )
    await asyncio.to_thread(move, loop, retriever, place, kind in IN_MILVUS)
    started = time.perf_counter()
    traces = await run_questions(loop, given.questions, CONCURRENCY)
    return traces, time.perf_counter() - started


def seen(trace: Trace) -> tuple[str, list[TraceStep]]:
    """Return the answer, and all that was found and done on the way to it."""
    return trace.answer, trace.steps


def compare_loops(
    options: argparse.Namespace, folder: Path, address: str
) -> dict[str, dict[str, Any]]:
    """Return by loop and place the EM, and how many questions are answered as in memory."""
    given = conditions(options.questions, options.seed, options.encoder, folder / "world")
    found: dict[str, dict[str, Any]] = {}
    with tqdm(total=len(options.loops) * 4, desc="loops", unit=" runs") as bar:
        for name in options.loops:
            expected: list[tuple[str, list[TraceStep]]] = []
            found[name] = {}
            for kind in (MEMORY, MAPPED, EMBEDDED, SERVER):
                place = place_of(kind, f"world_{name}", folder, address)
                traces, seconds = asyncio.run(
                    answered(name, given, folder, options.encoder, place, kind)
                )
                own = list(map(seen, traces))
                expected = expected or own
                pairs = list(zip(own, expected, strict=True))
                right = [
                    exact_match(trace.answer, record.answers)
                    for trace, record in zip(traces, given.questions, strict=True)
                ]
                found[name][kind] = {
                    "questions": len(own),
                    "errors": sum(trace.error is not None for trace in traces),
                    "em": mean(map(float, right)),
                    "same_answers": sum(one[0] == other[0] for one, other in pairs),
                    "same_traces": sum(one == other for one, other in pairs),
                    "seconds": seconds,
                }
                bar.update()
    return found


def compare_hits(
    options: argparse.Namespace, folder: Path, address: str
) -> dict[str, dict[str, Any]]:
    """Return by retriever and place how many real questions have the hits of memory."""
    records = islice(read_records(options.dataset, QuestionRecord), options.questions)
    questions = [record.question for record in records]
    found: dict[str, dict[str, Any]] = {}
    for kind in RETRIEVER_KINDS:
        expected: Sequence[Any] = []
        found[kind] = {}
        for where in (MEMORY, MAPPED, EMBEDDED, SERVER):
            place = place_of(where, f"real_{kind}", folder, address)
            retriever = retriever_at(options.corpus, kind, options.encoder, place)
            started = time.perf_counter()
            rankings = retriever.search(questions, TOP_K)
            seconds = time.perf_counter() - started
            hits = [[(hit.passage.id, hit.score) for hit in ranking] for ranking in rankings]
            expected = expected or hits
            found[kind][where] = {
                "questions": len(hits),
                "hits": sum(map(len, hits)),
                "same_hits": sum(one == other for one, other in zip(hits, expected, strict=True)),
                "seconds": seconds,
            }
    return found


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--questions", type=positive_int, default=500, help="of each kind (default: 500)")
    add("--loops", nargs="*", choices=LOOPS, default=LOOPS, help="default: all")
    add("--corpus", type=Path, help="JSON Lines of {id, title, text}, with --dataset")
    add("--dataset", type=Path, help="JSON Lines of questions, with --corpus")
    add("--encoder", default="minilm", help="of all vectors (default: minilm)")
    add("--seed", type=int, default=5, help="of the world (default: 5)")
    return parser


@command
def main() -> None:
    """Run the command."""
    parser = _parser()
    options = parser.parse_args()
    if (options.corpus is None) != (options.dataset is None):
        parser.error("--corpus and --dataset are given together")
    report: dict[str, Any] = {
        "benchmark": "retrieval_places",
        "encoder": options.encoder,
        "seed": options.seed,
        "corpus": options.corpus and portable_path(str(options.corpus)),
        "dataset": options.dataset and portable_path(str(options.dataset)),
    }
    with (
        tempfile.TemporaryDirectory() as temporary,
        milvus_server(Path(temporary) / "server") as (address, _),
    ):
        report["loops"] = compare_loops(options, Path(temporary), address)
        if options.corpus:
            report["hits"] = compare_hits(options, Path(temporary), address)
    for title, key in (("Loops, by place of the index", "loops"), ("Hits", "hits")):
        rows = [
            [name, place, *figures.values()]
            for name, places in report.get(key, {}).items()
            for place, figures in places.items()
        ]
        if rows:
            [first, *_] = next(iter(report[key].values())).values()
            print_table(title, [key, "index", *first], rows)
    emit_json(report)


if __name__ == "__main__":
    main()
