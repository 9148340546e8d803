"""The comparison of soft prompts: parity first, then figures or an honest gap."""

import pytest
import torch

from benchmarks.deep_prompt import contestant_figures, ratios
from benchmarks.harness.processes import PartResult
from benchmarks.workers.prompt import measure, parity, random_ids
from benchmarks.workers.prompt_contestants import FrozenModel, PromptSettings
from tests.benchmarks.commands import last_json, run_benchmark


@pytest.fixture(scope="module")
def settings(backbone: str) -> PromptSettings:
    return PromptSettings(backbone, "float32", num_tokens=3, batch_size=2, length=12, steps=1)


def test_ours_is_the_literal_form(settings: PromptSettings) -> None:
    assert max(parity(settings).values()) < 1e-5


@pytest.mark.parametrize("name", ["ours", "literal", "ours_checkpointing", "literal_checkpointing"])
def test_losses_are_one_loss(name: str, settings: PromptSettings) -> None:
    ours = measure("ours", settings)
    other = measure(name, settings)
    assert other["loss"] == pytest.approx(ours["loss"], abs=1e-4)
    assert other["trainable_parameters"] == ours["trainable_parameters"] == 3 * 64 * 2


def test_the_frozen_model_s_gradient_passes_all_layers(settings: PromptSettings) -> None:
    step = FrozenModel(settings)
    ids = random_ids(settings, step.backbone.config.vocab_size)
    [layer, *_] = step.backbone.get_decoder().layers
    seen: list[bool] = []
    layer.register_full_backward_hook(lambda *_: seen.append(True))
    loss = step.loss(ids)
    loss.backward()
    [vector] = step.module.parameters()
    assert seen and vector.grad is not None and vector.grad.norm() > 0
    assert all(p.grad is None for p in step.backbone.parameters())
    # The vector is random: without it the loss is the backbone's own.
    torch.nn.init.zeros_(vector)
    own = step.backbone(input_ids=ids, labels=ids).loss
    assert float(step.loss(ids).detach()) == pytest.approx(float(own), abs=1e-4)


def test_ratios_are_others_over_ours() -> None:
    fast = contestant_figures([PartResult("ok", step(1.0)), PartResult("ok", step(3.0))])
    assert (fast["round_seconds_min"], fast["round_seconds_max"]) == (1.0, 3.0)
    slow = contestant_figures([PartResult("ok", step(4.0))])
    refused = contestant_figures([PartResult("failed: no")])
    found = ratios({"ours": fast, "literal": slow, "peft_prefix": refused})
    assert found["ratio_vs_literal"] == 2.0 and found["memory_ratio_vs_literal"] == 1.0
    assert found["ratio_vs_peft"] is None


def step(seconds: float) -> dict[str, object]:
    return {"seconds": [seconds], "peak_rss_bytes": 2**30, "trainable_parameters": 1, "loss": 1.0}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_command(backbone: str) -> None:
    sizes = ("--num-tokens", "2", "--batch-size", "2", "--length", "9", "--steps", "1")
    some = ("--only", "ours", "literal", "peft_prefix_checkpointing", "--rounds", "1")
    done = run_benchmark("deep_prompt.py", "--backbone", backbone, *sizes, *some)
    report = last_json(done)["n=2"]
    assert report["ratio_vs_literal"] > 0 and report["ratio_vs_input_prompt"] is None
    refused = report["contestants"]["peft_prefix_checkpointing"]["status"]
    assert "does not work with gradient checkpointing" in refused
