"""The comparison of a loop's passes over the same questions: speeds, answers, costs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from inference.engines.contract import ENGINE_KINDS
from inference.loops.kind import LoopOptions
from inference.loops.trace import Trace

COSTS = ("llm_calls", "input_tokens", "output_tokens")


@dataclass(frozen=True)
class Setting:
    """An engine and how many questions it has at once."""

    engine: str
    concurrency: int

    @property
    def name(self) -> str:
        """As figures are called: "vllm32"."""
        return f"{self.engine}{self.concurrency}"

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Of ENGINE:CONCURRENCY. Raises argparse.ArgumentTypeError."""
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
        """Questions over wall-clock seconds."""
        return len(self.traces) / self.seconds


def report(runs: Sequence[Run], options: LoopOptions) -> dict[str, Any]:
    """Return the speed by setting (median, least and most of rounds), and whether the answers are
    the
    same.

    Every setting after the first is given as a ratio to it.
    """
    settings = list(dict.fromkeys(run.setting for run in runs))
    speed = {s.name: _speed(runs, s) for s in settings}
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
    }


def _speed(runs: Sequence[Run], setting: Setting) -> float:
    return median(_speeds(runs, setting))


def _speeds(runs: Sequence[Run], setting: Setting) -> list[float]:
    return [run.questions_per_second for run in runs if run.setting == setting]


def _sum(runs: Sequence[Run], setting: Setting, name: str) -> int:
    """Return a cost of the first round of this setting, over all questions."""
    first = next(run for run in runs if run.setting == setting)
    return sum(getattr(trace.bill, name) for trace in first.traces)
