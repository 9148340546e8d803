"""build_answers.py as it is run: the gold answer over what a loop's own trajectories found."""

import json
from pathlib import Path
from typing import Any

from models.formats.helpers import NOTHING
from models.formats.model_calls import ModelCall
from models.formats.planning import HistoryStep
from models.formats.records import RasSample, read_records
from models.formats.trajectories import Trajectory
from models.formats.triples import Triple
from tests.data_gen.test_build_commands import question, run, write_lines

DIRECTOR, PLACE = Triple("Zone", "director", "Ana"), Triple("Ana", "place of birth", "Montreal")
OPTIONS = ("--tokenizer", "words", "--json", "--fractions", "0.5,0.5,0")


def trajectory(name: str, number: int, *found: Triple, answered: bool = True) -> dict[str, Any]:
    """One whose answerer was shown these triples, and wrote something else than the gold answer."""
    history = [HistoryStep("Where was Ana born?", found)]
    samples = [RasSample("", "plan", "Where?", [], "[SUBQ] Where was Ana born?")]
    samples += [RasSample("", "answer", "Where?", history, "Paris")] if answered else []
    calls = [ModelCall("ras", "v1", "greedy", sample.label, sample) for sample in samples]
    return Trajectory(name, "", number, "Where?", 0, 0.7, calls, [], "Paris").to_json()


def build(
    folder: Path, trajectories: list[dict[str, Any]], *more: str
) -> tuple[dict[str, Any], dict[str, list[RasSample]]]:
    """Run the command; its card and the samples of each split."""
    asked = write_lines(folder / "questions.jsonl", [question(number) for number in range(8)])
    drawn = write_lines(folder / "trajectories.jsonl", trajectories)
    given = ("--source", f"2wikimultihopqa={asked}", "--trajectories", drawn, *more)
    done = run("build_answers.py", *given, "--out", folder / "out", *OPTIONS, cwd=folder)
    assert done.returncode == 0, done.stderr
    card = json.loads((folder / "out" / "card.json").read_text(encoding="utf-8"))
    names = ("train", "dev")
    return card, {n: list(read_records(folder / "out" / f"{n}.jsonl", RasSample)) for n in names}


def test_the_gold_answer_is_the_label_where_something_found_holds_it(tmp_path: Path) -> None:
    lines = [
        trajectory("q0", 0, DIRECTOR, PLACE),
        trajectory("q0", 1, PLACE),
        trajectory("q1", 0),
        trajectory("q2", 0, DIRECTOR),
        trajectory("q3", 0, answered=False),
        trajectory("unknown", 0, PLACE),
    ]
    card, splits = build(tmp_path, lines)
    samples = {sample.id: sample for split in splits.values() for sample in split}
    labels = {name: sample.label for name, sample in samples.items()}
    gold = question(0)["answer"]
    assert labels == {"q0/answer/0": gold, "q0/answer/1": gold, "q1/answer/0": NOTHING}
    assert samples["q0/answer/0"].history[0].triples == (DIRECTOR, PLACE)
    counts = card["counts"]
    assert counts["samples"] == 3
    assert counts["left out: nothing that was found holds the answer"] == 1
    assert counts["left out: the answerer was not asked"] == 1
    assert counts["left out: of a question that no source has"] == 1


def test_trajectories_of_a_question_share_a_split_and_repeated_prompts_count_once(
    tmp_path: Path,
) -> None:
    # The questions differ in number alone, and so do the triples of two trajectories of each.
    lines = [
        trajectory(f"q{number}", turn, PLACE, *([DIRECTOR] * turn), Triple("n", "is", str(number)))
        for number in range(8)
        for turn in (0, 1)
    ]
    card, splits = build(tmp_path, [*lines, {**lines[0], "number": 2}])
    owners = [{sample.question_id for sample in split} for split in splits.values()]
    assert all(owners)
    assert not owners[0] & owners[1]
    assert sum(map(len, splits.values())) == len(lines)
    assert card["counts"]["prompts that came again"] == 1


def test_test_questions_are_left_out(tmp_path: Path) -> None:
    held = write_lines(tmp_path / "test.jsonl", [{**question(0), "evidences": []}])
    lines = [trajectory("q0", 0, PLACE), trajectory("q1", 0, PLACE)]
    card, splits = build(tmp_path, lines, "--exclude", str(held))
    assert [s.id for split in splits.values() for s in split] == ["q1/answer/0"]
    assert card["counts"]["left out: a test question"] == 1


def test_plans_of_right_answers_are_kept_where_they_are_wanted(tmp_path: Path) -> None:
    lines = [
        {**trajectory("q0", 0, PLACE), "f1": 0.9},
        {**trajectory("q1", 0, PLACE), "f1": 0.7},
        {**trajectory("q2", 0, PLACE), "f1": None},
        {**trajectory("q3", 0, PLACE), "f1": 1.0, "notes": ["stopped at a repeated subquery"]},
    ]
    card, splits = build(tmp_path, lines, "--plans-from", "0.8")
    plans = {s.id: s.label for split in splits.values() for s in split if s.task == "plan"}
    assert plans == {"q0/plan/0.0": "[SUBQ] Where was Ana born?"}
    # Plans and answers of a question share its split.
    assert {s.question_id for split in splits.values() for s in split} == {"q0"}
    assert card["counts"]["plans"] == card["planning"]["queries"] == 1
    (tmp_path / "none").mkdir()
    assert "plans" not in build(tmp_path / "none", lines)[0]["counts"]
