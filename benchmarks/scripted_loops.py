#!/usr/bin/env python3
"""Every loop on a fictional world with a scripted model: a perfect one, and ones that err.

With a perfect model a loop must answer every question that its method can answer, with the calls
and rounds of its paper's algorithm; which these are follows from the corpus and the method's limits
before a loop runs (scripted_world/reach.py). With a share of all outputs wrong or malformed, of the
index and of the answers, nothing may raise, and what cannot be known is to be declined.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.harness.processes import benchmark_parser
from benchmarks.scripted_world.gold_world import load_world
from benchmarks.scripted_world.loops import LOOPS, Settings, TopicWriters
from benchmarks.scripted_world.measure import Conditions, answer_all, summarise
from benchmarks.scripted_world.reach import questions_in_reach, th_rag_reach
from benchmarks.scripted_world.scripted_engine import open_encoder
from common.commands import share
from common.tables import emit_json, print_table
from data_gen.build_world import build_world
from inference.opening.arguments import command, positive_int

RATES = (0.0, 0.05, 0.1, 0.2, 0.4)
# Of a world's questions, those that need a fact; the others are left out.
SHARE_WITH_FACTS = 0.9


def conditions(questions: int, seed: int, encoder: str, folder: Path) -> Conditions:
    """Return a world with so many questions of one to four hops."""
    build_world(round(questions / SHARE_WITH_FACTS) + 10, seed, folder, progress=False)
    world = load_world(folder)
    asked = [record for record in world.questions if record.evidences][:questions]
    return Conditions(world, TopicWriters(world, folder), open_encoder(encoder), asked)


def measure(
    names: Sequence[str], rates: Sequence[float], given: Conditions, settings: Settings
) -> dict[str, Any]:
    """Return figures of each loop by error rate; what is in its reach is settled before it runs."""
    found: dict[str, Any] = {name: {} for name in names}
    with tqdm(total=len(names) * len(rates), desc="loops", unit=" runs") as bar:
        for name in names:
            reach = _reach(name, settings, given)
            for rate in rates:
                own = replace(given, error_rate=rate)
                done, figures = asyncio.run(answer_all(name, settings, own, reach))
                found[name][f"{rate:g}"] = {**summarise(done), **figures}
                bar.update()
    return found


def _reach(name: str, settings: Settings, given: Conditions) -> list[bool]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(questions_in_reach(name, settings, given, Path(folder) / "hierarchy"))


def show(loops: dict[str, Any]) -> None:
    """Print one table of the perfect model and one of all error rates."""
    columns = ["loop", "errors", "EM", "95 %", "in reach", "EM in reach", "declined",
               "last output spoiled", "wrong", "exceptions", "calls", "rounds"]  # fmt: skip
    rows = []
    for name, by_rate in loops.items():
        for rate, f in by_rate.items():
            interval = "{low:.3f} to {high:.3f}".format(**f["em"])
            rows.append(
                [name, rate, f["em"]["mean"], interval, f["in_reach"], f["em_in_reach"],
                 f["declined_share"], f["last_output_spoiled_share"], f["wrong_share"],
                 f["exceptions"], f["llm_calls"], f["rounds"]]
            )  # fmt: skip
    print_table("A scripted model that errs at a rate", columns, rows)
    hops = [
        [name, *(f"{h['em']:.2f} of {h['n']}" for h in f["by_hops"].values())]
        for name, f in ((name, next(iter(by_rate.values()))) for name, by_rate in loops.items())
    ]
    names = next(iter(next(iter(loops.values())).values()))["by_hops"]
    print_table("EM by hops at the first rate", ["loop", *(f"{n} hops" for n in names)], hops)


def draw(loops: dict[str, Any], out: Path) -> None:
    """EM over the error rate, and what became of the rest, one panel a loop."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * len(loops), 3.6), layout="constrained")
    colours = {"right": "tab:green", "declined": "tab:blue", "last output spoiled": "0.75",
               "wrong": "tab:red"}  # fmt: skip
    for number, (name, by_rate) in enumerate(loops.items(), start=1):
        axes = figure.add_subplot(1, len(loops), number)
        rates = [100 * float(rate) for rate in by_rate]
        shares = [
            [100 * f[f"{outcome.replace(' ', '_')}_share"] for f in by_rate.values()]
            for outcome in colours
        ]
        axes.stackplot(
            rates, shares, labels=list(colours), colors=list(colours.values()), alpha=0.6
        )
        em = [f["em"] for f in by_rate.values()]
        bars = [
            [100 * max(0.0, e["mean"] - e["low"]) for e in em],
            [100 * max(0.0, e["high"] - e["mean"]) for e in em],
        ]
        axes.errorbar(rates, shares[0], yerr=bars, fmt="ko-", markersize=3, capsize=2)
        axes.set(title=name, xlabel="outputs spoiled, percent", ylim=(0, 100))
        if number == 1:
            axes.set_ylabel("questions, percent")
            axes.legend(loc="lower left", fontsize="x-small")
    figure.savefig(out, dpi=130)


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--questions", type=positive_int, default=500, help="of 1 to 4 hops (default: 500)")
    add("--loops", nargs="+", choices=LOOPS, default=LOOPS, help="default: all")
    add("--rates", nargs="+", type=share, default=RATES, help="shares of outputs that are spoiled")
    add("--preset", choices=("tuned", "paper"), default="tuned",
        help="the loops' settings; paper adds no round and asks by the papers' prompts "
        "(default: %(default)s)")  # fmt: skip
    add("--encoder", default="minilm", help="of all indexes; wide-hash needs no model")
    add("--seed", type=int, default=5, help="of the world (default: 5)")
    add("--picture", type=Path, help="draw the curves: .png, .svg or .pdf")
    return parser


@command
def main() -> None:
    """Run the command."""
    arguments = _parser().parse_args()
    with tempfile.TemporaryDirectory() as folder:
        given = conditions(
            arguments.questions, arguments.seed, arguments.encoder, Path(folder) / "world"
        )
        settings = Settings.of_papers() if arguments.preset == "paper" else Settings()
        loops = measure(arguments.loops, arguments.rates, given, settings)
        reach = None
        if "th_rag" in arguments.loops:
            reach = asyncio.run(th_rag_reach(given, Path(folder) / "hierarchy"))
    show(loops)
    if reach:
        title = "TH-RAG: questions whose facts are all retrieved, by ranking, K1 and hops"
        print_table(title, list(reach[0]), [list(row.values()) for row in reach])
    if arguments.picture:
        draw(loops, arguments.picture)
    emit_json(
        {
            "benchmark": "scripted_loops",
            "questions": len(given.questions),
            "passages": len(given.world.passages),
            "seed": arguments.seed,
            "preset": arguments.preset,
            "encoder": arguments.encoder,
            "loops": loops,
            "th_rag_reach": reach,
        }
    )


if __name__ == "__main__":
    main()
