"""What only the outcome teaches: a planner that begins at chance, under each objective and reward.

    benchmarks/outcomes.py --objectives best_of policy --seeds 0 1 2 --rounds 8

In a small world a planner writes two kinds of subquery as often, of which one finds the passage;
training/improve.py goes its rounds, each of which shows in what share of its drawn trajectories the
other kind is asked, and the passage found, for which the thing's name must be copied too. Then the
planner may end without a search as well, few answers are right whatever it does, and searching
costs: a reward without penalties, and one with them. The last line of the output is one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.harness.choice_world import (
    NONE,
    RIGHT,
    WRONG,
    ChoiceWorld,
    is_wrong,
    write_components,
    write_world,
)
from benchmarks.harness.processes import benchmark_parser
from benchmarks.harness.run_folder import claim
from common.tables import emit_json, print_table
from inference.engines.contract import RAS_ADAPTER
from inference.opening.arguments import command, positive_int
from models.formats.records import read_records
from models.formats.trajectories import Trajectory
from training.recipe.settings import load_config
from training.rounds.record import DRAWN_FILE, round_folder
from training.rounds.run import Improvement
from training.rounds.settings import ImproveSettings

ROOT = Path(__file__).resolve().parents[1]
RECIPE = ROOT / "configs" / "improve" / "ras_smollm2.yaml"
PLAIN, GUARDED = "without penalties", "with penalties"
# With few right answers, a search costs more than it brings; refusing is then free, or is not.
REWARDS = {
    PLAIN: ["searches=0.1", "malformed=0", "repeated=0", "empty=0", "refused=0"],
    GUARDED: ["searches=0.1", "malformed=0.2", "repeated=0.2", "empty=0.2", "refused=0.5"],
}
KNOWN = 0.1
# Shares of drawn trajectories, by the parts of the reward that tell them.
PARTS = {
    "found": "recall", "searches": "searches", "malformed": "malformed", "refused": "refused"
}  # fmt: skip
# What every round of a kept folder has in common; seeds, objectives, rewards and rounds may grow.
COMMON = ("things", "group", "learning_rate", "epochs", "pretrain_steps")


def settings_for(
    folder: Path,
    out: Path,
    objective: str,
    seed: int,
    weights: list[str],
    options: argparse.Namespace,
) -> ImproveSettings:
    """Return the settings of an improvement in a world's folder."""
    world = [f"questions={folder / 'questions.jsonl'}", f"corpus={folder / 'corpus.jsonl'}"]
    loop = [
        "--loop", "ras", "--t2t", str(folder / "t2t"), "--retriever", "bm25", "--top-k", "1",
        "--max-rounds", "1", "--extraction", "all", "--span-reader", "none",
        "--passage-reader", "none", "--max-answer-tokens", "12", "--engine", "transformers",
        "--dtype", "float32",
    ]  # fmt: skip
    values = [
        f"objective.kind={objective}", "objective.kl_weight=0.05", "objective.clip=0.3",
        "model.dtype=float32", f"model.backbone={folder / 'backbone'}", "model.lora.rank=8",
        "model.lora.alpha=16", "model.lora.dropout=0.0", "model.lora.targets=[q_proj,v_proj]",
        "model.max_input_tokens=400", "model.max_output_tokens=48",
        "graph.enabled=false", f"train.learning_rate={options.learning_rate}",
        "train.batch_size=64", "train.gradient_accumulation_steps=1",
        "train.schedule=linear", "train.warmup_ratio=0",
        f"train.num_train_epochs={options.epochs}",
        "train.tensorboard=false", "train.save_steps=0", "validation.samples=0",
    ]  # fmt: skip
    given = [
        f"output_dir={out}", f"start_from={folder / 'ras'}", f"rounds={options.rounds}",
        f"seed={seed}", f"loop={json.dumps(loop)}", f"learning.values={json.dumps(values)}",
        f"learning.recipe={ROOT / 'configs' / 'ras_smollm2.yaml'}",
        *(f"rollout.{each}" for each in world), *(f"measure.{each}" for each in world),
        f"rollout.questions_a_round={options.things}", f"rollout.group={options.group}",
        f"rollout.weights={json.dumps(weights)}", "rollout.options=[]",
        # Every round is kept: what is shown is the course, a collapse too.
        "measure.figure=f1", "measure.least_gain=-2",
    ]  # fmt: skip
    return load_config(ImproveSettings, RECIPE, given)


def course(improvement: Improvement) -> list[dict[str, Any]]:
    """Return of each round what was asked for, found, right and searched, greedily and as drawn."""
    return [
        {
            "f1": done.measured["f1"],
            "f1_drawn": done.rollout.get("f1"),
            "wrong_drawn": share_of_wrong(
                round_folder(improvement.folder, done.number) / DRAWN_FILE
            ),
            **{
                f"{name}_drawn": done.rollout.get("reward_parts", {}).get(part)
                for name, part in PARTS.items()
            },
            "reward_drawn": done.rollout.get("reward"),
            "kl": done.learning.get("kl"),
            "entropy": done.learning.get("entropy"),
        }
        for done in improvement.rounds
    ]


def share_of_wrong(drawn: Path) -> float | None:
    """Return the share of drawn trajectories whose first plan is of the kind that finds nothing.

    None for the measurement of the start, which draws nothing.
    """
    if not drawn.is_file():
        return None
    first = (
        next(call.text for call in made.sampled_calls if call.component == RAS_ADAPTER)
        for made in read_records(drawn, Trajectory)
    )
    return fmean(is_wrong(plan) for plan in first)


def improved(
    folder: Path,
    name: str,
    objective: str,
    seed: int,
    weights: list[str],
    options: argparse.Namespace,
) -> list[dict[str, Any]]:
    """Return the course of an improvement in a world's folder."""
    settings = settings_for(folder, folder / name, objective, seed, weights, options)
    improvement = Improvement(settings)
    improvement.go_on()
    return course(improvement)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the courses by objective and seed, and by reward.

    Raises RunFolderError for a folder of other settings.
    """
    claim(folder, {name: getattr(options, name) for name in COMMON})
    found: dict[str, Any] = {"choice": {}, "rewards": {}}
    for seed in options.seeds:
        world, own = ChoiceWorld.drawn(options.things, seed), folder / f"choice-{seed}"
        write_world(own, world)
        write_components(own, world, (RIGHT, WRONG), options.pretrain_steps, seed)
        for objective in options.objectives:
            rounds = improved(own, objective, objective, seed, [], options)
            found["choice"].setdefault(objective, {})[str(seed)] = rounds
    if options.rewards:
        world, own = ChoiceWorld.drawn(options.things, options.seeds[0]), folder / "rewards"
        write_world(own, world, KNOWN)
        write_components(own, world, (RIGHT, WRONG, NONE), options.pretrain_steps, options.seeds[0])
        for place, name in enumerate(options.rewards):
            weights = REWARDS[name]
            rounds = improved(own, f"reward-{place}", "policy", options.seeds[0], weights, options)
            found["rewards"][name] = rounds
    return found


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--objectives", nargs="*", default=["best_of", "policy"], help="default: best_of policy")
    add("--rewards", nargs="*", choices=REWARDS, default=list(REWARDS), help="default: both")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2], help="worlds (default: 0 1 2)")
    add("--rounds", type=positive_int, default=8, help="default: 8")
    add("--things", type=positive_int, default=40, help="and questions (default: 40)")
    add("--group", type=positive_int, default=8, help="trajectories a question (default: 8)")
    add("--learning-rate", type=float, default=2e-3, help="of each round (default: 0.002)")
    add("--epochs", type=positive_int, default=8, help="of each round (default: 8)")
    add("--pretrain-steps", type=positive_int, default=450, help="of the backbone (default: 450)")
    add("--dir", type=Path, help="folder to work in, kept (default: a temporary one)")
    return parser


@command
def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found = measure(options, options.dir or Path(temporary))
    rows = [
        [f"{objective}, seed {seed}: {what}", *(each[f"{what}_drawn"] for each in rounds[1:])]
        for objective, seeds in found["choice"].items()
        for seed, rounds in seeds.items()
        for what in ("wrong", "found")
    ]
    # What a round draws is what the component of the round before does.
    numbers = [f"after {number}" for number in range(options.rounds)]
    print_table("Subqueries of the wrong kind, and passages found", ["objective", *numbers], rows)
    rows = [
        [f"{name}: {what}", *(each[f"{what}_drawn"] for each in rounds[1:])]
        for name, rounds in found["rewards"].items()
        for what in PARTS
    ]
    if rows:
        print_table("Where few answers are right", ["reward", *numbers], rows)
    emit_json({"benchmark": "outcomes", "settings": _shown(options), **found})


def _shown(options: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(options).items() if name != "dir"}


if __name__ == "__main__":
    main()
