"""Run a loop over a data set and measure it: results.json and traces.jsonl.

Every answer is on disk at once. An evaluation that was interrupted, or whose engine failed, goes on
with --resume: only what is missing or ended in an error is asked again.
"""

import argparse
import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from evaluation.report import emit_json, print_table
from inference.command_line import command, configure_logging, positive_int
from inference.evaluation_log import EvaluationLog
from inference.gold import GoldPassages, mean_by_type
from inference.loop_groups import OWN_OPTIONS, helpers_of
from inference.loop_options import (
    LOOPS_OVER_CORPUS,
    LOOPS_OVER_TRIPLES,
    LoopOptions,
    add_loop_arguments,
    options_from,
)
from inference.loops.trace import Trace
from inference.open_loop import open_loop
from inference.retrieval.passages import Passage, load_corpus
from inference.run_questions import run_questions
from inference.scored_traces import COSTS, scored_trace, summarise
from models.checkpoint import component_fingerprint
from models.formats.fields import RecordError
from models.formats.records import QuestionRecord, read_records


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--dataset", required=True, type=Path, help="questions in the JSON Lines contract")
    add("--corpus", type=Path, help="JSON Lines of {id, title, text}, for loops that search")
    add("--out", required=True, type=Path, help="folder for results.json and traces.jsonl")
    add("--concurrency", type=positive_int, default=16, help="questions at a time (default: 16)")
    add("--limit", type=positive_int, help="only the first so many questions")
    add("--resume", action="store_true", help="go on with the evaluation that --out holds")
    add_loop_arguments(parser)
    add("--json", action="store_true", help="print the results as one JSON object")
    return parser


async def _answer_all(
    options: LoopOptions,
    records: Sequence[QuestionRecord],
    corpus: Sequence[Passage],
    concurrency: int,
    log: EvaluationLog,
) -> None:
    """Answer what the log does not know yet, and put every answer into it as it comes."""
    missing = [record for record in records if record.id not in log.rows]
    if not missing:
        return
    opened = open_loop(options, corpus)
    gold = GoldPassages(opened.documents) if opened.documents else None
    done = len(records) - len(missing)
    try:
        with tqdm(
            total=len(records), initial=done, desc=options.loop, unit=" questions"
        ) as progress:

            def keep(record: QuestionRecord, trace: Trace) -> None:
                log.append(scored_trace(record, trace, gold))
                progress.update()

            await run_questions(opened.loop, missing, concurrency, keep)
    finally:
        await opened.close()


def read_questions(path: Path, limit: int | None) -> list[QuestionRecord]:
    """The first `limit` questions.

    Raises:
        RecordError: a question that cannot be read, or two with one id.
    """
    records = list(itertools.islice(read_records(path, QuestionRecord), limit))
    counts = Counter(record.id for record in records)
    for name, count in counts.items():
        if count > 1:
            problem = f"'{name}' stands for {count} questions"
            raise RecordError(str(path), "id", problem, "Give each question an id of its own")
    return records


def settings_of(options: LoopOptions, dataset: Path) -> dict[str, Any]:
    """What decides the answers of a run; where caches and indexes lie does not."""
    settings = {**asdict(options), "dataset": dataset.name}
    for name in ("cache", "index"):
        del settings[name]
    of_engine = ("kind", "dtype", "constrain")
    settings["engine"] = {name: getattr(options.engine, name) for name in of_engine}
    used = {"ras": options.uses_ras, "t2t": options.loop in LOOPS_OVER_TRIPLES}
    used |= dict.fromkeys(helpers_of(options.loop), True)
    for name, is_used in used.items():
        folder = settings[name]
        settings[name] = component_fingerprint(folder) if folder and is_used else None
    for name in ("kb", "propositions", "hierarchy"):
        settings[name] = str(settings[name]) if settings[name] else None
    # Other loops' evaluations that were begun before there were these options can go on.
    own = OWN_OPTIONS.get(options.loop, ())
    for name in {name for names in OWN_OPTIONS.values() for name in names}.difference(own):
        del settings[name]
    return settings


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
    costs = (*COSTS, "seconds", "errors")
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
    records = read_questions(arguments.dataset, arguments.limit)
    if not records:
        parser.error(f"{arguments.dataset} holds no question")
    # Fails now, and not after the last question, where nothing can be written.
    log = EvaluationLog(arguments.out, settings_of(options, arguments.dataset), arguments.resume)
    corpus = load_corpus(arguments.corpus) if options.loop in LOOPS_OVER_CORPUS else []
    start = time.perf_counter()
    asyncio.run(_answer_all(options, records, corpus, arguments.concurrency, log))
    rows = [log.rows[record.id] for record in records]
    results = summarise(options.loop, arguments.dataset, rows, time.perf_counter() - start)
    log.finish(rows, results)
    show(results, records, rows)
    if arguments.json:
        emit_json(results)


if __name__ == "__main__":
    main()
