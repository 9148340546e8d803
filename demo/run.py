"""The whole path on one machine: a world, two trainings, four loops, two questions in full.

The first is asked of the world, with what was trained; the second of documents that are no
encyclopedia's, with the components that ship.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.commands import command_parser, one_line_errors
from common.tables import emit_json, print_table
from evaluation.significance import COLUMNS, type_rows
from models.files.backbone import NATIVE, resolve_dtype

ROOT = Path(__file__).resolve().parent.parent
RAS_LOOPS = ("none", "ras_no_planning", "ras")
COMPARED_LOOPS = (*RAS_LOOPS, "tri_rag")
# One process; said in full, so that the launcher does not list its defaults.
LAUNCH = [
    "--num_processes",
    "1",
    "--num_machines",
    "1",
    "--mixed_precision",
    "no",
    "--dynamo_backend",
    "no",
]
TOP_K = 2
MAX_TRIPLES = 6
# Both loops' requests of a round in one batch; memory is no concern at this size.
MAX_BATCH_SIZE = 160
# Condition triplets are long: only the passages that come with a few questions are read.
TRI_RAG_QUESTIONS = 8
TRI_RAG_ROUNDS = 4
OWN_DOCUMENTS = Path("evaluation") / "own_words" / "documents.jsonl"
OWN_QUESTION = "Who leads the company that gives the guarantee for the Korvo K2?"


@dataclass(frozen=True)
class Pace:
    """What is asked of a machine: held-out questions, and the minutes of both trainings."""

    test_questions: int
    t2t_minutes: float
    ras_minutes: float


# In float32 alone a step takes some ten times as long, and an answer five times.
BFLOAT16, FLOAT32 = Pace(72, 1.0, 1.5), Pace(24, 3.0, 4.0)


@dataclass(frozen=True)
class Step:
    """A title and the arguments of a Python command."""

    title: str
    arguments: list[str]

    def shown(self) -> str:
        """Return the command as a user would type it."""
        return shlex.join(["python", *self.arguments])


def _options(**values: object) -> list[str]:
    """Return `--name value` for each keyword."""
    pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in values.items()]
    return [word for pair in pairs for word in pair]


def build_steps(out: Path, questions: int, seed: int) -> list[Step]:
    """Return a world and its supervision; test questions and their passages stay out of it."""
    world = _options(questions=questions, seed=seed, out=out / "world")
    source = f"world={out / 'world'}"
    held_out = out / "world" / "questions_test.jsonl"
    triples = _options(source=source, exclude=held_out, out=out / "triples", seed=seed)
    samples = _options(
        source=source,
        exclude=held_out,
        top_k=TOP_K,
        max_triples=MAX_TRIPLES,
        first_plan_fraction=0.2,
        answer_fraction=0.5,
        # With the world's own shares and seed, the world's splits are kept.
        fractions="0.8,0.1,0.1",
        out=out / "subq",
        seed=seed,
    )
    return [
        Step("build a world", ["data_gen/build_world.py", *world, "--overwrite"]),
        Step("build text-to-triples samples", ["data_gen/build_triples.py", *triples]),
        Step(
            "build planner and answerer samples",
            ["data_gen/build_subq.py", *samples, "--balance-plans"],
        ),
    ]


def train_steps(out: Path, t2t_minutes: float, ras_minutes: float, seed: int) -> list[Step]:
    """Return both trainings, from the shipped components, each within its minutes.

    The shipped components have seen real questions and another world, with other names.
    """
    return [
        _train("train text-to-triples", "t2t", out, "triples", t2t_minutes, 5.0e-4, seed),
        # Gently: what the shipped planner knows of when to stop is easily lost. Its prompts have
        # no instructions.
        _train(
            "train RAS", "ras", out, "subq", ras_minutes, 1.5e-4, seed, "graph.instructions=false"
        ),
    ]


def _train(
    title: str,
    name: str,
    out: Path,
    data: str,
    minutes: float,
    learning_rate: float,
    seed: int,
    *more: str,
) -> Step:
    overrides = [
        f"output_dir={out / name}",
        f"data.train={out / data / 'train.jsonl'}",
        f"data.dev={out / data / 'dev.jsonl'}",
        "data.max_dev_samples=8",
        # The questions below measure the components; a validation here would only take minutes.
        "validation.samples=0",
        f"model.start_from=checkpoints/{name}_smollm2",
        "train.batch_size=4",
        "train.gradient_accumulation_steps=1",
        f"train.learning_rate={learning_rate}",
        f"train.max_train_minutes={minutes}",
        f"train.seed={seed}",
        *more,
    ]
    launch = ["-m", "accelerate.commands.launch", *LAUNCH, f"training/train_{name}.py"]
    return Step(title, [*launch, "--config", f"configs/{name}_smollm2.yaml", *overrides])


def knowledge_base_step(out: Path, questions: int) -> Step:
    """Return condition triplets of the passages that come with the first questions."""
    options = _options(
        corpus=out / "world" / "corpus.jsonl",
        questions=out / "world" / "questions_test.jsonl",
        question_limit=min(questions, TRI_RAG_QUESTIONS),
        max_batch_size=MAX_BATCH_SIZE,
        out=out / "kb",
    )
    return Step("build a knowledge base", ["inference/build_kb.py", *options])


def evaluate_steps(out: Path, questions: int) -> list[Step]:
    """Return the trained loop, it without planning, its model without retrieval, and Tri-RAG.

    Tri-RAG is asked the questions that its knowledge base was built for, hop by hop.
    """
    steps = [_evaluate(loop, out, questions, _loop_options(out)) for loop in RAS_LOOPS]
    asked = min(questions, TRI_RAG_QUESTIONS)
    tri_rag = [*_reader_options(out), *_options(kb=out / "kb", max_rounds=TRI_RAG_ROUNDS)]
    return [*steps, knowledge_base_step(out, questions), _evaluate("tri_rag", out, asked, tri_rag)]


def _evaluate(loop: str, out: Path, questions: int, loop_options: list[str]) -> Step:
    options = _options(
        loop=loop,
        dataset=out / "world" / "questions_test.jsonl",
        limit=questions,
        concurrency=questions,
        out=out / "results" / loop,
    )
    return Step(f"evaluate {loop}", ["inference/evaluate.py", *options, *loop_options])


def ask_step(out: Path, question: str) -> Step:
    """Return one question with its subqueries, graph and answer."""
    return Step(
        "ask one of the questions that were answered right",
        ["inference/ask.py", question, *_loop_options(out)],
    )


def own_documents_step() -> Step:
    """Return a question on documents of one's own, which the shipped components answer."""
    return Step(
        "ask documents of one's own, with the components that ship",
        ["inference/ask.py", OWN_QUESTION, "--corpus", str(OWN_DOCUMENTS)],
    )


def _reader_options(out: Path) -> list[str]:
    """Return what every loop is given: the world's passages, and the component that answers."""
    return _options(corpus=out / "world" / "corpus.jsonl", ras=out / "ras", max_answer_tokens=32)


def _loop_options(out: Path) -> list[str]:
    own = _options(
        t2t=out / "t2t",
        cache=out / "triples.sqlite",
        retriever="bm25",
        top_k=TOP_K,
        max_triples=MAX_TRIPLES,
        max_batch_size=MAX_BATCH_SIZE,
    )
    return [*_reader_options(out), *own]


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--out", type=Path, default=ROOT / "runs" / "demo", help="folder for everything made")
    add("--questions", type=int, default=900, help="questions of the world (default: 900)")
    add(
        "--test-questions",
        type=int,
        help=f"held-out questions asked (default: {BFLOAT16.test_questions}, and "
        f"{FLOAT32.test_questions} where nothing computes in bfloat16)",
    )
    for name, what in (("t2t", "text-to-triples"), ("ras", "RAS")):
        minutes, there = (vars(pace)[f"{name}_minutes"] for pace in (BFLOAT16, FLOAT32))
        text = f"training {what} (default: {minutes:g}, or there {there:g})"
        add(f"--{name}-minutes", type=float, help=text)
    add("--seed", type=int, default=0, help="seed of the world and of the trainings")
    add("--json", action="store_true", help="print the results as one JSON object")
    return parser


def pace_of(arguments: argparse.Namespace) -> Pace:
    """Return what is asked of this machine, as far as the command line does not say it."""
    is_fast = resolve_dtype(NATIVE) == "bfloat16"
    if not is_fast:
        sys.stdout.write(
            "This machine computes in float32 alone: trainings are longer and questions fewer.\n"
        )
    pace = BFLOAT16 if is_fast else FLOAT32
    given = {name: getattr(arguments, name) for name in vars(pace)}
    return replace(pace, **{name: value for name, value in given.items() if value is not None})


def run(step: Step) -> float:
    """Run one command, its output on this terminal; returns seconds. Exits where it fails."""
    sys.stdout.write(f"\n── {step.title}\n   $ {step.shown()}\n")
    sys.stdout.flush()
    start = time.perf_counter()
    # accelerate's launcher would otherwise leave all cores but one idle.
    environment = {"OMP_NUM_THREADS": str(os.cpu_count()), **os.environ}
    status = subprocess.run(
        [sys.executable, *step.arguments], cwd=ROOT, env=environment, check=False
    ).returncode
    if status:
        sys.exit(f"error: {step.title} ended with status {status}; see its output above")
    return time.perf_counter() - start


def example_question(out: Path) -> str:
    """The first question over a chain of facts that `ras` answered right, or the first of all."""
    with (out / "results" / "ras" / "traces.jsonl").open(encoding="utf-8") as lines:
        traces = [json.loads(line) for line in lines]
    chains = [trace for trace in traces if trace["type"] == "bridge"] or traces
    chains.sort(key=lambda trace: -trace["em"])
    return str(chains[0]["question"])


def results_of(out: Path) -> list[dict[str, Any]]:
    """What `evaluate.py` wrote for each loop, in order."""
    return [
        json.loads((out / "results" / loop / "results.json").read_text(encoding="utf-8"))
        for loop in COMPARED_LOOPS
    ]


def show_results(results: list[dict[str, Any]], seconds: dict[str, float]) -> None:
    """Print times and scores, by question type too."""
    rows = [[title, f"{value:.0f}"] for title, value in seconds.items()]
    rows.append(["all together", f"{sum(seconds.values()):.0f}"])
    print_table("Seconds", ["step", "seconds"], rows)
    table = [
        [r["loop"], r["n"], r["em"], "{:.2f} to {:.2f}".format(*r["em_ci95"]), r["f1"]]
        for r in results
    ]
    columns = ["loop", "questions", "EM", "EM, 95 %", "F1"]
    print_table("Held-out questions of the world", columns, table)
    by_type = [[r["loop"], *row] for r in results for row in type_rows(r["by_type"])]
    print_table("Held-out questions by type", ["loop", *COLUMNS], by_type)


@one_line_errors()
def main() -> None:
    """Run every step in turn."""
    arguments = _parser().parse_args()
    out = arguments.out.resolve()
    pace = pace_of(arguments)
    steps = [
        *build_steps(out, arguments.questions, arguments.seed),
        *train_steps(out, pace.t2t_minutes, pace.ras_minutes, arguments.seed),
        *evaluate_steps(out, pace.test_questions),
    ]
    seconds = {step.title: run(step) for step in steps}
    results = results_of(out)
    show_results(results, seconds)
    run(ask_step(out, example_question(out)))
    run(own_documents_step())
    if arguments.json:
        emit_json({"results": results, "seconds": seconds})


if __name__ == "__main__":
    main()
