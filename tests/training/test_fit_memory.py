"""Bytes of weights, gradients and optimizer, and the command that says whether they fit."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from models.graph_llm import GraphLLM, GraphLLMConfig
from models.text_to_triples import TextToTriples, TextToTriplesConfig
from tests.training.conftest import ROOT, Run
from tests.training.test_checkpoint_writer import GRAPH
from training.fit.dry_run import DryRun
from training.fit.estimate import RESERVE_BYTES, Speed, fit
from training.fit.memory import Launch, count_parameters, state_memory
from training.fit.sketch import Lengths, Sketch
from training.recipe.settings import T2TSettings, TrainSettings
from training.recipe_table import HEADER, recipes, section, sketch_recipe

SCRIPTS = {
    "train_t2t.py": "t2t_tiny",
    "train_tri_rag.py": "tri_rag_tiny",
    "train_ras.py": "ras_tiny",
    "train_helper.py": "helper_tiny",
}


def modules(backbone: Path) -> list[nn.Module]:
    name = str(backbone)
    return [
        TextToTriples.from_config(TextToTriplesConfig(name, lora_rank=0), dtype="bfloat16"),
        TextToTriples.from_config(TextToTriplesConfig(name, lora_rank=4), dtype="bfloat16"),
        GraphLLM.from_config(GraphLLMConfig(name, graph=GRAPH)),
    ]


def tensor_bytes(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def test_one_process_holds_exactly_what_adamw_makes(backbone: Path) -> None:
    for module in modules(backbone):
        trained = [p for p in module.parameters() if p.requires_grad]
        for parameter in trained:
            parameter.grad = torch.ones_like(parameter)
        optimizer = torch.optim.AdamW(trained)
        optimizer.step()
        moments = [t for state in optimizer.state.values() for t in state.values()]
        state = state_memory(count_parameters(module), Launch.one, 1)
        assert state.weights == tensor_bytes(module.parameters())
        assert state.gradients == tensor_bytes(p.grad for p in trained)
        assert state.optimizer == tensor_bytes(moments)
        assert state.buffers == 0 and state.total == sum(vars(state).values())


def test_what_is_split_shrinks_with_the_processes_and_nothing_else_does(backbone: Path) -> None:
    parameters = count_parameters(modules(backbone)[1])
    ddp = [state_memory(parameters, Launch.ddp, n) for n in (2, 8)]
    assert ddp[0] == ddp[1]
    for launch in (Launch.zero2, Launch.zero3, Launch.fsdp2):
        two, eight = (state_memory(parameters, launch, n) for n in (2, 8))
        assert two.gradients == pytest.approx(4 * eight.gradients, abs=4)
        assert two.optimizer == pytest.approx(4 * eight.optimizer, abs=4)
        whole = launch is Launch.zero2
        assert two.weights == pytest.approx((1 if whole else 4) * eight.weights, abs=4)
    # The layers of the backbone are gathered two at a time, and what lies outside them.
    assert 0 < parameters.layer_bytes < parameters.total_bytes / 2
    assert parameters.outer_bytes == parameters.total_bytes - 2 * parameters.layer_bytes


def test_tokens_steps_and_seconds_of_a_training(backbone: Path) -> None:
    train = TrainSettings(batch_size=2, gradient_accumulation_steps=3, num_train_epochs=2)
    settings = T2TSettings(output_dir="", train=train)
    parameters = count_parameters(modules(backbone)[1])
    drawn = Sketch(settings, parameters, 1, Lengths(90, 10, 50.0, 121, ""), DryRun(7, 9, 600, 400))
    result = fit(drawn, Launch.ddp, 4, 10**9, Speed(device_tflops=1e-9, mfu=0.5))
    assert result.tokens_per_step == 2 * 3 * 4 * 50
    assert result.flops_per_step == 3 * (600 / 2 + 400 / 4)
    assert result.steps == 12 and result.seconds == pytest.approx(12 * result.flops_per_step / 500)
    assert result.total == result.state.total + 9 + RESERVE_BYTES and not result.fits
    with pytest.raises(ValueError, match="one process, every other form two or more"):
        fit(drawn, Launch.one, 4, 10**9, Speed())


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_estimates_without_data_or_weights(
    script: str, run_script: Run, backbone: Path, tmp_path: Path
) -> None:
    (tmp_path / "llm").mkdir()
    (tmp_path / "llm" / "config.json").write_bytes((backbone / "config.json").read_bytes())
    given = ["--config", str(ROOT / "configs" / f"{SCRIPTS[script]}.yaml"), "--estimate", "--json"]
    options = ["--device-memory", "24", "--processes", "2", "--launch", "zero2", "--samples", "80"]
    done = run_script(script, *given, *options, "model.backbone=./llm", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["fits"] and figures["bytes_per_process"]["activations"] > 0
    assert 0 < figures["parameters"]["trained"] < figures["parameters"]["all"]
    assert figures["steps"] > 0 and figures["seconds"] > 0
    assert figures["assumed"]["mfu"] == 0.35 and "assumed speed" in done.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_backbone_that_is_not_here_is_named(run_script: Run, tmp_path: Path) -> None:
    given = ["--config", str(ROOT / "configs/t2t_tiny.yaml"), "--estimate", "model.backbone=no/one"]
    done = run_script("train_t2t.py", *given, cwd=tmp_path)
    assert done.returncode == 1
    assert "model.backbone=no/one: no config.json of it here" in done.stderr.splitlines()[-1]


# With a graph, and with a soft prompt: the other recipes take as long.
ALWAYS = ["ras_smollm2", "tri_rag_smollm2"]
MARKS = [pytest.mark.slow, pytest.mark.exhaustive]
OTHERS = [pytest.param(name, marks=MARKS) for name in recipes() if name not in ALWAYS]


@pytest.mark.parametrize("name", [*ALWAYS, *OTHERS])
def test_the_page_of_recipes_is_up_to_date(name: str) -> None:
    drawn = sketch_recipe(name)
    assert sections_of_the_page()[name] == section(name, drawn)
    if name in ("ras_llama3_8b", "tri_rag_llama3_8b"):  # A component is small, as the papers say.
        assert drawn.base_bytes == 2 * 8_030_261_248
        assert 0 < drawn.parameters.trained_bytes < 0.01 * drawn.base_bytes


def test_the_page_of_recipes_has_every_recipe_and_no_other() -> None:
    assert list(sections_of_the_page()) == recipes()
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert page == "\n".join([HEADER, *sections_of_the_page().values()])


def sections_of_the_page() -> dict[str, str]:
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    parts = [f"## {part}" for part in page.split("\n## ")[1:]]
    names = [part.splitlines()[0].removeprefix("## ") for part in parts]
    ended = [part if part.endswith("\n") else f"{part}\n" for part in parts]
    return dict(zip(names, ended, strict=True))
