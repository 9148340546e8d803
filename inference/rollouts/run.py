"""One rollout: a loop answers each question several times, and every trajectory is rewarded."""

import asyncio
import hashlib
import itertools
import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.errors import UserError
from common.provenance import data_file
from common.shards import WHOLE, Shard
from evaluation.rewards import RewardWeights, check_annotations, reward_parts
from evaluation.runs import read_run, stored_results
from inference.engines.contract import RAS_ADAPTER
from inference.loops.kind import LoopOptions
from inference.loops.trace import Loop
from inference.opening.loop import LoopComponents, engine_of, open_loop, read_components
from inference.rollouts.log import Key, RolloutLog, held
from inference.rollouts.outcome import Judge, SearchCountingTrace, summarise
from inference.rollouts.recording import (
    BACKBONE,
    Component,
    Drawing,
    Recorder,
    RecordingEngine,
    record_extractions,
    recording,
)
from inference.runs.evaluation import origin_of, read_questions, searched_corpus, settings_of
from inference.runs.log import comparable
from models.formats.records import QuestionRecord
from models.formats.trajectories import Trajectory

logger = logging.getLogger(__name__)
MOST_FAILURES = 20


class RolloutError(UserError, ValueError):
    """Settings that a rollout cannot be made with; the message says which and what to do."""


@dataclass(frozen=True)
class Rollout:
    """The task of one rollout and its folder; see rollout.py's options.

    group: trajectories a question. sample: components that draw, by adapter, or `BACKBONE`; empty:
    the RAS component where the loop has one, else the backbone. baseline: the folder of an
    evaluation whose answers `gain` is measured against. concurrency: trajectories at a time.
    """

    options: LoopOptions
    dataset: Path
    corpus: Path | None
    out: Path
    group: int = 8
    temperature: float = 1.0
    seed: int = 0
    sample: Sequence[str] = ()
    weights: RewardWeights = field(default_factory=RewardWeights)
    baseline: Path | None = None
    concurrency: int = 128
    limit: int | None = None
    resume: bool = False
    shard: Shard | None = None
    question_documents: bool = False

    @property
    def sampling_options(self) -> LoopOptions:
        """Return the loop's options with an engine that says the likelihood of what it draws."""
        engine = replace(self.options.engine, logprobs_of="sampled")
        return replace(self.options, engine=engine)


async def run_rollout(rollout: Rollout) -> dict[str, Any]:
    """Make the trajectories that the folder does not hold yet; returns its results.

    A trajectory that fails is named in the results and has no line; `resume` makes it again.

    Raises RolloutError, WeightError, EvaluationLogError, RecordError, TraceError and what
    `open_loop` raises.
    """
    check(rollout)
    with held(rollout.out):
        return await _run(rollout)


async def _run(rollout: Rollout) -> dict[str, Any]:
    start = time.perf_counter()
    components = read_components(rollout.options)
    drawn, versions = drawing_components(rollout.sample, components), versions_of(components)
    records = read_questions(rollout.dataset, rollout.limit)
    check_annotations(rollout.weights, records)
    own = [record for record in records if (rollout.shard or WHOLE).owns(record.id)]
    baseline = read_baseline(rollout.baseline)
    settings = _settings(rollout, drawn, baseline)
    questions = {record.id: record for record in own}

    def check_known(made: Trajectory, where: str) -> None:
        if made.id in questions:
            check_judged(made, questions[made.id], where)

    log = RolloutLog(rollout.out, settings, versions, rollout.resume, check_known)
    jobs = [(record, number) for record in own for number in range(rollout.group)]
    missing = [(record, number) for record, number in jobs if (record.id, number) not in log]
    if len(jobs) - len(missing) < len(log):
        raise RolloutError(
            f"{rollout.out} holds {len(log)} trajectories, some of questions that --limit "
            f"{rollout.limit} leaves out: give the limit that it was made with, or a higher one"
        )
    if not missing:
        stored = stored_results(rollout.out)
        if stored is not None and not stored["errors"]:
            # It is whole: its seconds are those of making it.
            return stored
    # Before the first answer: the tree and the data may change while a long rollout runs.
    source = {
        **origin_of(rollout.options, rollout.dataset, rollout.corpus),
        "made_earlier": len(jobs) - len(missing),
    }
    failed: dict[Key, str] = {}
    if missing:
        digest = digest_of(settings)
        judge = Judge(rollout.seed, rollout.temperature, rollout.weights, baseline, digest)
        with tqdm(
            total=len(jobs),
            initial=len(jobs) - len(missing),
            desc=rollout.options.loop,
            unit=" trajectories",
        ) as progress:

            def keep(trajectory: Trajectory) -> None:
                log.append(trajectory)
                progress.update()

            drawing = Drawing(drawn, rollout.temperature, rollout.seed)
            failed = await _make(rollout, components, drawing, versions, missing, judge, keep)
    made = [(record.id, number) for record, number in jobs if (record.id, number) in log]
    results = {
        "loop": rollout.options.loop,
        "dataset": rollout.dataset.stem,
        "shard": rollout.shard and str(rollout.shard),
        "group": rollout.group,
        "temperature": rollout.temperature,
        "seed": rollout.seed,
        "sample": _names(drawn),
        **summarise(map(log.read, made)),
        "questions": len(own),
        "errors": len(failed),
        "failed": [
            {"id": name, "number": number, "error": error}
            for (name, number), error in itertools.islice(failed.items(), MOST_FAILURES)
        ],
        "seconds": time.perf_counter() - start,
        "provenance": source,
    }
    if rollout.temperature and not results["calls"].get("sampled") and made:
        logger.warning(
            "no call was drawn: %s takes no part in %s", _names(drawn), rollout.options.loop
        )
    log.finish(made, results)
    return results


async def _make(
    rollout: Rollout,
    components: LoopComponents,
    drawing: Drawing,
    versions: Mapping[Component, str],
    missing: Sequence[tuple[QuestionRecord, int]],
    judge: Judge,
    keep: Callable[[Trajectory], object],
) -> dict[Key, str]:
    """Open the loop, and hand each trajectory to `keep` as it is made; returns the failures."""
    options = rollout.sampling_options
    corpus = searched_corpus(options, rollout.dataset, rollout.corpus, rollout.question_documents)
    engine = RecordingEngine(
        engine_of(options.engine, [components]), drawing, versions, options.engine.logprobs_of
    )
    try:
        opened = open_loop(options, corpus, engine)
        try:
            record_extractions(opened.extractor, drawing.components, versions)
            return await roll_out(opened.loop, missing, judge, rollout.concurrency, keep)
        finally:
            await opened.close()
    finally:
        await engine.close()


async def roll_out(
    loop: Loop,
    jobs: Sequence[tuple[QuestionRecord, int]],
    judge: Judge,
    concurrency: int,
    keep: Callable[[Trajectory], object],
) -> dict[Key, str]:
    """Make a trajectory of each question and number, `concurrency` at a time, in the order given.

    A question's begin together: an engine then reads once what their prompts have in common.

    loop: over a `RecordingEngine`. keep: hears of each as it comes. Returns the errors of those
    that failed, by question and number; the others go on.
    """
    gate = asyncio.Semaphore(concurrency)
    groups = [list(jobs) for _, jobs in itertools.groupby(jobs, key=lambda job: job[0].id)]
    group_gate = asyncio.Semaphore(max(1, concurrency // max(map(len, groups), default=1)))
    failed: dict[Key, str] = {}

    async def make(record: QuestionRecord, number: int) -> None:
        async with gate:
            trace, recorder = SearchCountingTrace(record.question), Recorder(record.id, number)
            try:
                # Each task has a context of its own.
                with recording(recorder):
                    await loop.answer(record, trace)
            except Exception as error:
                logger.warning("question %s, trajectory %d failed: %s", record.id, number, error)
                failed[record.id, number] = f"{type(error).__name__}: {error}"
                return
            keep(judge.trajectory(record, trace, recorder))

    async def make_all(group: Sequence[tuple[QuestionRecord, int]]) -> None:
        async with group_gate:
            await asyncio.gather(*itertools.starmap(make, group))

    await asyncio.gather(*map(make_all, groups))
    return failed


def check(rollout: Rollout) -> None:
    """Raise RolloutError for settings that nothing can be learnt from, before any work."""
    if rollout.options.engine.computing_kind == "openai":
        raise RolloutError(
            "an API endpoint gives texts without token ids, so that there is nothing to learn "
            "from: use --engine transformers, vllm or ray"
        )
    if getattr(rollout.options, "speculate_answer", False):
        raise RolloutError(
            "answers that are asked for beside a plan and dropped are no steps of a trajectory: "
            "leave out --speculate-answer"
        )
    temperature = rollout.temperature
    if not 0 <= temperature < math.inf:
        raise RolloutError(f"temperature {temperature}: give a number of 0 or more")
    if not temperature and rollout.group > 1:
        raise RolloutError(
            f"temperature 0 is greedy, and {rollout.group} trajectories of a question would be the "
            "same: give --temperature above 0, or --group 1"
        )
    check_baseline(rollout.weights, rollout.baseline)


def check_baseline(weights: RewardWeights, baseline: Path | None) -> None:
    """Raise RolloutError where gain has a weight and nothing to be measured against."""
    if weights.gain and baseline is None:
        raise RolloutError(
            "the weight of gain needs the answers after plain retrieval: name a finished "
            "evaluation with --baseline"
        )


def drawing_components(given: Sequence[str], components: LoopComponents) -> frozenset[Component]:
    """Return the components that draw, `None` for the backbone.

    Raises RolloutError for a name that the loop has no component of.
    """
    known = [*components.adapters, BACKBONE]
    for name in given:
        if name not in known:
            raise RolloutError(
                f"--sample {name}: the loop has no such component; it has {', '.join(known)}"
            )
    names = given or [RAS_ADAPTER if RAS_ADAPTER in components.adapters else BACKBONE]
    return frozenset(None if name == BACKBONE else name for name in names)


def versions_of(components: LoopComponents) -> dict[Component, str]:
    """Return the fingerprint of each component, and the backbone's name."""
    versions: dict[Component, str] = {None: components.backbone}
    return versions | {name: part.fingerprint for name, part in components.adapters.items()}


def read_baseline(folder: Path | None) -> dict[str, float]:
    """Return F1 of an evaluation's answers by question id, without those that failed.

    Raises TraceError where the folder is none of a finished evaluation.
    """
    if folder is None:
        return {}
    return {name: row.f1 for name, row in read_run(str(folder)).scores.items() if not row.failed}


def check_judged(made: Trajectory, record: QuestionRecord, where: str) -> None:
    """Raise RolloutError where a trajectory is of another question, or judged by other annotation.

    Its parts may be fewer than there are now; a baseline's F1 is among the settings.
    """
    parts = reward_parts(made, record)
    told = [name for name in made.reward_parts if name != "gain" and name in parts]
    as_now = all(made.reward_parts[name] == parts[name] for name in told)
    if made.question != record.question or not as_now:
        raise RolloutError(
            f"{where}: the trajectories of '{made.id}' are of another question, answer or "
            "annotation than the data set has now. Give the data set that the rollout was begun "
            "with, or another folder"
        )


def _names(drawn: frozenset[Component]) -> list[str]:
    return sorted(BACKBONE if name is None else name for name in drawn)


def _settings(
    rollout: Rollout, drawn: frozenset[Component], baseline: Mapping[str, float]
) -> dict[str, Any]:
    """Return what decides the trajectories of a run and their rewards."""
    return {
        **settings_of(rollout.options, rollout.dataset, rollout.shard),
        "question_documents": rollout.question_documents or None,
        "group": rollout.group,
        "temperature": rollout.temperature,
        "seed": rollout.seed,
        "sample": _names(drawn),
        "weights": vars(rollout.weights),
        "baseline": baseline_digest(baseline) if rollout.baseline else None,
        "corpus_sha256": rollout.corpus and data_file(rollout.corpus)["sha256"],
    }


def baseline_digest(baseline: Mapping[str, float]) -> str:
    """Return the sha256 of a baseline's F1 by question id."""
    return hashlib.sha256(json.dumps(sorted(baseline.items())).encode()).hexdigest()


def digest_of(settings: Mapping[str, Any]) -> str:
    """Return a digest of what the trajectories of one loop have in common.

    Shards, seeds and questions may differ: trajectories of several belong together.
    """
    free = ("shard", "seed", "dataset", "group")
    common = {name: each for name, each in comparable(settings).items() if name not in free}
    text = json.dumps(common, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
