"""Gather what improvements by rounds came to: each round's figures, paired against the start.

python benchmarks/improvements.py planner=OUT/planner both=OUT/both --json

Reads finished or unfinished folders of training/improve.py and trains nothing. F1 and EM of each
round's development questions are tested against those of the component that the improvement began
with (paired bootstrap; p-values of several rounds adjusted by Holm's method).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from common.commands import command_parser, name_and_path
from common.tables import emit_json, print_table
from evaluation.compare import compare_runs
from evaluation.runs import RESULTS_FILE, read_run
from inference.opening.arguments import command
from training.rounds.record import MEASURE, SETTINGS_FILE, Round, read_rounds, round_folder

COLUMNS = ("improvement", "round", "kept", "F1", "against the start", "p, Holm", "tokens")
# Of an evaluation's results; the others are paths, dates and what its traces tell.
MEASURED = ("n", "em", "f1", "retrieval_recall", "stages", "errors")


def gathered(folder: Path) -> dict[str, Any]:
    """Return an improvement's settings and rounds, each with its tests against round 0.

    Raises ValueError for a folder without a finished round.
    """
    rounds = read_rounds(folder)
    if not rounds:
        raise ValueError(f"{folder}: no round of training/improve.py is finished there; run it on")
    settings = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
    tested = _tested(folder, rounds)
    return {
        **{name: settings[name] for name in ("component", "loop", "seed")},
        "beside": settings["beside"]["component"],
        **{name: settings["rollout"][name] for name in ("weights", "group", "temperature")},
        "learning": settings["learning"]["values"],
        "least_gain": settings["measure"]["least_gain"],
        "rounds": [_told(done, tested.get(done.number, {})) for done in rounds],
    }


def _tested(folder: Path, rounds: Sequence[Round]) -> dict[int, dict[str, Any]]:
    """Return `compare_runs`' figures by round; a round that was passed over was not measured."""
    folders = {done.number: round_folder(folder, done.number) / MEASURE for done in rounds}
    runs = {
        number: read_run(f"{number}={measured}")
        for number, measured in folders.items()
        if (measured / RESULTS_FILE).is_file()
    }
    figures = compare_runs(list(runs.values()))["runs"]
    return dict(zip(runs, figures, strict=True))


def _told(done: Round, tested: Mapping[str, Any]) -> dict[str, Any]:
    told = asdict(done)
    for path in ("component", "beside"):
        del told[path]
    told["measured"] = {name: done.measured[name] for name in MEASURED if name in done.measured}
    for name in ("searches", "llm_calls", "weighted_tokens", "against_baseline"):
        told["measured"][name] = tested.get(name)
    return told


def rows(name: str, told: Mapping[str, Any]) -> list[list[Any]]:
    """Return a row for each round, a cell for each of `COLUMNS`."""
    found = []
    for each in told["rounds"]:
        measured = each["measured"]
        test = (measured["against_baseline"] or {}).get("f1", {})
        tokens = measured["weighted_tokens"]
        found.append(
            [
                name, each["number"], "yes" if each["kept"] else "no", measured.get("f1"),
                test.get("difference"), test.get("p_holm"), tokens and round(tokens),
            ]
        )  # fmt: skip
    return found


@command
def main() -> None:
    """Run the command."""
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("improvements", nargs="+", type=name_and_path, metavar="NAME=FOLDER", help="to be read")
    add("--json", action="store_true", help="print the figures as one JSON object, last")
    arguments = parser.parse_args()
    found = {name: gathered(folder) for name, folder in arguments.improvements}
    lines = [row for name, told in found.items() for row in rows(name, told)]
    print_table("Rounds", COLUMNS, lines)
    if arguments.json:
        emit_json(found)


if __name__ == "__main__":
    main()
