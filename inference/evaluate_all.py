"""Run several loops over several data sets with one engine, and set the results side by side.

python inference/evaluate_all.py --loops single ras t2rag --datasets musique=DATA/musique.jsonl \
    hotpot=DATA/hotpot.jsonl --corpus 'DATA/corpus/{dataset}.jsonl' \
    --propositions 'runs/propositions/{dataset}' --out runs/compared

Each run is what evaluate.py does, in OUT/DATASET/LOOP, and evaluate.py can go on with it. In paths,
{dataset} stands for the data set's name. With --resume, finished runs stay as they are.
"""

import argparse
import asyncio
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from common.commands import command_parser, name_and_path
from common.tables import emit_json
from evaluation.compare import compare_all, draw, markdown, show
from evaluation.runs import Run, TraceError, is_begun, read_run
from inference.opening.arguments import (
    add_searched_corpus,
    command,
    configure_logging,
    positive_int,
)
from inference.opening.loop import LOOPS, LoopComponents, engine_of, read_components
from inference.opening.loop_options import add_loop_arguments, options_from
from inference.runs.evaluation import Evaluation, read_questions, run_evaluation
from inference.runs.log import EvaluationLogError

PLACEHOLDER = "{dataset}"
TABLE_FILE = "compared.md"
PICTURE_FILE = "compared.png"


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add(
        "--datasets",
        nargs="+",
        required=True,
        type=name_and_path,
        metavar="NAME=FILE",
        help="questions in the JSON Lines contract, by the name that stands in paths and tables",
    )
    add_searched_corpus(parser)
    add("--out", required=True, type=Path, help="folder for the runs, the table and the picture")
    add("--concurrency", type=positive_int, default=16, help="questions at a time (default: 16)")
    add("--limit", type=positive_int, help="only the first so many questions of each data set")
    add("--resume", action="store_true", help="go on with the runs that --out holds")
    add("--baseline", metavar="LOOP", help="tested against (default: the first loop)")
    add_loop_arguments(parser, several=True)
    add("--json", action="store_true", help="print the comparison as one JSON object")
    return parser


def plan(arguments: Namespace) -> dict[tuple[str, str], Evaluation]:
    """Return every run by data set and loop, the loops of one data set after the other.

    Raises EvaluationLogError for a loop without its corpus, and for runs that are there where
    `--resume` is not given.
    """
    planned: dict[tuple[str, str], Evaluation] = {}
    for dataset, questions in arguments.datasets:
        for loop in dict.fromkeys(arguments.loops):
            given = {name: _of(dataset, value) for name, value in vars(arguments).items()}
            options = options_from(Namespace(**{**given, "loop": loop}))
            corpus: Path | None = Namespace(**given).corpus
            if LOOPS[loop].searches_corpus and corpus is None:
                raise EvaluationLogError(f"{loop} searches a corpus: name it with --corpus")
            out = arguments.out / dataset / loop
            begun = is_begun(out)
            if begun and not arguments.resume:
                raise EvaluationLogError(
                    f"{out} holds an evaluation: go on with --resume, or name another --out"
                )
            planned[dataset, loop] = Evaluation(
                options,
                questions,
                corpus,
                out,
                arguments.concurrency,
                arguments.limit,
                begun,
                question_documents=arguments.question_documents,
            )
    return planned


def _of(dataset: str, value: object) -> object:
    """Return a path with the data set's name in it."""
    return Path(str(value).replace(PLACEHOLDER, dataset)) if isinstance(value, Path) else value


def check_inputs(planned: Mapping[tuple[str, str], Evaluation]) -> None:
    """Read questions and components and look for every folder, before the first call is paid for.

    Raises RecordError, CheckpointError and EvaluationLogError, which names the run.
    """
    for questions, limit in {(run.dataset, run.limit) for run in planned.values()}:
        read_questions(questions, limit)
    for (dataset, loop), run in planned.items():
        read_components(run.options)
        needed = {"--corpus": run.corpus if LOOPS[loop].searches_corpus else None}
        if index := LOOPS[loop].index:
            needed[f"--{index}"] = getattr(run.options, index)
        for option, path in needed.items():
            if path is not None and not path.exists():
                raise EvaluationLogError(
                    f"{loop} over {dataset}: {option} {path} does not exist; check the path, "
                    "or build it first"
                )


async def run_all(planned: Mapping[tuple[str, str], Evaluation]) -> None:
    """Run one after the other, on one engine for all that share a backbone."""
    by_backbone: dict[str, list[tuple[Evaluation, LoopComponents]]] = {}
    for run in planned.values():
        parts = read_components(run.options)
        by_backbone.setdefault(parts.backbone, []).append((run, parts))
    for runs in by_backbone.values():
        engine = engine_of(runs[0][0].options.engine, [parts for _, parts in runs])
        try:
            for run, _ in runs:
                await run_evaluation(run, engine)
        finally:
            await engine.close()


def read_runs(planned: Mapping[tuple[str, str], Evaluation]) -> Sequence[Run]:
    """Return the runs under the names of the command line."""
    return [
        replace(read_run(str(run.out)), label=loop, dataset=dataset)
        for (dataset, loop), run in planned.items()
    ]


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    configure_logging()
    if arguments.baseline and arguments.baseline not in arguments.loops:
        raise EvaluationLogError(
            f"--baseline {arguments.baseline} is none of --loops {' '.join(arguments.loops)}"
        )
    planned = plan(arguments)
    check_inputs(planned)
    asyncio.run(run_all(planned))
    try:
        compared = compare_all(read_runs(planned), arguments.baseline)
    except TraceError as error:
        raise EvaluationLogError(str(error)) from error
    show(compared)
    (arguments.out / TABLE_FILE).write_text(markdown(compared), encoding="utf-8")
    draw(compared, arguments.out / PICTURE_FILE)
    if arguments.json:
        emit_json({"datasets": compared})


if __name__ == "__main__":
    main()
