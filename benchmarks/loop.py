"""Questions a second of the RAS loop: one question at a time and many at once, engine by engine.

The same questions run through the same loop in each setting, every time with an empty cache of
triples, after a warm-up question that is not counted. Decoding is greedy, so in float32 the answers
must be the same: the command ends with status 1 where they are not. Without --dataset and --corpus
the questions come from a fictional world made on the spot. The last line is one JSON object.
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from tqdm import tqdm

from benchmarks.harness.loop_runs import Run, Setting, report
from common.commands import command_parser
from common.tables import emit_json, print_table
from data_gen.build_world import build_world
from inference.loops.kind import LoopOptions
from inference.opening.arguments import command, configure_logging
from inference.opening.loop import open_loop
from inference.opening.loop_options import add_loop_arguments, options_from
from inference.retrieval.passages import Passage, load_corpus
from inference.runs.evaluation import run_questions
from models.formats.records import QuestionRecord, read_records

CONCURRENCIES = (1, 16)


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
    setting: Setting,
) -> Run:
    """Answer all records; loading, indexing and the warm-up question are not timed."""
    concurrency = setting.concurrency
    own = replace(options, engine=replace(options.engine, kind=setting.engine))
    opened = open_loop(own, corpus)
    try:
        await run_questions(opened.loop, [warm_up], 1)
        if opened.extractor is not None:
            opened.extractor.forget()
        with tqdm(total=len(records), desc=setting.name, unit=" questions") as bar:
            start = time.perf_counter()
            traces = await run_questions(opened.loop, records, concurrency, lambda *_: bar.update())
            return Run(setting, time.perf_counter() - start, traces)
    finally:
        await opened.close()


def run_all(
    options: LoopOptions,
    corpus: Sequence[Passage],
    records: Sequence[QuestionRecord],
    settings: Sequence[Setting],
    rounds: int,
) -> list[Run]:
    """Return every setting in turn, `rounds` times; the first record only warms up."""
    warm_up, *timed = records
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        indexed = replace(options, index=options.index or Path(folder) / "index")
        for number, setting in enumerate([*settings] * rounds):
            # Never the user's own cache, which knows passages already.
            own = replace(indexed, cache=Path(folder) / f"triples{number}.sqlite")
            runs.append(asyncio.run(run_once(own, corpus, warm_up, timed, setting)))
    return runs


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--dataset", type=Path, help="questions, JSON Lines (default: a world's)")
    add("--corpus", type=Path, help="passages, JSON Lines; with --dataset")
    add("--questions", type=int, default=32, help="questions timed (default: 32)")
    add("--entities", type=int, help="of the world (default: build_world's)")
    add("--seed", type=int, default=0, help="of the world (default: 0)")
    add(
        "--runs",
        nargs="+",
        type=Setting.parse,
        metavar="ENGINE:CONCURRENCY",
        help="what is compared, with the first (default: --engine's at 1 and at 16)",
    )
    add("--rounds", type=int, default=1, help="all runs in turn (default: 1)")
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
    settings = arguments.runs or [Setting(options.engine.kind, many) for many in CONCURRENCIES]
    result = report(run_all(options, corpus, records, settings, arguments.rounds), options)
    print_table("The loop at work", ("figure", "value"), [[k, v] for k, v in result.items()])
    emit_json(result)
    if result["errors"]:
        sys.exit("error: questions failed")
    if options.engine.dtype == "float32" and not result["same_answers"]:
        sys.exit("error: answers differ between the runs")


if __name__ == "__main__":
    main()
