"""The demo's commands, each one that a user can run alone."""

import shlex
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Step:
    """A title and the arguments of a Python command."""

    title: str
    arguments: list[str]

    def shown(self) -> str:
        """The command as a user would type it."""
        return shlex.join(["python", *self.arguments])


def _options(**values: object) -> list[str]:
    """`--name value` for each keyword."""
    pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in values.items()]
    return [word for pair in pairs for word in pair]


def build_steps(out: Path, questions: int, seed: int) -> list[Step]:
    """A world and its supervision; test questions and their passages stay out of it."""
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
    """Both trainings, from the shipped components, each within its minutes.

    The shipped components have seen real questions and another world, with other names.
    """
    return [
        _train("train text-to-triples", "t2t", out, "triples", t2t_minutes, 5.0e-4, seed),
        # Gently: what the shipped planner knows of when to stop is easily lost.
        _train("train RAS", "ras", out, "subq", ras_minutes, 1.5e-4, seed),
    ]


def _train(
    title: str, name: str, out: Path, data: str, minutes: float, learning_rate: float, seed: int
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
    ]
    launch = ["-m", "accelerate.commands.launch", *LAUNCH, f"training/train_{name}.py"]
    return Step(title, [*launch, "--config", f"configs/{name}_smollm2.yaml", *overrides])


def knowledge_base_step(out: Path, questions: int) -> Step:
    """Condition triplets of the passages that come with the first questions."""
    options = _options(
        corpus=out / "world" / "corpus.jsonl",
        questions=out / "world" / "questions_test.jsonl",
        question_limit=min(questions, TRI_RAG_QUESTIONS),
        max_batch_size=MAX_BATCH_SIZE,
        out=out / "kb",
    )
    return Step("build a knowledge base", ["inference/build_kb.py", *options])


def evaluate_steps(out: Path, questions: int) -> list[Step]:
    """The trained loop, the same without planning, the same model without retrieval, Tri-RAG.

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
    """One question with its subqueries, graph and answer."""
    return Step(
        "ask one of the questions that were answered right",
        ["inference/ask.py", question, *_loop_options(out)],
    )


def _reader_options(out: Path) -> list[str]:
    """What every loop is given: the world's passages, and the component that answers."""
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
