"""Run a loop over a data set and measure it: results.json and traces.jsonl."""

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from evaluation.answers import exact_match, token_f1
from evaluation.error_analysis import count_stages
from evaluation.report import emit_json, print_table
from evaluation.significance import bootstrap_interval
from inference.command_line import command, configure_logging, positive_int
from inference.gold import GoldPassages, mean_by_type, recall, stage_of
from inference.loop_options import (
    LOOPS_OVER_CORPUS,
    LoopOptions,
    add_loop_arguments,
    options_from,
)
from inference.loops.ras_static import context_passages
from inference.loops.trace import Trace
from inference.open_loop import open_loop
from inference.retrieval.passages import Passage, load_corpus
from inference.run_questions import run_questions
from models.atomic import atomic_write
from models.formats.records import QuestionRecord, read_records

DESCRIPTION = __doc__


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=DESCRIPTION)
    add = parser.add_argument
    add("--dataset", required=True, type=Path, help="questions in the JSON Lines contract")
    add("--corpus", type=Path, help="JSON Lines of {id, title, text}, for loops that search")
    add("--out", required=True, type=Path, help="folder for results.json and traces.jsonl")
    add("--concurrency", type=positive_int, default=16, help="questions at a time (default: 16)")
    add("--limit", type=positive_int, help="only the first so many questions")
    add_loop_arguments(parser)
    add("--json", action="store_true", help="print the results as one JSON object")
    return parser


async def _answer_all(
    options: LoopOptions,
    records: Sequence[QuestionRecord],
    corpus: Sequence[Passage],
    concurrency: int,
) -> list[Trace]:
    opened = open_loop(options, corpus)
    try:
        with tqdm(total=len(records), desc=options.loop, unit=" questions") as progress:
            return await run_questions(
                opened.loop, records, concurrency, lambda _: progress.update()
            )
    finally:
        await opened.close()


def trace_records(
    records: Sequence[QuestionRecord], traces: Sequence[Trace], corpus: Sequence[Passage]
) -> list[dict[str, Any]]:
    """One JSON object a question: its scores, the stage that lost it, and the whole trace.

    Without a corpus the supporting passages are those of the question's own context.
    """
    over_corpus = GoldPassages(corpus)
    rows = []
    for record, trace in zip(records, traces, strict=True):
        gold = over_corpus if corpus else GoldPassages(context_passages(record))
        em = exact_match(trace.answer, record.answers)
        rows.append(
            {
                "id": record.id,
                "type": record.type,
                "answers": record.answers,
                "em": em,
                "f1": token_f1(trace.answer, record.answers),
                "recall": recall(record, trace, gold),
                "stage": stage_of(record, trace, bool(em), gold),
                **trace.to_json(),
            }
        )
    return rows


def summarise(
    options: LoopOptions, dataset: Path, rows: Sequence[dict[str, Any]], seconds: float
) -> dict[str, Any]:
    """The results of a run, with 95 % bootstrap intervals; token counts are sums."""
    em, f1 = ([row[name] for row in rows] for name in ("em", "f1"))
    em_interval, f1_interval = bootstrap_interval(em), bootstrap_interval(f1)
    recalls = [row["recall"] for row in rows if row["recall"] is not None]
    bills = [row["bill"] for row in rows]
    costs = ("llm_calls", "input_tokens", "output_tokens", "weighted_tokens")
    return {
        "loop": options.loop,
        "dataset": dataset.stem,
        "n": len(rows),
        "em": em_interval.mean,
        "f1": f1_interval.mean,
        "em_ci95": [em_interval.low, em_interval.high],
        "f1_ci95": [f1_interval.low, f1_interval.high],
        "retrieval_recall": sum(recalls) / len(recalls) if recalls else None,
        **{name: sum(bill[name] for bill in bills) for name in costs},
        "seconds": seconds,
        "errors": sum(row["error"] is not None for row in rows),
        "stages": count_stages(row["stage"] for row in rows),
    }


def write_run(out: Path, rows: Sequence[dict[str, Any]], results: dict[str, Any]) -> None:
    """Write traces first, then results, each whole or not at all."""
    with atomic_write(out / "traces.jsonl") as handle:
        handle.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with atomic_write(out / "results.json") as handle:
        json.dump(results, handle, indent=2)


def show(
    results: dict[str, Any], records: Sequence[QuestionRecord], rows: Sequence[dict[str, Any]]
) -> None:
    """Print the scores, by question type and over all, and where questions were lost."""
    by_type = mean_by_type(records, [row["f1"] for row in rows])
    em_by_type = mean_by_type(records, [row["em"] for row in rows])
    table: list[list[Any]] = [
        [name, count, em_by_type[name][1], f1, "", ""] for name, (count, f1) in by_type.items()
    ]
    intervals = ["{:.3f} to {:.3f}".format(*results[name]) for name in ("em_ci95", "f1_ci95")]
    table.append(["all", results["n"], results["em"], results["f1"], *intervals])
    columns = ["type", "questions", "EM", "F1", "EM, 95 %", "F1, 95 %"]
    print_table(f"{results['loop']} on {results['dataset']}", columns, table)
    print_table(
        "Where questions ended", list(results["stages"]), [list(results["stages"].values())]
    )
    costs = ("llm_calls", "input_tokens", "output_tokens", "weighted_tokens", "seconds", "errors")
    print_table("Cost", list(costs), [[results[name] for name in costs]])


@command
def main() -> None:
    """Run the command line."""
    parser = _parser()
    arguments = parser.parse_args()
    options = options_from(arguments)
    if options.loop in LOOPS_OVER_CORPUS and arguments.corpus is None:
        parser.error(f"--loop {options.loop} searches a corpus; name it with --corpus")
    configure_logging()
    stream = read_records(arguments.dataset, QuestionRecord)
    records = list(itertools.islice(stream, arguments.limit))
    if not records:
        parser.error(f"{arguments.dataset} holds no question")
    # Fails now, and not after the last question, where nothing can be written.
    arguments.out.mkdir(parents=True, exist_ok=True)
    corpus = load_corpus(arguments.corpus) if options.loop in LOOPS_OVER_CORPUS else []
    start = time.perf_counter()
    traces = asyncio.run(_answer_all(options, records, corpus, arguments.concurrency))
    rows = trace_records(records, traces, corpus)
    results = summarise(options, arguments.dataset, rows, time.perf_counter() - start)
    write_run(arguments.out, rows, results)
    show(results, records, rows)
    if arguments.json:
        emit_json(results)


if __name__ == "__main__":
    main()
