"""Questions a second of the RAS loop: one question at a time and many at once, engine by engine.

The same questions run through the same loop in each setting, every time with an empty cache of
triples, after a warm-up question that is not counted. Decoding is greedy, so in float32 the answers
must be the same: the command ends with status 1 where they are not. Without --dataset and --corpus
the questions come from a fictional world made on the spot. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.harness.processes import benchmark_parser
from benchmarks.harness.world_data import add_data_arguments, check_data_arguments, read_data
from common.tables import emit_json, print_table
from inference.engines.contract import ENGINE_KINDS
from inference.loops.kind import LoopOptions
from inference.loops.trace import Trace
from inference.opening.arguments import command, configure_logging
from inference.opening.loop import open_loop
from inference.opening.loop_options import add_loop_arguments, options_from
from inference.retrieval.passages import Passage
from inference.runs.evaluation import run_questions
from models.formats.records import QuestionRecord

CONCURRENCIES = (1, 16)
COSTS = ("llm_calls", "input_tokens", "output_tokens")


@dataclass(frozen=True)
class Setting:
    """An engine and how many questions it has at once."""

    engine: str
    concurrency: int

    @property
    def name(self) -> str:
        """Return the name of its figures, as "vllm32"."""
        return f"{self.engine}{self.concurrency}"

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Return the setting of ENGINE:CONCURRENCY. Raises argparse.ArgumentTypeError."""
        engine, _, concurrency = text.partition(":")
        if engine not in ENGINE_KINDS or not concurrency.isdecimal() or int(concurrency) < 1:
            kinds = ", ".join(ENGINE_KINDS)
            raise argparse.ArgumentTypeError(
                f"'{text}' is not ENGINE:CONCURRENCY, such as vllm:32 (engines: {kinds})"
            )
        return cls(engine, int(concurrency))


@dataclass(frozen=True)
class Run:
    """One pass over the questions."""

    setting: Setting
    seconds: float
    traces: list[Trace]

    @property
    def questions_per_second(self) -> float:
        """Return questions over wall-clock seconds."""
        return len(self.traces) / self.seconds


def report(runs: Sequence[Run], options: LoopOptions) -> dict[str, Any]:
    """Return the speed by setting (median, least and most of rounds), and if the answers agree.

    Every setting after the first is given as a ratio to it.
    """
    settings = list(dict.fromkeys(run.setting for run in runs))
    speed = {s.name: median(_speeds(runs, s)) for s in settings}
    first, *others = speed
    answers = [[trace.answer for trace in run.traces] for run in runs]
    alike = [len(set(of_question)) == 1 for of_question in zip(*answers, strict=True)]
    graphs = [[(t.answer, t.graph) for t in run.traces] for run in runs]
    alike_graphs = [all(g == of[0] for g in of) for of in zip(*graphs, strict=True)]
    return {
        "benchmark": "loop",
        "loop": options.loop,
        "dtype": options.engine.dtype,
        "threads": torch.get_num_threads(),
        "questions": len(alike),
        "rounds": len(runs) // len(settings),
        **{f"questions_per_second_{name}": value for name, value in speed.items()},
        **{
            f"questions_per_second_{s.name}_{end.__name__}": end(_speeds(runs, s))
            for s in settings
            for end in (min, max)
        },
        **{f"ratio_{name}_vs_{first}": speed[name] / speed[first] for name in others},
        "same_answers": all(alike),
        "identical_answer_share": sum(alike) / len(alike),
        "identical_graph_share": sum(alike_graphs) / len(alike),
        "errors": sum(trace.error is not None for run in runs for trace in run.traces),
        "empty_answers": sum(not answer for answer in answers[0]),
        **{f"{cost}_{s.name}": _sum(runs, s, cost) for s in settings for cost in COSTS},
        **{f"output_tokens_per_second_{s.name}": _token_speed(runs, s) for s in settings},
    }


def _speeds(runs: Sequence[Run], setting: Setting) -> list[float]:
    return [run.questions_per_second for run in runs if run.setting == setting]


def _sum(runs: Sequence[Run], setting: Setting, name: str) -> int:
    """Return a cost of the first round of this setting, over all questions."""
    first = next(run for run in runs if run.setting == setting)
    return sum(getattr(trace.bill, name) for trace in first.traces)


def _token_speed(runs: Sequence[Run], setting: Setting) -> float:
    """Return output tokens a second of the first round of this setting."""
    first = next(run for run in runs if run.setting == setting)
    return _sum(runs, setting, "output_tokens") / first.seconds


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
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add_data_arguments(parser, questions=32)
    add(
        "--runs",
        nargs="+",
        type=Setting.parse,
        metavar="ENGINE:CONCURRENCY",
        help="what is compared, with the first (default: --engine's at 1 and at 16)",
    )
    add("--rounds", type=int, default=1, help="all runs in turn (default: 1)")
    add("--threads", type=int, help="of PyTorch (default: its own choice)")
    add_loop_arguments(parser)
    return parser


@command
def main() -> None:
    """Run the command."""
    parser = _parser()
    arguments = parser.parse_args()
    check_data_arguments(parser, arguments)
    if arguments.questions < 1 or arguments.rounds < 1:
        parser.error("--questions and --rounds must be at least 1")
    configure_logging()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    records, corpus = read_data(arguments)
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
