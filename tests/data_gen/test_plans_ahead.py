"""Plans of several steps are made of right trajectories, and ask what they asked."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from data_gen.build_plans_ahead import main
from data_gen.facts.solving_steps import SolvingStep
from data_gen.samples.plans_ahead import (
    annotated_ahead,
    needs_no_answer,
    samples_ahead,
)
from inference.loops.model import GraphReader
from models.formats.model_calls import ModelCall
from models.formats.planning import MAX_SUBQUERIES, HistoryStep, PlanAction, parse_plans
from models.formats.records import QuestionRecord, RasSample, read_records, write_records
from models.formats.trajectories import Trajectory, TrajectoryStep
from models.formats.triples import Triple
from tests.scripted import text_input

BRIDGE = "Which film has the director who was born first, Dawn or Dusk at 5?"
STEPS = [
    TrajectoryStep("Who directed Dawn?", [], [Triple("Dawn", "director", "Ana Lis")]),
    TrajectoryStep("Who directed Dusk at 5?", [], [Triple("Dusk at 5", "director", "Bo Ek")]),
    TrajectoryStep("When was Ana Lis born?", [], [Triple("Ana Lis", "born", "1950")]),
    TrajectoryStep("When was Bo Ek born?", [], [Triple("Bo Ek", "born", "1960")]),
]


def call(task: str, text: str, history: list[HistoryStep]) -> ModelCall:
    sample = RasSample(f"q/{task}", task, BRIDGE, history, text)  # type: ignore[arg-type]
    return ModelCall("ras", "v", "greedy", text, sample)


def trajectory(
    steps: list[TrajectoryStep], end: str = "[SUFFICIENT]", f1: float = 1.0
) -> Trajectory:
    """What a planner that looks again after each step did."""
    history = [HistoryStep(step.subquery, tuple(step.triples)) for step in steps]
    asked = [f"[SUBQ] {step.subquery}" for step in steps]
    calls = [call("plan", text, history[:n]) for n, text in enumerate([*asked, end])]
    calls.append(call("answer", "Dawn", history))
    return Trajectory("q", "", 0, BRIDGE, 0, 0.0, calls, steps, "Dawn", f1, f1)


def test_steps_that_do_not_need_each_other_are_asked_at_once() -> None:
    made = samples_ahead(trajectory(STEPS))
    assert [(sample.id, len(sample.history), sample.label) for sample in made] == [
        ("q/plan/0.0", 0, "[SUBQ] Who directed Dawn?\n[SUBQ] Who directed Dusk at 5?"),
        (
            "q/plan/0.2",
            2,
            "[SUBQ] When was Ana Lis born?\n[SUBQ] When was Bo Ek born?\n[SUFFICIENT]",
        ),
        ("q/answer/0", 4, "Dawn"),
    ]
    assert made[1].history == made[2].history[:2]
    assert {sample.question_id for sample in made} == {"q"}


def test_every_subquery_stays_and_in_its_order() -> None:
    labels = [sample.label for sample in samples_ahead(trajectory(STEPS)) if sample.task == "plan"]
    asked = [plan.subquery for label in labels for plan in parse_plans(label).plans]
    assert [text for text in asked if text] == [step.subquery for step in STEPS]


def test_where_a_step_found_nothing_the_planner_looks_again() -> None:
    silent = [*STEPS[:3], replace(STEPS[3], triples=[])]
    labels = [sample.label for sample in samples_ahead(trajectory(silent))]
    assert labels[1:3] == [
        "[SUBQ] When was Ana Lis born?\n[SUBQ] When was Bo Ek born?",
        "[SUFFICIENT]",
    ]


def test_a_loop_that_did_not_end_itself_tells_no_end() -> None:
    assert samples_ahead(trajectory(STEPS, end="[SUBQ] Who directed Dawn?")) == []
    assert samples_ahead(trajectory(STEPS, end="who knows")) == []
    cut = trajectory(STEPS, end="[SUBQ] Who else?\n[SUFFICIENT]")
    assert samples_ahead(cut)
    assert samples_ahead(replace(cut, notes=["stopped after 4 rounds"])) == []


def test_a_question_without_retrieval_stays_one() -> None:
    made = samples_ahead(trajectory([], end="[NO_RETRIEVAL]"))
    assert [sample.label for sample in made] == ["[NO_RETRIEVAL]", "Dawn"]


def test_no_more_are_asked_at_once_than_the_loop_takes() -> None:
    many = [TrajectoryStep(f"What of it, part {'i' * n}?", [], [Triple("a", "b", "c")])
            for n in range(1, 8)]  # fmt: skip
    counts = [
        sample.label.count(PlanAction.SUBQ)
        for sample in samples_ahead(trajectory(many))
        if sample.task == "plan"
    ]
    assert counts == [MAX_SUBQUERIES, 7 - MAX_SUBQUERIES]
    reader = GraphReader(ScriptedEngine(lambda request: ""), text_input, plan_ahead=True)
    assert reader.max_subqueries == MAX_SUBQUERIES


@pytest.mark.parametrize(
    ("subquery", "alone"),
    [
        ("Who directed Dusk at 5?", True),
        ("When was Ana Lis born?", False),
        ("Ana Lis was born when?", False),
        ("Who directed it in 1950?", False),
        ("who directed the other film?", True),
        ("When was Ólafur born?", False),
    ],
)
def test_what_needs_an_earlier_answer(subquery: str, alone: bool) -> None:
    assert needs_no_answer(subquery, BRIDGE, STEPS[:1]) == alone


def test_an_answer_may_be_the_subject_of_its_fact() -> None:
    found = [TrajectoryStep("Who wrote Dawn?", [], [Triple("the old poet", "wrote", "Dawn")])]
    assert not needs_no_answer("Where was the old poet born?", BRIDGE, found)
    assert needs_no_answer("Where was the young poet born?", BRIDGE, found)


BORN_FIRST = QuestionRecord("b", BRIDGE, "Dawn")


def step(subquery: str, answer: str, *needs: int) -> SolvingStep:
    subject = subquery.split(maxsplit=2)[2].rstrip("?")
    return SolvingStep(subquery, Triple(subject, "director", answer), None, needs)


DIRECTORS = [step("Who directed Dawn?", "Ana Lis"), step("Who directed Dusk at 5?", "Bo Ek")]


def test_annotated_steps_are_asked_in_as_few_rounds_as_they_need() -> None:
    born = [step("When was Ana Lis born?", "1950", 0), step("When was Bo Ek born?", "1960", 1)]
    samples = annotated_ahead(BORN_FIRST, [*DIRECTORS, *born])
    assert [(s.id, s.label) for s in samples] == [
        ("b/plan/0", "[SUBQ] Who directed Dawn?\n[SUBQ] Who directed Dusk at 5?"),
        ("b/plan/2", "[SUBQ] When was Ana Lis born?\n[SUBQ] When was Bo Ek born?\n[SUFFICIENT]"),
        ("b/answer", "Dawn"),
    ]
    assert samples[1].history[0].triples == (Triple("Dawn", "director", "Ana Lis"),)
    assert [step.subquery for step in samples[2].history][2:] == [s.subquery for s in born]


def test_a_name_that_nothing_told_yet_waits_a_round() -> None:
    """The annotation says the bridge under another name than the answer before."""
    samples = annotated_ahead(BORN_FIRST, [DIRECTORS[0], step("When was Anna Liss born?", "1950")])
    plans = [sample.label for sample in samples if sample.task == "plan"]
    assert plans == ["[SUBQ] Who directed Dawn?", "[SUBQ] When was Anna Liss born?\n[SUFFICIENT]"]


def test_steps_without_a_fact_teach_nothing_and_no_steps_no_retrieval() -> None:
    bare = SolvingStep("What is known about Dawn?", Triple("Dawn", "", ""), None, (), loose=True)
    assert annotated_ahead(BORN_FIRST, [bare]) == []
    [asked] = annotated_ahead(replace(BORN_FIRST, type="comparison"), [bare, bare])
    assert asked.label == f"[SUBQ] {BRIDGE}\n[SUFFICIENT]" and not asked.history
    labels = [sample.label for sample in annotated_ahead(BORN_FIRST, [])]
    assert labels == ["[NO_RETRIEVAL]", "Dawn"]


def test_the_command_takes_right_trajectories_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = [replace(trajectory(STEPS), id=f"r{n}") for n in range(40)]
    others = [
        trajectory(STEPS, f1=0.5),
        replace(trajectory(STEPS), id="n", f1=None),
        replace(trajectory(STEPS, end="[SUBQ] Who directed Dawn?"), id="e"),
    ]
    write_records(tmp_path / "t.jsonl", [*right, *others])
    main(["--trajectories", str(tmp_path / "t.jsonl"), "--dev-fraction", "0.3",
          "--out", str(tmp_path / "out"), "--json"])  # fmt: skip
    card = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert card["left_out"] == {
        "not right": 1,
        "without a gold answer": 1,
        "not ended by its planner": 1,
    }
    assert card["calls of the planner"] == {"before": 200, "ahead": 80}
    assert card["plans"] == {"2 subqueries": 40, "2 subqueries, then enough": 40}
    train, dev = (
        list(read_records(tmp_path / f"out/{n}.jsonl", RasSample)) for n in ("train", "dev")
    )
    assert {len(train), len(dev)} == set(card["splits"].values())
    assert len(train) + len(dev) == 120
    assert not {s.question_id for s in train} & {s.question_id for s in dev}


def test_plans_that_found_the_passages_are_learnt_without_their_wrong_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"all": 1.0, "half": 0.5, "none": 0.0, "unknown": None}
    wrong = [
        replace(trajectory(STEPS, f1=0.0), id=name, reward_parts={"recall": recall})
        for name, recall in found.items()
    ]
    write_records(tmp_path / "t.jsonl", [replace(trajectory(STEPS), id="right"), *wrong])
    main(["--trajectories", str(tmp_path / "t.jsonl"), "--dev-fraction", "0", "--least-recall",
          "1", "--out", str(tmp_path / "out"), "--json"])  # fmt: skip
    card = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert card["answers"] == {"right": 1, "wrong, passages found": 1}
    assert card["left_out"] == {"not right": 3}
    samples = list(read_records(tmp_path / "out/train.jsonl", RasSample))
    tasks = {(s.question_id, s.task) for s in samples}
    assert tasks == {("right", "plan"), ("right", "answer"), ("all", "plan")}


def test_one_trajectory_from_two_files_is_refused(tmp_path: Path) -> None:
    for name in "ab":
        write_records(tmp_path / f"{name}.jsonl", [trajectory(STEPS)])
    given = [word for name in "ab" for word in ("--trajectories", str(tmp_path / f"{name}.jsonl"))]
    with pytest.raises(SystemExit, match=r"b.jsonl: trajectory 0 of question .* --group"):
        main([*given, "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_nothing_to_learn_from_is_said(tmp_path: Path) -> None:
    write_records(tmp_path / "t.jsonl", [trajectory(STEPS, f1=0.0)])
    with pytest.raises(SystemExit, match="lower --least-f1"):
        main(["--trajectories", str(tmp_path / "t.jsonl"), "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
