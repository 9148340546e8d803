"""Improves a component by the outcomes of a loop: rounds of rolling out, training and measuring.

training/improve.py --config configs/improve/ras_smollm2.yaml output_dir=OUT \\
    rollout.questions=TRAIN.jsonl rollout.corpus=CORPUS.jsonl \\
    measure.questions=DEV.jsonl measure.corpus=CORPUS.jsonl [key=value ...]

Each round draws trajectories with the best component so far, trains it on them, and measures the
result on development questions: it is kept where it is better, else the next round starts from the
best again, with the next questions and what the best has drawn so far. What was killed goes on from
where it was, and with more rounds a finished improvement goes on.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.commands import command_parser, one_line_errors
from common.tables import emit_json, print_table
from training.recipe.settings import load_config
from training.rounds.record import Round
from training.rounds.run import Improvement
from training.rounds.settings import ImproveSettings

COLUMNS = ("round", "figure", "kept", "recall", "tokens a question", "reward", "drawn F1",
           "best F1", "searches", "malformed", "refused", "failed", "entropy",
           "KL", "rewarded gain")  # fmt: skip


def tokens_a_question(done: Round) -> int | None:
    """Return the weighted tokens of a development question; None where they were not counted."""
    tokens, questions = (done.measured.get(name) for name in ("weighted_tokens", "n"))
    return round(tokens / questions) if tokens is not None and questions else None


def rows(rounds: Sequence[Round]) -> list[list[Any]]:
    """Return the table of all rounds: what was measured, what was drawn, and what was learnt."""
    return [
        [
            done.number, done.figure, "yes" if done.kept else "no",
            done.measured.get("retrieval_recall"), tokens_a_question(done),
            *(done.rollout.get(name) for name in ("reward", "f1", "best_f1")),
            *(done.rollout.get("reward_parts", {}).get(p)
              for p in ("searches", "malformed", "refused")),
            done.rollout.get("errors"),
            *(done.learning.get(name) for name in ("entropy", "kl", "rewarded_gain")),
        ]
        for done in rounds
    ]  # fmt: skip


def draw(rounds: Sequence[Round], figure: str, out: Path) -> None:
    """Draw the course of the rounds, a panel a figure that any of them has."""
    from matplotlib.figure import Figure

    series: dict[str, list[tuple[int, float]]] = {}
    columns = list(zip(*rows(rounds), strict=True))
    named = [(figure, columns[1]), *list(zip(COLUMNS, columns, strict=True))[3:]]
    for name, values in named:
        told = [(done.number, v) for done, v in zip(rounds, values, strict=True) if v is not None]
        if told:
            series[name] = told
    picture = Figure(figsize=(2.6 * len(series), 2.6), layout="constrained")
    for place, (name, points) in enumerate(series.items(), start=1):
        axes = picture.add_subplot(1, len(series), place)
        axes.plot(*zip(*points, strict=True), "o-", markersize=3)
        axes.set(title=name, xlabel="round")
    picture.savefig(out, dpi=130)


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--config", type=Path, required=True, help="recipe of the improvement, a YAML file")
    add("--picture", type=Path, help="draw the course of the rounds: .png, .svg or .pdf")
    add("--json", action="store_true", help="print the rounds as one JSON object, last")
    add("overrides", nargs="*", metavar="key=value", help="win over the file, as rounds=5")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    settings = load_config(ImproveSettings, arguments.config, arguments.overrides)
    improvement = Improvement(settings)
    improvement.go_on()
    print_table(f"Rounds in {settings.output_dir}", COLUMNS, rows(improvement.rounds))
    if arguments.picture:
        draw(improvement.rounds, settings.measure.figure, arguments.picture)
    if arguments.json:
        emit_json({"best": improvement.best.number, "rounds": list(map(vars, improvement.rounds))})


if __name__ == "__main__":
    main()
