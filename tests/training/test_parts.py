"""Sampler, collator, schedule, saved state, and measures of known outputs."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate.data_loader import BatchSamplerShard
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import BatchSampler

from models.formats.records import RasSample, TriplesSample
from models.formats.triples import Triple, format_triples
from training.loop.sampler import LengthGroupedSampler
from training.loop.schedule import (
    Clock,
    build_scheduler,
    give_rates,
    learning_rate_factor,
    rates_of,
)
from training.recipe.collator import Collator
from training.recipe.samples import SampleSet, TrainingSample
from training.recipe.settings import Schedule
from training.run.scores import score_ras, score_t2t
from training.saving.checkpoints import ResumeError
from training.saving.sharding import load_optimizer_state, whole_optimizer_state
from training.saving.state import read_optimizer, rng_state, set_rng_state, write_optimizer

LENGTHS = np.random.default_rng(0).integers(1, 500, size=403).tolist()


def test_sampler_gives_every_sample_once_in_a_new_order_each_epoch() -> None:
    sampler = LengthGroupedSampler(LENGTHS, 8, seed=1)
    first = list(sampler)
    assert sorted(first) == list(range(len(LENGTHS)))
    assert first == list(LengthGroupedSampler(LENGTHS, 8, seed=1))
    sampler.set_epoch(1)
    assert list(sampler) != first


@pytest.mark.parametrize("group", [True, False])
def test_several_processes_take_the_same_steps_as_one(group: bool) -> None:
    one = list(LengthGroupedSampler(LENGTHS, 8, 0, group))
    filled = list(LengthGroupedSampler(LENGTHS, 8, 0, group, multiple_of=8))
    assert filled[: len(one)] == one
    assert filled[len(one) :] == [len(LENGTHS)] * 5
    batches = BatchSampler(filled, 4, drop_last=False)
    shares = [list(BatchSamplerShard(batches, 2, process)) for process in (0, 1)]
    steps = [{*a, *b} - {len(LENGTHS)} for a, b in zip(*shares, strict=True)]
    assert steps == [set(one[i : i + 8]) for i in range(0, len(one), 8)]


def test_a_filling_sample_adds_nothing_to_the_loss() -> None:
    samples = [TrainingSample(str(n), np.arange(n, dtype=np.int32), 1) for n in (4, 3)]
    data = SampleSet(["a", "b"], samples, [])
    batch = Collator(pad_token_id=0)([data[0], data[2]])
    assert (batch["labels"][1] == -100).all() and (batch["labels"][0] != -100).any()
    targets = SampleSet(["a"], [replace(samples[0], label_ids=np.arange(2, dtype=np.int32))], [])
    assert Collator(pad_token_id=0)([targets[1]])["labels"].tolist() == [[-100]]


def test_sampler_groups_by_length() -> None:
    def padding(order: list[int]) -> float:
        batches = [order[i : i + 8] for i in range(0, len(order), 8)]
        padded = sum(max(LENGTHS[j] for j in batch) * len(batch) for batch in batches)
        return sum(LENGTHS) / padded

    assert padding(list(LengthGroupedSampler(LENGTHS, 8, 0))) > 0.9
    assert padding(list(LengthGroupedSampler(LENGTHS, 8, 0, group=False))) < 0.7


def test_collator_masks_everything_but_the_label() -> None:
    samples = [
        TrainingSample("a", np.array([1, 5, 6, 7, 2], dtype=np.int32), 3),
        TrainingSample("b", np.array([1, 8, 2], dtype=np.int32), 1),
    ]
    batch = Collator(pad_token_id=0)(samples)
    assert batch["sample_ids"] == ["a", "b"]
    assert batch["input_ids"].tolist() == [[1, 5, 6, 7, 2], [1, 8, 2, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    assert batch["labels"].tolist() == [[-100, -100, -100, 7, 2], [-100, 8, 2, -100, -100]]


def test_collator_pads_targets_of_an_encoder_decoder() -> None:
    ids = [np.arange(n, dtype=np.int32) for n in (3, 2)]
    samples = [TrainingSample("a", ids[0], 3, ids[1]), TrainingSample("b", ids[1], 2, ids[0])]
    batch = Collator(pad_token_id=9)(samples)
    assert batch["input_ids"].tolist() == [[0, 1, 2], [0, 1, 9]]
    assert batch["labels"].tolist() == [[0, 1, -100], [0, 1, 2]]


def test_learning_rate_warms_up_and_decays() -> None:
    assert learning_rate_factor(Schedule.linear, 0.05, 0.1) == pytest.approx(0.5)
    assert learning_rate_factor(Schedule.linear, 0.55, 0.1) == pytest.approx(0.5)
    assert learning_rate_factor(Schedule.cosine, 0.55, 0.1) == pytest.approx(0.5)
    assert learning_rate_factor(Schedule.constant, 0.9, 0.1) == 1.0
    assert learning_rate_factor(Schedule.cosine, 1.5, 0.0) == pytest.approx(0.0, abs=1e-12)


def test_learning_rate_follows_the_clock_where_that_ends_first() -> None:
    clock = Clock(budget_minutes=1)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = build_scheduler(optimizer, Schedule.linear, 0.0, 1000, clock)
    clock.earlier_seconds = 45.0
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == pytest.approx([0.25])


def test_a_schedule_that_is_restored_has_the_recipe_s_rates() -> None:
    def begun(rate: float, decay: float) -> LambdaLR:
        parameter = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.AdamW([parameter], lr=rate, weight_decay=decay)
        return build_scheduler(optimizer, Schedule.linear, 0.0, 9, Clock())

    def taken(scheduler: LambdaLR, steps: int) -> list[float]:
        rates = []
        for _ in range(steps):
            rates.append(scheduler.optimizer.param_groups[0]["lr"])
            scheduler.optimizer.step()
            scheduler.step()
        return rates

    def resumed(before: LambdaLR, rate: float, decay: float) -> LambdaLR:
        scheduler = begun(rate, decay)
        rates = rates_of(scheduler)
        scheduler.optimizer.load_state_dict(before.optimizer.state_dict())
        scheduler.load_state_dict(before.state_dict())
        give_rates(scheduler, rates)
        return scheduler

    before = begun(1.0, 0.1)
    taken(before, 4)
    lower = resumed(before, 0.1, 0.0)
    assert lower.optimizer.param_groups[0]["weight_decay"] == 0.0
    assert taken(lower, 3) == pytest.approx([0.05, 0.04, 0.03])
    assert taken(resumed(before, 1.0, 0.1), 3) == taken(before, 3)


def test_optimizer_and_random_state_come_back(tmp_path: Path) -> None:
    def fresh() -> tuple[torch.nn.Parameter, torch.optim.Optimizer]:
        parameter = torch.nn.Parameter(torch.ones(3))
        return parameter, torch.optim.AdamW([parameter], lr=0.1)

    def step(parameter: torch.nn.Parameter, optimizer: torch.optim.Optimizer) -> None:
        parameter.grad = torch.arange(3.0)
        optimizer.step()

    parameter, optimizer = fresh()
    step(parameter, optimizer)
    write_optimizer(whole_optimizer_state(optimizer, ["w"]), optimizer.param_groups, tmp_path)
    other, restored = fresh()
    other.data.copy_(parameter.data)
    load_optimizer_state(restored, ["w"], *read_optimizer(tmp_path, ["w"]))
    step(parameter, optimizer)
    step(other, restored)
    assert torch.equal(parameter, other)

    with pytest.raises(ResumeError, match=r"another model: 2 parameters .* such as v"):
        read_optimizer(tmp_path, ["v"])

    state = rng_state()
    drawn = random.random(), float(np.random.rand()), float(torch.rand(1))
    set_rng_state(state)
    assert drawn == (random.random(), float(np.random.rand()), float(torch.rand(1)))


def test_t2t_figures_of_known_outputs() -> None:
    triples = [Triple("Ada", "born", "1815"), Triple("Ada", "field", "maths")]
    sample = TriplesSample("a", "text", triples)
    perfect = score_t2t([format_triples(triples)], [sample])
    assert perfect["triple_f1"] == perfect["rougeL"] == 1.0
    half = score_t2t([format_triples(triples[:1])], [sample])
    assert (half["triple_precision"], half["triple_recall"]) == (1.0, 0.5)
    garbage = score_t2t(["(S> broken | nothing"], [sample])
    assert garbage["triple_f1"] == 0.0


def test_ras_figures_of_known_outputs() -> None:
    records = [
        RasSample("q/plan/0", "plan", "Q?", [], "[SUBQ] where is Ada"),
        RasSample("q/plan/1", "plan", "Q?", [], "[SUFFICIENT]"),
        RasSample("q/answer", "answer", "Q?", [], "London"),
    ]
    perfect = score_ras([record.label for record in records], records)
    assert perfect["plan_accuracy"] == perfect["plan_macro_f1"] == perfect["subquery_f1"] == 1.0
    assert perfect["answer_em"] == perfect["answer_f1"] == 1.0
    garbage = score_ras(["?", "", "Paris"], records)
    assert garbage["plan_accuracy"] == garbage["subquery_f1"] == garbage["answer_f1"] == 0.0
    assert garbage["malformed_plans"] == 2
    assert "ahead_accuracy" not in perfect


def test_all_subqueries_of_a_plan_and_its_end_are_scored() -> None:
    label = "[SUBQ] where is Ada\n[SUBQ] where is Bob\n[SUFFICIENT]"
    records = [RasSample("q/plan/0", "plan", "Q?", [], label)]
    assert score_ras([label], records)["ahead_accuracy"] == 1.0
    first = score_ras(["[SUBQ] where is Ada"], records)
    assert first["plan_accuracy"] == 1.0 and first["ahead_accuracy"] == 0.0
    assert 0.0 < first["subquery_f1"] < 1.0
