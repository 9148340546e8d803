"""One evaluation: a loop over a data set, every answer on disk as it comes."""

import asyncio
import itertools
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.errors import RecordError
from common.provenance import data_file, provenance
from common.shards import WHOLE, Shard
from evaluation.runs import stored_results
from inference.engines.contract import Engine
from inference.indexes.cost import read_cost
from inference.loops.kind import LoopOptions
from inference.loops.trace import Loop, Trace
from inference.opening.loop import LOOPS, in_effect, open_loop
from inference.retrieval.corpus import open_corpus
from inference.retrieval.passages import Passage, documents_of_questions
from inference.runs.log import EvaluationLog, EvaluationLogError, shard_card
from inference.runs.scores import GoldPassages, gold_titles, scored_trace, summarise
from models.files.checkpoint import component_fingerprint
from models.formats.records import QuestionRecord, read_records

logger = logging.getLogger(__name__)


async def run_questions(
    loop: Loop,
    records: Sequence[QuestionRecord],
    concurrency: int,
    on_done: Callable[[QuestionRecord, Trace], object] | None = None,
) -> list[Trace]:
    """Answer every question, `concurrency` at a time; `on_done` hears of each as it comes.

    A question that fails becomes a trace with its error; the others go on.
    """
    gate = asyncio.Semaphore(concurrency)

    async def answer(record: QuestionRecord) -> Trace:
        async with gate:
            trace = Trace(record.question)
            try:
                trace = await loop.answer(record, trace)
            except Exception as error:
                # One question's failure is recorded, not every other's loss.
                logger.warning("question %s failed: %s", record.id, error)
                trace.answer, trace.error = "", f"{type(error).__name__}: {error}"
        if on_done is not None:
            on_done(record, trace)
        return trace

    return list(await asyncio.gather(*map(answer, records)))


@dataclass(frozen=True)
class Evaluation:
    """The task of one evaluation and the folder of its answers; see evaluate.py's options.

    question_documents: search only what stands in the contexts of the data set's questions, of all
    of them whatever the limit.
    """

    options: LoopOptions
    dataset: Path
    corpus: Path | None
    out: Path
    concurrency: int = 16
    limit: int | None = None
    resume: bool = False
    shard: Shard | None = None
    question_documents: bool = False


@dataclass(frozen=True)
class Evaluated:
    """Scored traces in the order of the questions, and what they came to; a shard's card."""

    rows: list[dict[str, Any]]
    results: dict[str, Any]


async def run_evaluation(evaluation: Evaluation, shared: Engine | None = None) -> Evaluated:
    """Answer what is missing and write traces and results.

    An evaluation that is whole is left as it is. shared: an engine of `engine_of` to run on, which
    stays open.

    Raises EvaluationLogError, RecordError and what `open_loop` raises.
    """
    start = time.perf_counter()
    options, part = evaluation.options, evaluation.shard
    records = read_questions(evaluation.dataset, evaluation.limit)
    own = [record for record in records if (part or WHOLE).owns(record.id)]
    # Fails now, and not after the last question, where nothing can be written.
    settings = settings_of(options, evaluation.dataset, part)
    settings["question_documents"] = evaluation.question_documents or None
    settings |= data_of(options, evaluation.dataset, evaluation.corpus)
    log = EvaluationLog(evaluation.out, settings, evaluation.resume)
    missing = [record for record in own if record.id not in log.rows]
    if not missing and (stored := _stored_results(evaluation.out, len(own))) is not None:
        rows = [log.rows[record.id] for record in own]
        return Evaluated(rows, stored)
    # Before the first answer: the tree and the data may change while a long evaluation runs.
    source = source_of(evaluation, earlier=len(own) - len(missing))
    if missing:
        corpus = searched_corpus(
            options, evaluation.dataset, evaluation.corpus, evaluation.question_documents
        )
        await _answer(evaluation, missing, len(own), corpus, log, shared)
    rows, seconds = [log.rows[record.id] for record in own], time.perf_counter() - start
    if part:
        results = shard_card(part, records, rows, seconds)
    else:
        results = {**results_of(settings, rows, seconds), "provenance": source}
    log.finish(rows, results, part=bool(part))
    return Evaluated(rows, results)


def source_of(evaluation: Evaluation, earlier: int = 0) -> dict[str, Any]:
    """Return the origin of an evaluation's figures: `provenance`, the engine and when it began.

    earlier: questions that runs before this one answered; the seconds of the results are without
    them. Decoding is greedy, so that no seed is drawn.
    """
    return {
        **origin_of(evaluation.options, evaluation.dataset, evaluation.corpus),
        "seed": None,
        "engine": _of_engine(evaluation.options),
        "answered_earlier": earlier,
    }


def origin_of(options: LoopOptions, dataset: Path, corpus: Path | None) -> dict[str, Any]:
    """Return `provenance` of what a loop makes of a data set and a corpus, and when it began."""
    searched = _searched(options, corpus)
    files = [dataset] if searched is None else [dataset, searched]
    return {
        **provenance(sys.argv, files, LOOPS[options.loop].folders(options).values()),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _searched(options: LoopOptions, corpus: Path | None) -> Path | None:
    return corpus if LOOPS[options.loop].searches_corpus else None


def data_of(options: LoopOptions, dataset: Path, corpus: Path | None) -> dict[str, str | None]:
    """Return the sha256 of a data set and of what a loop searches, None for one that does not.

    Raises OSError for a file that cannot be read.
    """
    searched = _searched(options, corpus)
    return {
        "dataset_sha256": data_file(dataset)["sha256"],
        "corpus_sha256": searched and data_file(searched)["sha256"],
    }


def searched_corpus(
    options: LoopOptions, dataset: Path, path: Path | None, question_documents: bool
) -> Sequence[Passage]:
    """Return what a loop searches; none for a loop that searches no corpus.

    question_documents: only what stands in the contexts of the data set's questions.
    """
    searched = _searched(options, path)
    if searched is None:
        return []
    corpus = open_corpus(searched, options.index)
    return documents_of_questions(corpus, dataset) if question_documents else corpus


def results_of(
    settings: Mapping[str, Any], rows: Sequence[dict[str, Any]], seconds: float
) -> dict[str, Any]:
    """Return `results.json` of a whole evaluation. settings: of `settings_of`."""
    results = summarise(settings["loop"], Path(settings["dataset"]), rows, seconds)
    results["derive_comparisons"] = settings["derive_comparisons"]
    results["preset"] = settings["preset"]
    results["departures"] = LOOPS[settings["loop"]].departures(settings)
    # Building the folder that a loop answers from is its cost of indexing.
    folder = settings.get(LOOPS[settings["loop"]].index or "")
    results["indexing"] = read_cost(Path(folder)) if folder else None
    return results


def _stored_results(folder: Path, count: int) -> dict[str, Any] | None:
    """Return results of a run that is whole, so that its seconds are not those of doing nothing."""
    stored = stored_results(folder)
    is_whole = stored is not None and stored["n"] == count and not stored["errors"]
    return stored if is_whole else None


async def _answer(
    evaluation: Evaluation,
    missing: Sequence[QuestionRecord],
    total: int,
    corpus: Sequence[Passage],
    log: EvaluationLog,
    shared: Engine | None,
) -> None:
    """Answer what the log does not know yet, and put every answer into it as it comes."""
    options = evaluation.options
    opened = open_loop(options, corpus, shared)
    gold = GoldPassages(opened.documents, gold_titles(missing)) if opened.documents else None
    try:
        with tqdm(
            total=total, initial=total - len(missing), desc=options.loop, unit=" questions"
        ) as progress:

            def keep(record: QuestionRecord, trace: Trace) -> None:
                log.append(scored_trace(record, trace, gold))
                progress.update()

            await run_questions(opened.loop, missing, evaluation.concurrency, keep)
    finally:
        await opened.close()


def read_questions(path: Path, limit: int | None) -> list[QuestionRecord]:
    """Return the first `limit` questions.

    Raises:
        RecordError: a question that cannot be read, or two with one id.
        EvaluationLogError: there is none.
    """
    records = list(itertools.islice(read_records(path, QuestionRecord), limit))
    counts = Counter(record.id for record in records)
    for name, count in counts.items():
        if count > 1:
            problem = f"'{name}' stands for {count} questions"
            raise RecordError(str(path), "id", problem, "Give each question an id of its own")
    if not records:
        raise EvaluationLogError(f"{path} holds no question: name a data set with some")
    return records


def settings_of(options: LoopOptions, dataset: Path, part: Shard | None = None) -> dict[str, Any]:
    """Return the settings that decide the answers of a run; places of caches and indexes do not."""
    settings = {**in_effect(options), "dataset": dataset.name, "shard": part and str(part)}
    for name in ("cache", "index"):
        del settings[name]
    # None says as much to runs that were begun without the option.
    settings["exact"] = options.exact or None
    settings["engine"] = _of_engine(options)
    kind = LOOPS[options.loop]
    folders = kind.folders(options)
    for name in ("ras", "t2t", *kind.helpers, *kind.encoders):
        settings[name] = component_fingerprint(folders[name]) if name in folders else None
    if kind.index and settings[kind.index]:
        settings[kind.index] = str(settings[kind.index])
    return settings


def _of_engine(options: LoopOptions) -> dict[str, Any]:
    """Return what of an engine decides texts; how many there are, and where, does not."""
    engine = options.engine
    return {
        "kind": engine.computing_kind,
        "dtype": engine.dtype,
        "constrain": engine.constrain,
    }
