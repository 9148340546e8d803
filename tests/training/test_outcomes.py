"""Trajectories as samples: what is kept, what is refused, and a training on real rollouts."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import inference.rollout
import training.train_ras
from models.files.checkpoint import component_fingerprint
from models.formats.model_calls import ModelCall
from models.formats.records import RasSample, read_records, write_records
from models.formats.trajectories import Trajectory
from models.parts.objective import ObjectiveKind
from tests.inference.rollout_material import write_material
from tests.run_main import run_main
from training.recipe.drawn import DrawnCall, DrawnPair, OutcomeError, leave_one_out, read_drawn
from training.recipe.settings import ConfigError, RasSettings, load_config
from training.run.arguments import training_arguments
from training.run.likelihood import check_likelihoods
from training.run.prepare import prepare
from training.run.run_folder import claimed, read_nothing_to_learn
from training.run.runner import run_training
from training.train_ras import RECIPE

CONFIG = Path(__file__).resolve().parents[2] / "configs/ras_tiny.yaml"
VERSION = "1234"


def call(*token_ids: int, prompt: Sequence[int] = (1, 2), **changed: Any) -> ModelCall:
    given = ModelCall(
        "ras", VERSION, "sampled", "text", input_ids=list(prompt), token_ids=list(token_ids),
        logprobs=[-0.5] * len(token_ids), logprobs_of="sampled", temperature=1.0,
    )  # fmt: skip
    return replace(given, **changed)


def trajectory(name: str, number: int, reward: float | None, *calls: ModelCall) -> Trajectory:
    return Trajectory(
        name, "", number, f"Question {name}?", 0, 1.0, list(calls), [], "x", reward=reward
    )


GROUPS = [
    trajectory("a", 0, 1.0, call(5), call(6, prompt=(1, 2, 3))),
    trajectory("a", 1, 0.0, call(7)),
    trajectory("a", 2, 0.5, call(5, 9)),
    trajectory("b", 0, 0.3, call(5)),
    trajectory("b", 1, 0.3, call(7)),
    trajectory("c", 0, 1.0, call(5)),
    trajectory("d", 0, None, call(5)),
    trajectory("d", 1, 0.2, call(5)),
]
Read = Callable[..., Any]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read trajectories for an objective."""

    def read_for(kind: ObjectiveKind, *made: Trajectory, least: float = 0.0) -> Any:
        write_records(tmp_path / "trajectories.jsonl", made or GROUPS)
        return read_drawn(tmp_path / "trajectories.jsonl", kind, ("ras",), VERSION, least)

    return read_for


def test_an_advantage_is_over_the_others() -> None:
    assert leave_one_out([1.0, 0.0, 0.5]) == [0.75, -0.75, 0.0]


def test_every_call_of_a_mixed_group_has_its_trajectory_s_advantage(read: Read) -> None:
    drawn = read("policy")
    assert [(one.id, one.advantage, one.anchored) for one in drawn.items] == [
        ("a/0/0", 0.75, False), ("a/0/1", 0.75, False), ("a/1/0", -0.75, True),
        ("a/2/0", 0.0, False),
    ]  # fmt: skip
    assert drawn.temperature == 1.0
    assert drawn.counts == {
        "trajectories": 8, "groups": 1, "groups of equal rewards": 1, "groups of one": 2,
        "without a reward": 1, "calls": 4,
    }  # fmt: skip


def test_the_best_are_kept_and_count_the_same_however_long(read: Read) -> None:
    kept = read("best_of").items
    assert [(one.id, one.advantage) for one in kept] == [("a/0/0", 0.5), ("a/0/1", 0.5)]
    with pytest.raises(OutcomeError, match="nothing to learn from"):
        read("best_of", least=1.5)


def test_a_pair_has_one_prompt_and_two_outcomes(read: Read) -> None:
    [pair] = read("preference").items
    assert isinstance(pair, DrawnPair)
    assert (pair.better.id, pair.worse.id) == ("a/0/0", "a/1/0")
    # The worst in other words, in whatever order they came.
    for order in ((0, 1, 2), (2, 1, 0)):
        drawn = [(5, 1.0), (5, 0.0), (7, 0.0)]
        made = [trajectory("a", n, drawn[k][1], call(drawn[k][0])) for n, k in enumerate(order)]
        [pair] = read("preference", *made).items
        assert (pair.better.call.token_ids, pair.worse.call.token_ids) == ([5], [7])
    same = [trajectory("a", n, float(n), call(5)) for n in range(2)]
    with pytest.raises(OutcomeError, match="nothing to learn from"):
        read("preference", *same)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"version": "other"}, "was 'other' when it drew, and '1234' is trained"),
        ({"input_ids": None, "prompt": "p"}, r"calls\[1\]: field 'input_ids': there are none"),
        ({"temperature": 0.7}, "drawn at 0.7, and others at 1.0"),
        ({"constraint": ["regex", "a"]}, "held to a constraint"),
        ({"top_p": 0.9}, "cut by top_p"),
        ({"component": None}, r"no call of 'ras' was drawn in it, but of \['backbone'\]"),
        ({"source": "greedy", "logprobs": None}, "but of nothing"),
    ],
)
def test_what_does_not_belong_to_the_component_is_refused(
    read: Read, changed: dict[str, Any], message: str
) -> None:
    first = [] if "component" in changed or "source" in changed else [call(5)]
    made = trajectory("a", 0, 1.0, *first, replace(call(5), **changed))
    with pytest.raises(OutcomeError, match=message):
        read("policy", made, trajectory("b", 0, 0.0, *first))


def test_likelihood_alone_needs_no_plain_draw(read: Read) -> None:
    held = [trajectory("a", n, float(n), call(n, top_p=0.9)) for n in (1, 2)]
    assert len(read("best_of", *held).items) == 1


def test_two_shards_of_one_or_two_data_sets_are_refused(read: Read) -> None:
    with pytest.raises(OutcomeError, match="number 0 of question 'a' is there twice"):
        read("policy", GROUPS[0], GROUPS[1], GROUPS[0])
    other = replace(trajectory("a", 1, 0.0, call(5)), question="Another?")
    with pytest.raises(OutcomeError, match="'a' is two questions"):
        read("policy", GROUPS[0], other)


def test_two_loops_in_one_file_are_refused(read: Read) -> None:
    one, other = (replace(GROUPS[n], rollout=digest) for n, digest in enumerate(("aa", "bb")))
    with pytest.raises(OutcomeError, match=r"jsonl:2: field 'rollout': 'bb', and 'aa' before"):
        read("policy", one, other)
    # Of lines from before there was one nothing is known.
    assert read("policy", one, *GROUPS[1:]).items


def test_a_likelihood_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trajectories.jsonl"
    write_records(path, [trajectory("a", 0, 1.0, call(5, logprobs=[-math.inf]))])
    with pytest.raises(ValueError, match=r"trajectories\.jsonl.*logprobs"):
        read_drawn(path, "policy", ("ras",), VERSION, 0.0)
    with pytest.raises(OutcomeError, match="no such file"):
        read_drawn(tmp_path / "none.jsonl", "policy", ("ras",), VERSION, 0.0)


@pytest.fixture(scope="module")
def rolled_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny RAS component and a rollout of it."""
    folder = tmp_path_factory.mktemp("outcomes")
    options = write_material(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["rollout", *options, "--group", "6", "--out", str(folder / "r")])
        patch.setenv("TRIVIUM_CACHE", str(folder / "cache"))
        inference.rollout.main()
    # Rewards of our own: an untrained loop is never right.
    made = list(read_records(folder / "r" / "trajectories.jsonl", Trajectory))
    worth = [replace(t, reward=float(t.number % 2)) for t in made]
    write_records(folder / "r" / "trajectories.jsonl", worth)
    return folder


def settings_for(folder: Path, out: Path, kind: str, *more: str) -> RasSettings:
    return load_config(RasSettings, CONFIG, options_for(folder, out, kind, *more))


def options_for(folder: Path, out: Path, kind: str, *more: str) -> list[str]:
    start = folder / "ras"
    return [
        f"output_dir={out}", f"data.train={folder / 'r/trajectories.jsonl'}",
        f"objective.kind={kind}",
        f"model.start_from={start}", f"model.backbone={folder / 'backbone'}", "model.dtype=float32",
        "model.lora.rank=8", "model.lora.alpha=16", "model.lora.targets=[q_proj,v_proj]",
        "model.max_input_tokens=1500", "graph.encoder=hash", "graph.hidden_dim=16",
        "graph.num_layers=2", "graph.num_heads=2", "graph.projector_dim=32", "graph.dropout=0.1",
        "train.max_steps=16", "train.batch_size=4", "train.learning_rate=0.003",
        "train.logging_steps=1", "train.warmup_ratio=0", "train.tensorboard=false", *more,
    ]  # fmt: skip


def trained(settings: RasSettings) -> tuple[Any, list[dict[str, Any]]]:
    args = training_arguments(settings)
    torch.manual_seed(0)
    prepared = prepare(RECIPE, settings)
    run_training(prepared, args)
    lines = (Path(settings.output_dir) / "history.jsonl").read_text().splitlines()
    return prepared, [json.loads(line) for line in lines]


def rewarded(prepared: Any) -> float:
    """The mean log-probability of rewarded calls less that of the others."""
    by_sign: dict[bool, list[float]] = {True: [], False: []}
    module = prepared.module.eval()
    for sample in prepared.train.samples:
        for row in sample.rows:
            batch = prepared.collate.plain([row])
            del batch["sample_ids"]
            with torch.no_grad():
                by_sign[row.advantage > 0].append(-float(module(**batch).loss))
    means = [sum(each) / len(each) for each in (by_sign[True], by_sign[False]) if each]
    return means[0] - means[1] if len(means) == 2 else means[0]


@pytest.mark.parametrize(
    "kind",
    ["policy", *(pytest.param(k, marks=pytest.mark.exhaustive) for k in ("preference", "best_of"))],
)
def test_a_training_raises_what_was_rewarded(rolled_out: Path, tmp_path: Path, kind: str) -> None:
    settings = settings_for(rolled_out, tmp_path / "out", kind)
    before = prepare(RECIPE, settings)
    assert check_likelihoods(before.module, before.train.samples, before.collate) < 1e-4
    at_first = rewarded(before)
    after, history = trained(settings)
    assert rewarded(after) > at_first
    logged = [entry for entry in history if "loss" in entry]
    assert len(logged) == 16
    assert logged[0]["ratio"] == pytest.approx(1.0, abs=1e-4)
    assert logged[-1]["kl"] > logged[0]["kl"] >= 0
    # The others raise what is better against what is worse; both may fall.
    assert kind != "best_of" or logged[-1]["rewarded_gain"] > 0
    assert component_fingerprint(tmp_path / "out") != component_fingerprint(rolled_out / "ras")


def test_weights_that_did_not_draw_are_found_before_the_first_step(
    rolled_out: Path, tmp_path: Path
) -> None:
    made = list(read_records(rolled_out / "r" / "trajectories.jsonl", Trajectory))
    apart = [
        replace(t, calls=[replace(c, logprobs=c.logprobs and [p - 0.1 for p in c.logprobs])
                          for c in t.calls])
        for t in made
    ]  # fmt: skip
    write_records(tmp_path / "apart.jsonl", apart)
    settings = settings_for(rolled_out, tmp_path / "out", "policy")
    settings.data.train = str(tmp_path / "apart.jsonl")
    with pytest.raises(OutcomeError, match=r"0\.1000 away from that of its draw"):
        prepare(RECIPE, settings)
    settings.objective.kind = type(settings.objective.kind).best_of
    prepare(RECIPE, settings)


def test_a_training_whose_rewarded_tokens_lose_ends(rolled_out: Path, tmp_path: Path) -> None:
    # So high a rate throws everything about.
    settings = settings_for(
        rolled_out, tmp_path / "out", "policy", "train.learning_rate=0.5", "train.max_steps=40",
        "objective.most_lost=0.5", "train.max_grad_norm=0",
    )  # fmt: skip
    _, history = trained(settings)
    logged = [entry for entry in history if "loss" in entry]
    assert len(logged) < 40
    assert logged[-1]["rewarded_gain"] < -0.5


def test_a_training_with_nothing_to_learn_leaves_word(
    rolled_out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    given = options_for(rolled_out, out, "best_of", "objective.least_reward=9")
    with pytest.raises(SystemExit, match="nothing to learn from"):
        run_main(monkeypatch, training.train_ras.main, "--config", CONFIG, *given)
    assert "nothing to learn from" in (read_nothing_to_learn(out) or "")
    assert read_nothing_to_learn(rolled_out) is None
    # Another training there is not taken for this one.
    with claimed(out, ""):
        assert read_nothing_to_learn(out) is None


def test_what_cannot_learn_from_outcomes_says_so(rolled_out: Path, tmp_path: Path) -> None:
    settings = settings_for(rolled_out, tmp_path / "out", "policy", "model.start_from=''")
    with pytest.raises(ConfigError, match=r"name the component that drew in model\.start_from"):
        prepare(RECIPE, settings)


def test_what_was_drawn_without_its_graphs_is_refused(rolled_out: Path, tmp_path: Path) -> None:
    """A token of an empty graph would else stand in the place of the prompt's own."""
    settings = settings_for(rolled_out, tmp_path / "out", "best_of")
    made = [
        replace(each, calls=[replace(one, subgraphs=None) for one in each.calls])
        for each in read_records(settings.data.train, Trajectory)
    ]
    write_records(tmp_path / "without.jsonl", made)
    settings.data.train = str(tmp_path / "without.jsonl")
    with pytest.raises(OutcomeError, match="Roll out without --no-graph-encode"):
        prepare(RECIPE, settings)


@pytest.mark.parametrize("name", ["instructions", "compare_dates"])
def test_other_prompts_than_the_component_drew_from_are_refused(
    rolled_out: Path, tmp_path: Path, name: str
) -> None:
    settings = settings_for(rolled_out, tmp_path / "out", "best_of", f"graph.{name}=false")
    with pytest.raises(ConfigError, match=rf"graph\.{name}=false: .* drew with true"):
        prepare(RECIPE, settings)


def test_the_samples_are_the_ids_that_were_drawn(rolled_out: Path, tmp_path: Path) -> None:
    prepared = prepare(RECIPE, settings_for(rolled_out, tmp_path / "out", "policy"))
    calls = {one.id: one.call for one in prepared.train.records}
    assert len(calls) == len(prepared.train) > 6
    for one, sample in zip(prepared.train.records, prepared.train.samples, strict=True):
        assert isinstance(one, DrawnCall)
        prompt = calls[one.id].input_ids or []
        assert sample.input_ids.tolist() == [*prompt, *one.call.token_ids]
        assert sample.labels_start == len(prompt)
        assert sample.graphs is not None
        assert isinstance(one.call.sample, RasSample)
