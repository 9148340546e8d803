"""Questions a second of the RAS loop, one question at a time and sixteen at once.

The same questions run through the same loop at each concurrency, every time with an empty cache of
triples, after a warm-up question that is not counted. Decoding is greedy, so the answers must be
the same: the command ends with status 1 where they are not. Without --dataset and --corpus the
questions come from a fictional world made on the spot. The last line is one JSON object.
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

# A script run by path finds its packages even where the project is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from tqdm import tqdm

from data_gen.build_world import build_world
from evaluation.report import emit_json, print_table
from inference.command_line import command, configure_logging
from inference.loop_options import LoopOptions, add_loop_arguments, options_from
from inference.loops.ras import RasLoop
from inference.loops.ras_static import StaticRasLoop
from inference.loops.trace import Trace
from inference.open_loop import OpenLoop, open_loop
from inference.retrieval.passages import Passage, load_corpus
from inference.run_questions import run_questions
from inference.triple_cache import TripleCache
from models.formats.records import QuestionRecord, read_records

CONCURRENCIES = (1, 16)
COSTS = ("llm_calls", "input_tokens", "output_tokens")


@dataclass(frozen=True)
class Run:
    """One pass over the questions."""

    concurrency: int
    seconds: float
    traces: list[Trace]

    @property
    def questions_per_second(self) -> float:
        """Questions over wall-clock seconds."""
        return len(self.traces) / self.seconds


@contextmanager
def _data(arguments: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """Files of questions and corpus: those named, or a world's."""
    if arguments.dataset:
        yield arguments.dataset, arguments.corpus
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "world"
        # One question more than is measured, to warm up on.
        build_world(
            arguments.questions + 1,
            arguments.seed,
            folder,
            arguments.entities,
            fractions=(0.0, 0.0, 1.0),
            progress=False,
        )
        yield folder / "questions_test.jsonl", folder / "corpus.jsonl"


async def run_once(
    options: LoopOptions,
    corpus: Sequence[Passage],
    warm_up: QuestionRecord,
    records: Sequence[QuestionRecord],
    concurrency: int,
) -> Run:
    """Answer all records; loading, indexing and the warm-up question are not timed."""
    opened = open_loop(options, corpus)
    try:
        await run_questions(opened.loop, [warm_up], 1)
        _forget(opened)
        with tqdm(total=len(records), desc=f"{concurrency} at a time", unit=" questions") as bar:
            start = time.perf_counter()
            traces = await run_questions(opened.loop, records, concurrency, lambda *_: bar.update())
            return Run(concurrency, time.perf_counter() - start, traces)
    finally:
        await opened.close()


def _forget(opened: OpenLoop) -> None:
    """Put an empty cache in memory in place of what the warm-up question filled."""
    if opened.cache is not None and isinstance(opened.loop, RasLoop | StaticRasLoop):
        opened.cache.close()
        opened.cache = TripleCache(None, opened.cache.model)
        opened.loop.extractor.cache = opened.cache


def run_all(
    options: LoopOptions, corpus: Sequence[Passage], records: Sequence[QuestionRecord], rounds: int
) -> list[Run]:
    """Every concurrency in turn, `rounds` times; the first record only warms up."""
    warm_up, *timed = records
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        indexed = replace(options, index=options.index or Path(folder) / "index")
        for number, concurrency in enumerate(CONCURRENCIES * rounds):
            # Never the user's own cache, which knows passages already.
            own = replace(indexed, cache=Path(folder) / f"triples{number}.sqlite")
            runs.append(asyncio.run(run_once(own, corpus, warm_up, timed, concurrency)))
    return runs


def report(runs: Sequence[Run], options: LoopOptions) -> dict[str, Any]:
    """Speed by concurrency (median over rounds), and whether the answers are the same."""
    speed = {c: _speed(runs, c) for c in CONCURRENCIES}
    low, high = CONCURRENCIES
    answers = [[trace.answer for trace in run.traces] for run in runs]
    alike = [len(set(of_question)) == 1 for of_question in zip(*answers, strict=True)]
    graphs = [[(t.answer, t.graph) for t in run.traces] for run in runs]
    alike_graphs = [all(g == of[0] for g in of) for of in zip(*graphs, strict=True)]
    return {
        "benchmark": "loop",
        "loop": options.loop,
        "dtype": options.engine.dtype,
        "engine": options.engine.kind,
        "threads": torch.get_num_threads(),
        "questions": len(alike),
        "rounds": len(runs) // len(CONCURRENCIES),
        **{f"questions_per_second_{c}": value for c, value in speed.items()},
        "ratio_concurrent_vs_one": speed[high] / speed[low],
        "same_answers": all(alike),
        "identical_answer_share": sum(alike) / len(alike),
        "identical_graph_share": sum(alike_graphs) / len(alike),
        "errors": sum(trace.error is not None for run in runs for trace in run.traces),
        "empty_answers": sum(not answer for answer in answers[0]),
        **{f"{name}_{c}": _sum(runs, c, name) for c in CONCURRENCIES for name in COSTS},
    }


def _speed(runs: Sequence[Run], concurrency: int) -> float:
    return median(run.questions_per_second for run in runs if run.concurrency == concurrency)


def _sum(runs: Sequence[Run], concurrency: int, name: str) -> int:
    """A cost of the first round at this concurrency, over all questions."""
    first = next(run for run in runs if run.concurrency == concurrency)
    return sum(getattr(trace.bill, name) for trace in first.traces)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--dataset", type=Path, help="questions, JSON Lines (default: a world's)")
    add("--corpus", type=Path, help="passages, JSON Lines; with --dataset")
    add("--questions", type=int, default=32, help="questions timed (default: 32)")
    add("--entities", type=int, help="of the world (default: build_world's)")
    add("--seed", type=int, default=0, help="of the world (default: 0)")
    add("--rounds", type=int, default=1, help="both concurrencies in turn (default: 1)")
    add("--threads", type=int, help="of PyTorch (default: its own choice)")
    add("--json", action="store_true", help="accepted as everywhere; the JSON is always printed")
    add_loop_arguments(parser)
    return parser


@command
def main() -> None:
    """Run the command."""
    parser = _parser()
    arguments = parser.parse_args()
    if (arguments.dataset is None) != (arguments.corpus is None):
        parser.error("--dataset and --corpus go together")
    if arguments.questions < 1 or arguments.rounds < 1:
        parser.error("--questions and --rounds must be at least 1")
    configure_logging()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    with _data(arguments) as (dataset, corpus_file):
        stream = read_records(dataset, QuestionRecord)
        records = list(itertools.islice(stream, arguments.questions + 1))
        corpus = load_corpus(corpus_file)
    if len(records) < 2:
        parser.error(f"{dataset}: at least two questions are needed, one of them to warm up")
    options = options_from(arguments)
    result = report(run_all(options, corpus, records, arguments.rounds), options)
    print_table("The loop at work", ("figure", "value"), [[k, v] for k, v in result.items()])
    emit_json(result)
    if result["errors"] or not result["same_answers"]:
        sys.exit("error: questions failed or answers differ between the concurrencies")


if __name__ == "__main__":
    main()
