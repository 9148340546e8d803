"""Compare one adapter for several small jobs with an adapter for each, on the same samples.

python benchmarks/helpers.py --together checkpoints/helper_smollm2 \\
    --each decompose=DIR resolve=DIR --samples decompose=DEV.jsonl resolve=DEV.jsonl

Both write an output for each sample, in one engine; the measures are those of training, and the
difference is in exact match with the label, paired sample by sample.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

from tqdm import tqdm

from common.commands import command_parser
from common.errors import UserError
from common.tables import emit_json, print_table
from data_gen.sources.arguments import named_path
from evaluation.answers import exact_match
from evaluation.significance import paired_bootstrap
from inference.engines.contract import Engine
from inference.opening.arguments import add_engine_arguments, command, engine_options_from
from inference.opening.components import Component, helper_requests, open_helper
from inference.opening.engine import build_engine
from models.formats.records import HelperTask, InstructionSample, read_records
from models.helper import read_helper_config
from training.run.scores import score_helper

TOGETHER = "together"


class HelpersError(UserError, ValueError):
    """Helpers or samples that cannot be compared; the message says why."""


@dataclass(frozen=True)
class Job:
    """A task: its held-out samples, and the helper that has learned it alone."""

    task: HelperTask
    samples: Sequence[InstructionSample]
    alone: Component


def read_jobs(
    samples: Mapping[HelperTask, Path], each: Mapping[HelperTask, Path], limit: int, seed: int
) -> list[Job]:
    """Return the tasks that have samples, at most `limit` samples of each by chance.

    Raises HelpersError for a task without a helper of its own, a file without samples or with those
    of another task; CheckpointError as `open_helper`.
    """
    jobs = []
    for task, path in samples.items():
        if task not in each:
            raise HelpersError(f"--each: no helper for {task}. Write {task}=FOLDER there")
        read = list(read_records(path, InstructionSample))
        other = next((sample for sample in read if sample.task != task), None)
        if other is not None or not read:
            held = f"sample {other.id} is one of {other.task}" if other else "it holds no sample"
            raise HelpersError(f"{path}: {held}; samples of {task} are needed")
        random.Random(seed).shuffle(read)
        jobs.append(Job(task, read[:limit] if limit else read, open_helper(each[task], task)))
    return jobs


async def outputs_of(engine: Engine, component: Component, adapter: str, job: Job) -> list[str]:
    """Return what a helper writes for each sample, in the order of the samples."""
    make = helper_requests(component, job.task)
    requests = [replace(make(sample.prompt), adapter=adapter) for sample in job.samples]
    return [completion.text.strip() for completion in await engine.generate(requests)]


def compare(job: Job, together: Sequence[str], alone: Sequence[str]) -> dict[str, Any]:
    """Return the measures of both, and how their exact matches differ."""
    labels = [sample.label for sample in job.samples]
    before, after = (
        [float(exact_match(text, [label])) for text, label in zip(texts, labels, strict=True)]
        for texts in (alone, together)
    )
    return {
        "samples": len(labels),
        TOGETHER: score_helper(together, job.samples),
        "alone": score_helper(alone, job.samples),
        "exact_match": asdict(paired_bootstrap(before, after)),
    }


async def measure(together: Component, jobs: Sequence[Job], engine: Engine) -> dict[str, Any]:
    """Return the comparison of each task."""
    return {
        job.task: compare(
            job,
            await outputs_of(engine, together, TOGETHER, job),
            await outputs_of(engine, job.alone, job.task, job),
        )
        for job in tqdm(jobs, desc="helpers", unit=" tasks")
    }


def megabytes(folder: Path) -> float:
    """Return what a component's weights take on disk, in millions of bytes."""
    return sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 1e6


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    pairs: dict[str, Any] = {
        "type": named_path(get_args(HelperTask)),
        "nargs": "+",
        "required": True,
    }
    add("--together", type=Path, required=True, metavar="DIR", help="helper of all the tasks")
    add("--each", **pairs, metavar="TASK=DIR", help="helper of one task")
    add("--samples", **pairs, metavar="TASK=FILE", help="held-out samples of build_helpers.py")
    add("--limit", type=int, default=0, help="samples of each task, by chance (default: 0: all)")
    add("--seed", type=int, default=0, help="of that choice (default: 0)")
    add("--json", action="store_true", help="print the figures as one JSON object")
    add_engine_arguments(parser)
    return parser


async def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures that the command line asks for."""
    samples, each = (
        {cast(HelperTask, named.name): Path(named.path) for named in given}
        for given in (arguments.samples, arguments.each)
    )
    jobs = read_jobs(samples, each, arguments.limit, arguments.seed)
    for task in samples:
        read_helper_config(arguments.together, task)
    together = Component.open(arguments.together)
    adapters: dict[str, str | Path] = {TOGETHER: together.folder}
    adapters |= {job.task: job.alone.folder for job in jobs}
    engine = build_engine(
        engine_options_from(arguments), backbone=together.backbone, adapters=adapters
    )
    try:
        tasks = await measure(together, jobs, engine)
    finally:
        await engine.close()
    return {
        "benchmark": "helpers",
        "megabytes_together": megabytes(together.folder),
        "megabytes_alone": sum(megabytes(folder) for folder in {job.alone.folder for job in jobs}),
        "tasks": tasks,
    }


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    figures = asyncio.run(run(arguments))
    columns = ["task", "samples", "exact match: each", "together", "difference", "p"]
    print_table("One adapter for all and one for each", columns, [
        [
            task, row["samples"], 100 * row["alone"]["exact_match"],
            100 * row[TOGETHER]["exact_match"], 100 * row["exact_match"]["difference"],
            row["exact_match"]["p_value"],
        ]
        for task, row in figures["tasks"].items()
    ])  # fmt: skip
    if arguments.json:
        emit_json(figures)


if __name__ == "__main__":
    main()
