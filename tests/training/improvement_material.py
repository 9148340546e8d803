"""A tiny improvement by rounds: components, questions, and the values of its command."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from models.formats.records import QuestionRecord, read_records, write_records
from tests import processes
from tests.inference.rollout_material import trajectories, write_material


def write_improvement(folder: Path, rounds: int = 1, two: bool = False) -> list[str]:
    """Write components, a corpus and questions; returns all of the command but output_dir.

    two: the text-to-triples model draws and learns beside the planner and answerer.

    Right is what the first trajectory of each question says in every round, so that there is
    something to tell apart, as long as no round's component is kept.
    """
    options = write_material(folder)
    questions, corpus = folder / "questions.jsonl", folder / "corpus.jsonl"
    drawing = ("ras", "t2t") if two else ("ras",)
    said = [
        _said(options, folder / f"drawn-{seed}", seed, drawing) for seed in range(1, rounds + 1)
    ]
    asked = list(read_records(questions, QuestionRecord))
    answers = [" ".join(answers) for answers in zip(*said, strict=True)]
    right = [replace(record, answer=answer) for record, answer in zip(asked, answers, strict=True)]
    write_records(questions, right)
    plain = [
        "objective.kind=policy", f"model.backbone={folder / 'backbone'}", "model.dtype=float32",
        "model.max_input_tokens=1500", "train.max_steps=2", "train.tensorboard=false",
        "train.logging_steps=1",
    ]  # fmt: skip
    ras = [
        "model.lora.rank=8", "model.lora.alpha=16", "'model.lora.targets=[q_proj,v_proj]'",
        "graph.encoder=hash", "graph.hidden_dim=16", "graph.num_layers=2", "graph.num_heads=2",
        "graph.projector_dim=32",
    ]  # fmt: skip
    beside = [
        "beside.component=t2t", f"beside.start_from={folder / 't2t'}",
        f"beside.values=[{','.join([*plain, 'model.lora.rank=4', 'model.lora.alpha=32'])}]",
        f"beside.recipe={processes.ROOT / 'configs/t2t_tiny.yaml'}",
    ]  # fmt: skip
    loop = [*options, "--cache", str(folder / "triples.sqlite")]
    # The command's own to name: what improves, and where its questions come from.
    for name in ("--ras", "--dataset", "--corpus", "--group"):
        del loop[(place := loop.index(name)) : place + 2]
    return [
        f"start_from={folder / 'ras'}", f"loop=[{','.join(loop)}]",
        f"rollout.questions={questions}", f"rollout.corpus={corpus}", "rollout.group=4",
        "rollout.questions_a_round=3", "rollout.weights=[malformed=0]", f"rounds={rounds}",
        f"measure.questions={questions}", f"measure.corpus={corpus}",
        f"learning.values=[{','.join([*plain, *ras])}]",
        f"learning.recipe={processes.ROOT / 'configs/ras_tiny.yaml'}", *(beside if two else ()),
    ]  # fmt: skip


def _said(options: list[str], out: Path, seed: int, sample: Sequence[str]) -> list[str]:
    """Return the answer of each question's first trajectory, drawn with a seed."""
    drawing = ("--group", 1, "--temperature", 1, "--seed", seed, "--out", out)
    given = (*options, *drawing, "--sample", *sample, "--cache", out.with_suffix(".sqlite"))
    done = processes.run(processes.ROOT / "inference/rollout.py", *given)
    assert done.returncode == 0, done.stderr
    return [trajectory.answer or "x" for trajectory in trajectories(out)]
