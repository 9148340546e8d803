"""Training that goes on from a finished component."""

from pathlib import Path

import pytest
import torch

from models.files.checkpoint import CheckpointError
from training import train_ras, train_t2t
from training.recipe.settings import ConfigError, RasSettings, T2TSettings, load_config
from training.run.arguments import training_arguments
from training.run.prepare import Prepared, prepare
from training.run.runner import run_training

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def t2t(data: Path, backbone: Path, *overrides: str) -> Prepared:
    fixed = [f"data.train={data}", f"model.backbone={backbone}", "output_dir=unused"]
    config = CONFIGS / "t2t_tiny.yaml"
    return prepare(train_t2t.RECIPE, load_config(T2TSettings, config, [*fixed, *overrides]))


def ras(data: Path, backbone: Path, out: Path, *overrides: str) -> Prepared:
    fixed = [f"data.train={data}", f"model.backbone={backbone}", f"output_dir={out}"]
    config = CONFIGS / "ras_tiny.yaml"
    return prepare(train_ras.RECIPE, load_config(RasSettings, config, [*fixed, *overrides]))


def changed_component(recipe: Prepared, folder: Path) -> dict[str, torch.Tensor]:
    """Save the recipe's module with weights of its own; returns what trains in it."""
    trainable = {k: p for k, p in recipe.module.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for parameter in trainable.values():
            parameter.add_(0.25)
    recipe.module.save_pretrained(folder)  # type: ignore[operator]
    return {name: parameter.detach().clone() for name, parameter in trainable.items()}


def assert_starts_with(recipe: Prepared, weights: dict[str, torch.Tensor]) -> None:
    started = {k: p for k, p in recipe.module.named_parameters() if p.requires_grad}
    assert started.keys() == weights.keys()
    for name, parameter in started.items():
        assert parameter.dtype == torch.float32
        torch.testing.assert_close(parameter, weights[name])


def test_text_to_triples_goes_on(triples_file: Path, backbone: Path, tmp_path: Path) -> None:
    weights = changed_component(t2t(triples_file, backbone), tmp_path / "first")
    start = f"model.start_from={tmp_path / 'first'}"
    recipe = t2t(triples_file, backbone, start, "model.max_input_tokens=300")
    assert_starts_with(recipe, weights)
    assert recipe.module.settings.max_input_tokens == 300


def test_ras_goes_on(ras_file: Path, backbone: Path, tmp_path: Path) -> None:
    weights = changed_component(ras(ras_file, backbone, tmp_path), tmp_path / "first")
    start = f"model.start_from={tmp_path / 'first'}"
    recipe = ras(ras_file, backbone, tmp_path, start, "model.max_input_tokens=300")
    assert_starts_with(recipe, weights)
    assert recipe.module.settings.max_input_tokens == 300
    assert recipe.module.settings.graph_position is not None


def test_other_prompts_than_it_learned_are_said(
    ras_file: Path, backbone: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changed_component(ras(ras_file, backbone, tmp_path), tmp_path / "first")
    start = f"model.start_from={tmp_path / 'first'}"
    ras(ras_file, backbone, tmp_path, start)
    assert "from here on" not in caplog.text
    ras(ras_file, backbone, tmp_path, start, "graph.instructions=false")
    assert "instructions was True and is False from here on" in caplog.text


def test_a_graph_encoder_that_learns_at_rate_zero_stays(
    ras_file: Path, backbone: Path, tmp_path: Path
) -> None:
    fixed = ("train.max_steps=2", "train.warmup_ratio=0", "train.tensorboard=false")
    out = tmp_path / "out"
    recipe = ras(ras_file, backbone, out, *fixed, "train.graph_learning_rate=0")
    before = {name: p.detach().clone() for name, p in recipe.module.named_parameters()}
    run_training(recipe, training_arguments(recipe.settings))
    changed = {n for n, p in recipe.module.named_parameters() if not torch.equal(p, before[n])}
    assert changed and not any("graph_encoder" in name for name in changed)


@pytest.mark.parametrize("change", ["model.lora.rank=3", "graph.hidden_dim=64"])
def test_another_shape_is_refused(
    change: str, ras_file: Path, backbone: Path, tmp_path: Path
) -> None:
    changed_component(ras(ras_file, backbone, tmp_path), tmp_path / "first")
    key = change.split(".")[-1].split("=")[0]
    with pytest.raises(ConfigError, match=rf"first: .*{key} is .* there and .* here"):
        ras(ras_file, backbone, tmp_path, f"model.start_from={tmp_path / 'first'}", change)


def test_a_missing_component_is_named(triples_file: Path, backbone: Path, tmp_path: Path) -> None:
    with pytest.raises((CheckpointError, FileNotFoundError), match="nowhere"):
        t2t(triples_file, backbone, f"model.start_from={tmp_path / 'nowhere'}")


def test_no_epochs_only_measures(triples_file: Path, backbone: Path, tmp_path: Path) -> None:
    weights = changed_component(t2t(triples_file, backbone), tmp_path / "first")
    out = tmp_path / "measured"
    overrides = ["train.num_train_epochs=0", "train.max_steps=0", f"data.dev={triples_file}"]
    recipe = t2t(
        triples_file,
        backbone,
        *overrides,
        f"model.start_from={tmp_path / 'first'}",
        f"output_dir={out}",
    )
    metrics = run_training(recipe, training_arguments(recipe.settings))
    assert "steps" not in metrics
    assert metrics["eval_loss"] > 0 and "eval_triple_f1" in metrics
    assert_starts_with(t2t(triples_file, backbone, f"model.start_from={out}"), weights)
