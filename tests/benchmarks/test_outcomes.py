"""The world of benchmarks/outcomes.py: what only the outcome tells, and what a model is taught."""

import argparse
from collections import Counter
from pathlib import Path

import pytest
import torch

from benchmarks.harness.choice_world import (
    NONE,
    RIGHT,
    WRONG,
    YEAR_QUESTION,
    ChoiceWorld,
    ChoiceWorldError,
    plan_of,
    repeated_ids,
    share_right,
    small_tokenizer,
    write_components,
    write_world,
)
from benchmarks.harness.run_folder import RunFolderError, claim
from benchmarks.outcomes import COMMON, GUARDED, PLAIN, REWARDS, course, measure, settings_for
from inference.retrieval.corpus import open_corpus
from inference.retrieval.open_retriever import build_retriever
from models.files.backbone import SMOLLM2, load_tokenizer
from models.formats.model_calls import ModelCall
from models.formats.records import QuestionRecord, read_records, write_records
from models.formats.trajectories import Trajectory
from models.parts.loss import IGNORE_INDEX
from tests.tiny import tiny_llama
from training.recipe.samples import TrainingSample
from training.rounds.record import DRAWN_FILE, Round, round_folder

THINGS = 40


@pytest.fixture(scope="module")
def world() -> ChoiceWorld:
    return ChoiceWorld.drawn(THINGS, 0)


def test_one_kind_of_plan_finds_every_passage_and_the_other_none(
    world: ChoiceWorld, tmp_path: Path
) -> None:
    write_world(tmp_path, world)
    corpus = open_corpus(tmp_path / "corpus.jsonl", None)
    retriever = build_retriever("bm25", corpus, "hash", None, 5)
    for kind, right in ((RIGHT, THINGS), (WRONG, 0)):
        plans = [plan_of(thing, kind).subquery for thing, _ in world.things]
        found = [hits[0].passage.id for hits in retriever.search(plans, 1)]
        told = sum(title == thing for title, (thing, _) in zip(found, world.things, strict=True))
        assert told == right


def test_the_model_is_taught_each_kind_as_often(world: ChoiceWorld) -> None:
    samples, triples = world.samples((RIGHT, WRONG, NONE))
    plans = Counter(sample.label.split("?")[0][:12] for sample in samples if sample.task == "plan")
    assert plans == {"[SUBQ] Who m": THINGS, "[SUBQ] Which": THINGS, "[SUFFICIENT]": THINGS}
    assert sum(bool(sample.triples) for sample in triples) == THINGS


def test_few_answers_are_right_where_so_many_are_known(world: ChoiceWorld, tmp_path: Path) -> None:
    write_world(tmp_path, world, known=0.1)
    questions = read_records(tmp_path / "questions.jsonl", QuestionRecord)
    makers = dict(world.things)
    known = [q for q in questions if q.answer == makers[q.question.split()[-1].rstrip("?")]]
    assert len(known) == THINGS // 10


def test_worlds_differ_by_seed(world: ChoiceWorld) -> None:
    assert ChoiceWorld.drawn(THINGS, 0) == world != ChoiceWorld.drawn(THINGS, 1)


def test_names_are_one_token_and_copied_in_the_other_form(world: ChoiceWorld) -> None:
    names = [name for pair in world.things for name in pair]
    tokenizer = small_tokenizer(load_tokenizer(SMOLLM2), ["Who made it?"], names)
    forms = [
        [ids for [ids] in tokenizer(each).input_ids] for each in ([f" {n}" for n in names], names)
    ]
    said, again = map(torch.tensor, forms)
    batch = repeated_ids(said, again, torch.Generator().manual_seed(0), batch_size=3, length=5)
    first, second = batch["input_ids"].split(5, dim=1)
    place = {int(before): int(after) for before, after in zip(said, again, strict=True)}
    assert [[place[int(i)] for i in row] for row in first] == second.tolist()
    assert batch["labels"][:, 5:].tolist() == second.tolist()
    assert (batch["labels"][:, :5] == IGNORE_INDEX).all()


def test_the_rewards_differ_in_their_penalties_alone(tmp_path: Path) -> None:
    options = argparse.Namespace(learning_rate=1e-3, epochs=1, rounds=2, things=4, group=2)
    given = {
        name: settings_for(tmp_path, tmp_path / "out", "policy", 0, REWARDS[name], options)
        for name in (PLAIN, GUARDED)
    }
    plain, guarded = (dict(w.split("=") for w in given[n].rollout.weights) for n in given)
    assert {part for part in plain if plain[part] != guarded[part]} == {
        "malformed", "repeated", "empty", "refused",
    }  # fmt: skip
    given[PLAIN].rollout.weights = given[GUARDED].rollout.weights
    assert given[PLAIN] == given[GUARDED]


def test_a_folder_of_other_settings_is_refused_before_a_world_is_drawn(tmp_path: Path) -> None:
    claim(tmp_path, dict.fromkeys(COMMON, 8))
    options = argparse.Namespace(**dict.fromkeys(COMMON, 8) | {"group": 4}, seeds=[0])
    with pytest.raises(RunFolderError, match=r"another group \(8, not 4\)"):
        measure(options, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


def trajectory(number: int, *plans: str) -> Trajectory:
    calls = [
        ModelCall(
            "ras", "v", "sampled", plan, input_ids=[4], token_ids=[3], logprobs=[-0.1],
            logprobs_of="sampled", temperature=1.0,
        )
        for plan in plans
    ]  # fmt: skip
    return Trajectory("q", "", number, "Who made Fire?", 1, 1.0, calls, [], "x")


def test_a_course_has_a_row_a_round_with_the_share_of_wrong_kinds(tmp_path: Path) -> None:
    drawn = {"f1": 0.5, "reward": 0.4, "reward_parts": {"recall": 0.5, "malformed": 1.0}}
    improvement = argparse.Namespace(
        rounds=[
            Round(0, "start", True, 0.4, {}, {}, {"f1": 0.4}),
            Round(1, "one", True, 0.6, drawn, {"kl": 0.1}, {"f1": 0.6}),
        ],
        folder=tmp_path,
    )
    file = round_folder(tmp_path, 1) / DRAWN_FILE
    file.parent.mkdir(parents=True)
    # What is written later does not count, and neither does how a question goes on.
    firsts = ["[SUBQ] Who made Fire?", "[SUBQ] Which year", f"[SUBQ] {YEAR_QUESTION}", "[SUBQ] Wh"]
    made = [trajectory(n, first, f"[SUBQ] {YEAR_QUESTION}") for n, first in enumerate(firsts)]
    write_records(file, made)
    first, second = course(improvement)  # type: ignore[arg-type]
    assert (first["f1"], first["found_drawn"], first["wrong_drawn"]) == (0.4, None, None)
    assert (second["f1"], second["found_drawn"], second["malformed_drawn"]) == (0.6, 0.5, 1.0)
    assert (second["kl"], second["refused_drawn"], second["wrong_drawn"]) == (0.1, None, 0.5)


@pytest.mark.exhaustive
def test_a_model_that_has_not_learnt_its_world_is_refused(tmp_path: Path) -> None:
    few = ChoiceWorld.drawn(4, 0)
    write_world(tmp_path, few)
    with pytest.raises(ChoiceWorldError, match=r"seed 0: after 4 times 3 steps .* more steps"):
        write_components(tmp_path, few, (RIGHT, WRONG), 3, 0)
    assert not (tmp_path / "backbone").exists()


def test_a_sample_is_right_where_all_its_labels_are() -> None:
    model = tiny_llama()
    model.config.pad_token_id = 0
    said = model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=3, do_sample=False)[0]
    other = said.clone()
    other[-1] = (said[-1] + 1) % model.config.vocab_size
    samples = [TrainingSample("", ids.numpy(), 3) for ids in (said, other, said[:5], said)]
    assert share_right(model, samples, batch_size=3) == 0.75
