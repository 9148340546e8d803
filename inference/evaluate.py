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

from evaluation.report import emit_json
from evaluation.shards import WHOLE, Shard, shard
from inference.command_line import command, configure_logging, positive_int
from inference.evaluation_log import EvaluationLog
from inference.evaluation_report import show, show_shard
from inference.evaluation_shards import shard_card
from inference.gold import GoldPassages
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
from inference.scored_traces import scored_trace, summarise
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
    add(
        "--shard",
        type=shard,
        metavar="I/N",
        help="only part I of N of the questions, from 1; inference/merge_evaluation.py puts the "
        "parts together",
    )
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


def settings_of(options: LoopOptions, dataset: Path, part: Shard | None = None) -> dict[str, Any]:
    """What decides the answers of a run; where caches and indexes lie does not."""
    settings = {**asdict(options), "dataset": dataset.name, "shard": part and str(part)}
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
    settings = settings_of(options, arguments.dataset, arguments.shard)
    log = EvaluationLog(arguments.out, settings, arguments.resume)
    corpus = load_corpus(arguments.corpus) if options.loop in LOOPS_OVER_CORPUS else []
    start = time.perf_counter()
    own = [record for record in records if (arguments.shard or WHOLE).owns(record.id)]
    asyncio.run(_answer_all(options, own, corpus, arguments.concurrency, log))
    rows = [log.rows[record.id] for record in own]
    seconds = time.perf_counter() - start
    if arguments.shard:
        results = shard_card(arguments.shard, records, rows, seconds)
        log.finish(rows, results, part=True)
        show_shard(results)
    else:
        results = summarise(options.loop, arguments.dataset, rows, seconds)
        log.finish(rows, results)
        show(results, rows)
    if arguments.json:
        emit_json(results)


if __name__ == "__main__":
    main()
