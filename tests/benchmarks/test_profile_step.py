"""Where a training step's time goes: parts that add up, and a slow one that is found."""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from benchmarks import profile_step
from benchmarks.harness.matrix_rate import PlainProducts, gflops, product_seconds
from benchmarks.harness.profiled_steps import RepeatedSteps, plan_of, take_steps
from benchmarks.harness.step_parts import NODE, PARTS, PHASE, SCOPE, STEP, Product, cut
from benchmarks.harness.step_samples import LEAST_TOKENS, LengthError, resized, target_lengths
from benchmarks.profile_step import RECIPES, prepared_recipe, report_of, table_rows
from tests.benchmarks.commands import last_json, page_with, run_benchmark
from training.loop.sampler import LengthGroupedSampler
from training.recipe.samples import TrainingSample
from training.run.prepare import Prepared

# Seconds.
WAITING = 0.2
SMALL = ["train.batch_size=1", "train.gradient_accumulation_steps=2"]


def prepared(folder: Path, *arguments: str) -> Prepared:
    options = profile_step._parser().parse_args(["--tiny", "--steps", "1", *arguments])
    return prepared_recipe(options, folder)


def measured(given: Prepared, tolerance: float = 0.02, trace: Path | None = None) -> dict[str, Any]:
    return report_of(take_steps(given, 1, trace), torch.float32, tolerance)


class Range(NamedTuple):
    start: float
    end: float


class Event(NamedTuple):
    """What a profile tells of an operation, in microseconds."""

    name: str
    time_range: Range
    sequence_nr: int = -1
    input_shapes: Sequence[Sequence[int]] = ()
    thread: int = 1


def event(name: str, start: float, end: float, **rest: Any) -> Event:
    return Event(name, Range(start * 1e6, end * 1e6), **rest)


def test_what_is_computed_backwards_is_of_the_part_that_made_the_node() -> None:
    profile = cut(
        [
            event(STEP, 0, 20),
            event("enumerate(DataLoader)#loader.__next__", 0, 1),
            event(f"{PHASE}forward", 1, 6),
            event(f"{SCOPE}attention", 2, 5),
            event("aten::softmax", 3, 4, sequence_nr=7),
            event(f"{PHASE}backward", 6, 16),
            event(f"{NODE}: SoftmaxBackward0", 8, 11, sequence_nr=7),
            event("SoftmaxBackward0", 8, 10, sequence_nr=7),
            event("Optimizer.step#AdamW.step", 16, 18),
            event("aten::softmax", 3, 4, sequence_nr=7, thread=2),
            event("aten::add", 21, 22),
        ],
        {4},
    )
    assert profile.seconds["data_loading", "between"] == pytest.approx(1)
    assert profile.seconds["attention", "forward"] == pytest.approx(3)
    assert profile.seconds["attention", "backward"] == pytest.approx(3)
    assert profile.seconds["optimizer", "between"] == pytest.approx(2)
    assert profile.seconds["everything_else", "forward"] == pytest.approx(2)
    assert profile.seconds["everything_else", "backward"] == pytest.approx(7)
    assert profile.seconds["everything_else", "between"] == pytest.approx(2)
    assert profile.sum_of_parts == pytest.approx(profile.step_seconds) == pytest.approx(20)


def test_a_product_in_an_adapted_layer_is_the_weights_or_the_adapters() -> None:
    """Weights [12, 8] and [5, 8] with LoRA of rank 2, on 12 tokens: as many as one is wide."""
    scope = event(f"{SCOPE}lora@8,12@8,5", 0, 9, sequence_nr=-1)
    shapes = {
        1: ("aten::mm", [[12, 8], [8, 12]]),
        2: ("aten::mm", [[12, 8], [8, 2]]),
        3: ("aten::addmm_", [[12, 12], [12, 2], [2, 12]]),
        4: ("aten::mm", [[12, 12], [12, 8]]),
        5: ("aten::mm", [[2, 12], [12, 8]]),
        6: ("aten::mm", [[12, 8], [8, 5]]),
    }
    events = [event(n, at, at + 0.5, input_shapes=s) for at, (n, s) in shapes.items()]
    profile = cut([event(STEP, 0, 10), scope, *events], {12})
    found = {part: {p for _, p in of} for part, of in profile.products.items()}
    weights = {Product(12, 8, 12), Product(12, 12, 8), Product(12, 8, 5)}
    assert found["backbone_products"] == weights
    assert found["lora"] == {Product(12, 8, 2), Product(12, 2, 12), Product(2, 12, 8)}
    assert profile.seconds["backbone_products", "between"] == pytest.approx(1.5)
    assert profile.seconds["lora", "between"] == pytest.approx(7.5)


def test_a_profile_without_a_step_is_refused() -> None:
    with pytest.raises(ValueError, match="no whole step"):
        cut([event("aten::mm", 0, 1)], {1})


@given(
    lengths=st.lists(st.integers(1, 50), min_size=12, max_size=20),
    steps=st.integers(1, 3),
    seed=st.integers(0, 5),
)
def test_every_batch_is_stepped_over_both_ways(lengths: list[int], steps: int, seed: int) -> None:
    plan = plan_of(steps)
    assert plan[0][0] == "warm-up"
    assert all(set(kinds) - {"warm-up"} == {"plain", "profiled"} for kinds in plan)
    inner = LengthGroupedSampler(lengths, 4, seed)
    sampler = RepeatedSteps(inner, 4, plan)
    order = list(sampler)
    assert len(order) == len(sampler)
    wanted, place = list(inner), 0
    assert order[-4:] == wanted[:4]
    for number, kinds in enumerate(plan):
        for _ in kinds:
            assert order[place : place + 4] == wanted[4 * number : 4 * number + 4]
            place += 4


@given(tokens=st.integers(LEAST_TOKENS, 60), prompt=st.integers(1, 40), label=st.integers(1, 40))
def test_a_sample_has_the_tokens_asked_for(tokens: int, prompt: int, label: int) -> None:
    ids = np.arange(prompt + label, dtype=np.int32)
    [sample] = resized([TrainingSample("a", ids, prompt)], [tokens])
    assert sample.length == tokens
    assert 1 <= sample.label_length <= label and sample.labels_start >= LEAST_TOKENS - 1
    assert sample.input_ids[0] == 0 and sample.input_ids[sample.labels_start] == prompt


def test_lengths_are_words_or_numbers() -> None:
    assert target_lengths("recipe", 3, 512) is None
    assert target_lengths("short", 2, 512) == [128, 128]
    assert target_lengths("long", 2, 512) == [512, 512]
    assert target_lengths("mixed", 3, 512) == [128, 256, 512]
    assert target_lengths("77", 1, 512) == [77]
    for wrong in ("1", "0", "513", "tiny", "-4"):
        with pytest.raises(LengthError, match=f"--lengths {wrong}: "):
            target_lengths(wrong, 1, 512)


def test_the_rate_is_that_of_the_product_asked_for() -> None:
    seen: list[tuple[tuple[int, ...], tuple[int, ...], bool]] = []

    def slow(left: Tensor, right: Tensor) -> Tensor:
        seen.append((tuple(left.shape), tuple(right.shape), right.is_contiguous()))
        time.sleep(0.02)
        return torch.mm(left, right)

    product = Product(3, 5, 7)
    assert product.flops == 2 * 3 * 5 * 7
    assert product_seconds(product, torch.float32, multiply=slow) == pytest.approx(0.02, rel=1)
    assert product_seconds(product, torch.bfloat16, True, slow) >= 0.02
    assert {shapes[:2] for shapes in seen} == {((3, 5), (5, 7))}
    assert {shapes[2] for shapes in seen} == {True, False}
    assert gflops([product] * 4, 2.0) == 4 * product.flops / 2e9
    assert gflops([], 0.0) is None


def test_a_larger_product_takes_longer_and_each_shape_is_timed_once() -> None:
    plain = PlainProducts(torch.float32)
    small, large = (plain.seconds(Product(n, n, n), "forward") for n in (16, 512))
    assert small < large
    assert plain.seconds(Product(512, 512, 512), "forward") == large


@pytest.mark.parametrize("recipe", list(RECIPES))
def test_parts_add_up_to_the_step(recipe: str, tmp_path: Path) -> None:
    trace = tmp_path / "step.json"
    report = measured(prepared(tmp_path, "--recipe", recipe, "--lengths", "200", *SMALL), 1, trace)
    parts = report["parts"]
    # On a busy machine the process may wait between the two clocks.
    seconds = sum(part["seconds"] for part in parts.values())
    assert seconds == pytest.approx(report["profiled_step_seconds"], abs=WAITING)
    assert report["sum_of_parts_differs_by"] * seconds < WAITING
    assert sum(part["share"] for part in parts.values()) == pytest.approx(1)
    assert report["padded_tokens_a_step"] == 400
    assert 0 < report["processor_seconds_a_step"] < report["step_seconds"] + WAITING
    own = {"ras": "graph_encoder", "tri_rag": "soft_prompt", "t2t": "lora"}[recipe]
    for name in ("embedding", "norms", "attention", "backbone_products", "head_and_loss", own):
        assert parts[name]["forward_seconds"] > 0, name
    for name in ("norms", "attention", "backbone_products", own):
        assert parts[name]["backward_seconds"] > 0, name
    for name in ("data_loading", "optimizer"):
        assert parts[name]["between_seconds"] > 0 == parts[name]["backward_seconds"], name
    assert (parts["lora"]["seconds"] > 0) == (recipe != "tri_rag")
    # Four projections and three of the feed-forward in each of two layers, forward and backward.
    wide, both = 64, 2 * 400 * 2 * 2
    per_token = 2 * wide * wide + 2 * wide * wide + 3 * wide * 3 * wide
    assert parts["backbone_products"]["flops"] <= both * per_token
    assert parts["backbone_products"]["flops"] > both * per_token * 0.7
    assert len(table_rows(report)) == sum(part["seconds"] > 0 for part in parts.values())
    names = {e["name"] for e in json.loads(trace.read_text())["traceEvents"] if "name" in e}
    assert {STEP, f"{SCOPE}attention"} <= names
    assert list(tmp_path.glob("tmp*")) == []
    about = {"dtype": "float32", "threads": 1, "samples_a_step": 2, "lengths": "200"}
    text = page_with("profile_step", {"recipe": recipe, **about, **report}, tmp_path)
    assert text.count("## Where does the time of a training step go?") == 1
    assert f"\n`{recipe}`, float32, 1 threads, 2 samples a step" in text
    assert f"\n| attention | {parts['attention']['forward_seconds']:.3f} |" in text


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", ["attention", "norms", "graph_encoder", "data_loading"])
def test_a_slow_part_is_found(part: str, tmp_path: Path) -> None:
    given = prepared(tmp_path, "--lengths", "40", *SMALL)
    kinds = {
        "attention": "LlamaAttention",
        "norms": "RmsNorm",
        "graph_encoder": "GraphEncoder",
    }
    collate = given.collate

    def slow(*_: Any) -> None:
        if torch.autograd.profiler._is_profiler_enabled:
            time.sleep(0.5)

    def slowly(samples: list[Any]) -> dict[str, Any]:
        slow()
        return collate(samples)

    if part == "data_loading":
        given.collate = slowly
    else:
        modules = given.module.modules()
        module: nn.Module = next(m for m in modules if type(m).__name__.endswith(kinds[part]))
        # Inside the module, as its own work is.
        forward = module.forward
        module.forward = lambda *a, **k: (slow(), forward(*a, **k))[1]  # type: ignore[method-assign,func-returns-value]
    parts = measured(given)["parts"]
    # Two micro-batches a step, and two layers.
    assert parts[part]["seconds"] > 1
    assert parts[part]["seconds"] == max(found["seconds"] for found in parts.values())


@pytest.mark.exhaustive
def test_hooks_are_gone_afterwards_and_after_a_failure(tmp_path: Path) -> None:
    given = prepared(tmp_path, "--lengths", "40", *SMALL)
    hooks = lambda: sum(  # noqa: E731
        len(m._forward_hooks) + len(m._forward_pre_hooks) for m in given.module.modules()
    )
    before = hooks()
    take_steps(given, 1, None)
    assert hooks() == before
    given.settings.train.max_steps = 0
    backbone: Any = given.module.backbone
    layer = backbone.get_decoder().layers[1]
    forward, calls = layer.forward, []

    def fails_when_profiled(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if hooks() > before:
            raise KeyboardInterrupt
        return forward(*args, **options)

    layer.forward = fails_when_profiled
    with pytest.raises(KeyboardInterrupt):
        take_steps(given, 1, None)
    assert hooks() == before and calls
    # Another profiler can start, so none is left running.
    layer.forward = forward
    assert measured(given)["parts"]["attention"]["seconds"] > 0


def test_an_interruption_ends_with_a_line_and_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(options: argparse.Namespace) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(profile_step, "measure", interrupted)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    trace = tmp_path / "trace.json"
    monkeypatch.setattr("sys.argv", ["profile_step.py", "--tiny", "--trace", str(trace)])
    with pytest.raises(SystemExit, match="interrupted; nothing was measured"):
        profile_step.main()
    assert not trace.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "rsa"], "invalid choice: 'rsa'"),
        (["--steps", "0"], "must be at least 1"),
        (["--tolerance", "0"], "above 0"),
        (["--trace", "no/such/folder/trace.json"], "is no folder"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["--lengths", "1", "--tiny"], "--lengths 1: a sample has 4 to 2000 tokens"),
        (["--tiny", "train.batchsize=1"], "unknown key 'train.batchsize'"),
    ],
)
def test_wrong_input_is_said(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("sys.argv", ["profile_step.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        profile_step.main()
    assert message in (str(ended.value) + capsys.readouterr().err)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_command_prints_parts_and_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "step.json.gz"
    done = run_benchmark(
        "profile_step.py", "--recipe", "t2t", "--tiny", "--steps", "1", "--threads", "1",
        "--lengths", "mixed", "--trace", str(trace), "--json", "--tolerance", "0.5", *SMALL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    report = last_json(done)
    assert report["benchmark"] == "profile_step" and set(report["parts"]) == set(PARTS)
    assert report["dtype"] == "float32" and report["matrix_gflops"] > 0
    assert trace.read_bytes()[:2] == b"\x1f\x8b"
