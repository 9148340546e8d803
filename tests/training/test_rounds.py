"""Rounds of an improvement: what is asked for, kept, gone on with and refused."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.formats.records import QuestionRecord, read_records, write_records
from models.formats.trajectories import Trajectory
from tests.training.round_commands import (
    EVALUATE,
    ROLLOUT,
    TRAIN,
    TRAIN_BESIDE,
    Commands,
    after,
    settings_in,
    value,
)
from training.improve import draw
from training.recipe.settings import ConfigError
from training.rounds.run import Improvement
from training.rounds.settings import ImproveSettings
from training.rounds.steps import RoundError, execute


@pytest.fixture
def settings(tmp_path: Path) -> ImproveSettings:
    return settings_in(tmp_path, "loop=[--loop,ras]")


def test_the_better_component_is_kept_and_the_next_round_starts_from_it(
    settings: ImproveSettings, tmp_path: Path
) -> None:
    commands = Commands([0.5, 0.6, 0.55, 0.7])
    improvement = Improvement(settings, commands)
    improvement.go_on()
    assert [done.kept for done in improvement.rounds] == [True, True, False, True]
    assert improvement.best.number == 3
    rollouts = [words for words in commands.asked if ROLLOUT in words]
    first, second = (str(tmp_path / f"out/round-0{n}/train") for n in (1, 3))
    assert [after(words, "--ras") for words in rollouts] == ["START", first, first]
    assert [after(words, "--seed") for words in rollouts] == ["1", "2", "3"]
    assert all("--weights recall=0.3" in " ".join(words) for words in rollouts)
    trainings = [words for words in commands.asked if TRAIN in words]
    assert [value(words, "model.start_from") for words in trainings] == ["START", first, first]
    assert all(words[0] == sys.executable for words in commands.asked)
    asked = [
        [r.id for r in read_records(after(words, "--dataset"), QuestionRecord)]
        for words in rollouts
    ]
    assert asked == [["q0", "q1", "q2"], ["q3", "q4", "q0"], ["q1", "q2", "q3"]]
    assert (tmp_path / "out/best").resolve() == Path(second)
    assert improvement.rounds[1].learning["kl"] == 0.01
    assert improvement.rounds[1].rollout["reward_parts"] == {"searches": 2.0}


def test_what_a_component_drew_in_rounds_that_were_not_kept_is_learnt_from_again(
    settings: ImproveSettings,
) -> None:
    commands = Commands([0.5, 0.4, 0.4, 0.6, 0.7])
    improvement = Improvement(replace(settings, rounds=4), commands)
    improvement.go_on()
    assert [done.kept for done in improvement.rounds] == [True, False, False, True, True]
    trainings = [words for words in commands.asked if TRAIN in words]
    learnt = [
        [t.key for t in read_records(value(words, "data.train"), Trajectory)] for words in trainings
    ]
    # Three of five questions a round, in turn: one that came again has a group of both rounds'.
    first = [("q0", 0), ("q1", 0), ("q2", 0)]
    second = [("q3", 4), ("q4", 4), ("q0", 4)]
    third = [("q1", 8), ("q2", 8), ("q3", 8)]
    assert learnt[:3] == [first, [*first, *second], [*first, *second, *third]]
    assert learnt[3] == [("q4", 0), ("q0", 0), ("q1", 0)]


def test_a_round_whose_trajectories_are_all_worth_the_same_is_passed_over(
    settings: ImproveSettings, tmp_path: Path
) -> None:
    commands = Commands([0.5, 0.6, 0.7], mixed_groups=[2, 0, 1])
    improvement = Improvement(settings, commands)
    improvement.go_on()
    assert [done.kept for done in improvement.rounds] == [True, True, False, True]
    first, passed, last = improvement.rounds[1:]
    assert passed.component == first.component and passed.rollout["mixed_groups"] == 0
    assert passed.figure is None and passed.measured == passed.learning == {}
    draw(improvement.rounds, "f1", tmp_path / "rounds.svg")
    trainings = [words for words in commands.asked if TRAIN in words]
    assert [value(words, "model.start_from") for words in trainings] == ["START", first.component]
    assert improvement.best == last
    # Gone on from its records, nothing is asked again.
    again = Commands([])
    Improvement(settings, again).go_on()
    assert not again.asked


def test_what_an_objective_takes_nothing_of_is_passed_over(settings: ImproveSettings) -> None:
    commands = Commands([0.5, 0.6, 0.7], nothing=["round-02/train"])
    improvement = Improvement(settings, commands)
    improvement.go_on()
    assert [done.figure for done in improvement.rounds] == [0.5, 0.6, None, 0.7]
    # It is not learnt from, nor asked again, when the improvement goes on.
    settings.rounds = 2
    assert Improvement(settings, Commands([])).best.number == 3
    settings.rounds = 4
    again = Commands([0.8])
    Improvement(settings, again).go_on()
    assert len(again.asked) == 3


def test_what_fails_is_tried_again_and_the_rest_decides_nothing(settings: ImproveSettings) -> None:
    settings.rounds = 1
    commands = Commands([0.5, 0.6], errors=[40])
    Improvement(settings, commands).go_on()
    [first, again] = [words for words in commands.asked if EVALUATE in words][:2]
    assert again == [*first, "--resume"]
    settings.output_dir += "_failing"
    failing = Commands([0.5], errors=[40, 40])
    with pytest.raises(RoundError, match=r"measure: 40 of 300 failed twice"):
        Improvement(settings, failing).go_on()
    improvement = Improvement(settings, Commands([0.5, 0.6]))
    improvement.go_on()
    assert [done.figure for done in improvement.rounds] == [0.5, 0.6]
    # Few that fail whenever they are asked hold nothing up.
    settings.output_dir += "_again"
    few = Improvement(settings, Commands([0.5, 0.5, 0.6, 0.6], errors=[3, 3, 0, 2, 2]))
    few.go_on()
    assert few.best.figure == 0.6


def test_what_is_being_learnt_from_is_not_drawn_again(settings: ImproveSettings) -> None:
    """The training goes on in the same order, and no trajectory comes in between."""
    settings.rounds = 1
    settings.rollout.questions_a_round = 500
    records = [QuestionRecord(f"q{n}", "Who?", "x") for n in range(500)]
    write_records(settings.rollout.questions, records)
    killed = Commands([0.5], errors=[0, 3, 3], fails_at=3)
    with pytest.raises(RoundError):
        Improvement(settings, killed).go_on()
    rest = Commands([0.6])
    Improvement(settings, rest).go_on()
    assert [TRAIN in words or EVALUATE in words for words in rest.asked] == [True, True]


def test_a_second_component_that_does_not_draw_is_found_before_the_first_learns(
    together: ImproveSettings,
) -> None:
    commands = Commands([0.5], sampled={"ras": 3})
    with pytest.raises(RoundError, match="no call of t2t was drawn"):
        Improvement(together, commands).go_on()
    assert not any(TRAIN in words for words in commands.asked)


def test_a_round_without_questions_is_refused_and_can_be_mended(settings: ImproveSettings) -> None:
    questions = Path(settings.rollout.questions)
    there = questions.read_bytes()
    questions.write_text("")
    with pytest.raises(RoundError, match="holds 0 questions"):
        Improvement(settings, Commands([0.5])).go_on()
    questions.write_bytes(there)
    Improvement(settings, Commands([0.6, 0.55, 0.7])).go_on()


def test_how_is_learnt_may_change_until_a_round_has_learned_so(settings: ImproveSettings) -> None:
    with pytest.raises(RoundError):
        Improvement(settings, Commands([0.5], fails_at=2)).go_on()
    settings.rounds = 1
    settings.learning.values = ["objective.kind=best_of", "train.batch_size=2"]
    commands = Commands([0.6])
    Improvement(settings, commands).go_on()
    assert any("train.batch_size=2" in words for words in commands.asked)
    settings.learning.values = ["objective.kind=best_of", "train.batch_size=4"]
    with pytest.raises(ConfigError, match="rounds with another learning"):
        Improvement(settings)
    settings.learning.values[1] = "train.batch_size=2"
    settings.learning.launcher = ["accelerate", "launch"]
    assert Improvement(settings).best.number == 1


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        ({"sampled": {}}, "no call of ras was drawn, which takes no part in the loop"),
        ({"without": {"reward": 3, "recall": 3, "f1": 0}}, "since nothing tells its recall"),
    ],
)
def test_a_rollout_that_more_of_the_same_would_not_mend_ends_the_improvement(
    settings: ImproveSettings, drawn: dict[str, Any], message: str
) -> None:
    with pytest.raises(RoundError, match=message):
        Improvement(settings, Commands([0.5], **drawn)).go_on()


def test_a_kill_between_a_round_and_its_links_loses_nothing(
    together: ImproveSettings, tmp_path: Path
) -> None:
    Improvement(together, Commands([0.5, 0.6, 0.55, 0.7])).go_on()
    for name in ("best", "best_t2t"):
        (tmp_path / "out" / name).unlink()
    Improvement(together, Commands([])).go_on()
    assert (tmp_path / "out/best").resolve() == tmp_path / "out/round-03/train"
    assert (tmp_path / "out/best_t2t").resolve() == tmp_path / "out/round-03/train_t2t"


def gone_on(settings: ImproveSettings, step: int) -> tuple[Improvement, Commands, Commands]:
    """An improvement that was killed at a step, and the commands before and after."""
    figures = [0.5, 0.6, 0.55, 0.7]
    killed = Commands(figures, fails_at=step)
    with pytest.raises(RoundError):
        Improvement(settings, killed).go_on()
    rest = Commands(killed.figures)
    improvement = Improvement(settings, rest)
    improvement.go_on()
    assert [done.figure for done in improvement.rounds] == figures
    return improvement, killed, rest


@pytest.mark.parametrize("step", range(10))
def test_what_is_killed_at_any_step_goes_on_from_there(
    settings: ImproveSettings, step: int
) -> None:
    _, killed, rest = gone_on(settings, step)
    # Ten steps, of which the killed one was begun twice.
    assert len(killed.asked) + len(rest.asked) == 11
    again = rest.asked[0]
    assert "--resume" in again or "train.resume=auto" in again
    assert not any("--resume" in words for words in rest.asked[1:])


BESIDE = ("beside.component=t2t", "beside.start_from=T2T", "beside.recipe=configs/t2t_tiny.yaml")


@pytest.fixture
def together(settings: ImproveSettings) -> ImproveSettings:
    folder = Path(settings.output_dir).parent
    return settings_in(folder, "loop=[--loop,ras,--t2t,LOOPS]", *BESIDE)


def test_two_components_draw_learn_and_are_kept_together(
    together: ImproveSettings, tmp_path: Path
) -> None:
    commands = Commands([0.5, 0.6, 0.55, 0.7])
    improvement = Improvement(together, commands)
    improvement.go_on()
    rollouts = [words for words in commands.asked if ROLLOUT in words]
    assert all(words[words.index("--sample") + 1 :][:2] == ["ras", "t2t"] for words in rollouts)
    first = [str(tmp_path / "out/round-01" / name) for name in ("train", "train_t2t")]
    # What comes last wins over the loop's own.
    assert [words[-4:] for words in rollouts] == [
        ["--ras", ras, "--t2t", t2t] for ras, t2t in (("START", "T2T"), first, first)
    ]
    measured = [words for words in commands.asked if EVALUATE in words]
    assert measured[1][-4:] == ["--ras", first[0], "--t2t", first[1]]
    for place, script in enumerate((TRAIN, TRAIN_BESIDE)):
        trainings = [words for words in commands.asked if script in words]
        begun = [value(words, "model.start_from") for words in trainings]
        assert begun == [("START", "T2T")[place], first[place], first[place]]
        drawn = {value(words, "data.train").rpartition("/")[2] for words in trainings}
        assert drawn == {"trajectories.jsonl"}
    assert (tmp_path / "out/best").resolve() == tmp_path / "out/round-03/train"
    assert (tmp_path / "out/best_t2t").resolve() == tmp_path / "out/round-03/train_t2t"
    assert improvement.rounds[1].learning_beside["kl"] == 0.01


@pytest.mark.parametrize("step", [3, 4, 5, 6])
def test_two_components_go_on_where_they_were_killed(together: ImproveSettings, step: int) -> None:
    improvement, killed, rest = gone_on(together, step)
    # A measurement, and four steps in each of three rounds, of which one was begun twice.
    assert len(killed.asked) + len(rest.asked) == 14
    assert improvement.best.folders == [
        str(Path(together.output_dir) / "round-03" / name) for name in ("train", "train_t2t")
    ]


def test_what_has_nothing_to_learn_from_stays_beside_what_has(together: ImproveSettings) -> None:
    together.rounds = 1
    improvement = Improvement(together, Commands([0.5, 0.6], nothing=["train_t2t"]))
    improvement.go_on()
    learnt = str(Path(together.output_dir) / "round-01" / "train")
    assert improvement.best.folders == [learnt, "T2T"]
    assert improvement.best.learning and not improvement.best.learning_beside


def test_what_is_not_said_of_a_second_component_is_asked_for(together: ImproveSettings) -> None:
    together.beside.recipe = ""
    with pytest.raises(ConfigError, match=r"beside\.recipe: say it of t2t, which learns too"):
        Improvement(together)
    together.beside.recipe, together.beside.component = "x.yaml", "read"
    with pytest.raises(ConfigError, match="component=read: say in `option`"):
        Improvement(together)
    together.beside.component = "ras"
    with pytest.raises(ConfigError, match="that is the first component; name another"):
        Improvement(together)


def test_a_folder_from_before_a_key_goes_on(settings: ImproveSettings) -> None:
    Improvement(settings, Commands([0.5, 0.6, 0.55, 0.7])).go_on()
    path = Path(settings.output_dir) / "settings.json"
    kept = json.loads(path.read_text())
    del kept["beside"], kept["measure"]["options"]
    path.write_text(json.dumps(kept))
    assert Improvement(settings, Commands([])).best.number == 3


def test_a_finished_improvement_goes_on_with_more_rounds(settings: ImproveSettings) -> None:
    Improvement(settings, Commands([0.5, 0.6, 0.55, 0.7])).go_on()
    settings.rounds = 4
    more = Commands([0.65])
    improvement = Improvement(settings, more)
    improvement.go_on()
    assert len(more.asked) == 3 and improvement.best.number == 3
    settings.seed = 1
    with pytest.raises(ConfigError, match="rounds with another seed"):
        Improvement(settings)


def test_what_cannot_be_asked_for_is_said(settings: ImproveSettings) -> None:
    settings.component = "read"
    with pytest.raises(ConfigError, match="such as --passage-reader"):
        Improvement(settings)
    settings.component = "ras"
    settings.measure.figure = "mrr"
    with pytest.raises(ConfigError, match=r"measure\.figure=mrr: write f1 or em"):
        Improvement(settings, Commands([0.5])).go_on()
    with pytest.raises(RoundError, match=r"code 3: .*exit"):
        execute([sys.executable, "-c", "exit(3)"])
