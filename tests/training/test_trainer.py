"""The step itself: every split of a batch alike, checks before the optimizer, checkpoints."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.files.checkpoint import CheckpointWriteError
from training import train_ras, train_t2t
from training.loop.guards import NonFiniteLossError
from training.loop.trainer import ComponentTrainer
from training.recipe.samples import CutLabelsError, SampleSet
from training.recipe.settings import RasSettings, T2TSettings, load_config
from training.run.arguments import training_arguments
from training.run.prepare import Prepared, prepare
from training.run.runner import run_training
from training.saving import state as training_state

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def t2t(triples_file: Path, backbone: Path, tmp_path: Path) -> Callable[..., T2TSettings]:
    def settings(*overrides: str) -> T2TSettings:
        fixed = [f"output_dir={tmp_path / 'out'}", f"data.train={triples_file}"]
        given = [*fixed, f"model.backbone={backbone}", "train.tensorboard=false", *overrides]
        return load_config(T2TSettings, CONFIGS / "t2t_tiny.yaml", given)

    return settings


def train(settings: T2TSettings) -> tuple[Prepared, dict[str, Any]]:
    args = training_arguments(settings)
    torch.manual_seed(settings.train.seed)
    recipe = prepare(train_t2t.RECIPE, settings)
    return recipe, run_training(recipe, args)


class Stop(Exception):
    """Ends a training at its first optimizer step."""


def first_gradient(
    settings: T2TSettings, recipe: Prepared, monkeypatch: pytest.MonkeyPatch
) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients that the first optimizer step would see, before clipping."""
    seen: dict[str, Any] = {}

    def capture(self: ComponentTrainer, model: nn.Module, grad_norm: Any = None) -> Any:
        seen["loss"] = float(sum(self._step_losses))
        seen["gradients"] = {
            name: parameter.grad.clone()
            for name, parameter in model.named_parameters()
            if parameter.grad is not None
        }
        raise Stop

    monkeypatch.setattr(ComponentTrainer, "_get_grad_norm", capture)
    with pytest.raises(Stop):
        run_training(recipe, training_arguments(settings))
    return seen["loss"], seen["gradients"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["t2t", "ras"])
def test_every_split_of_a_batch_gives_the_same_step(
    kind: str,
    t2t: Callable[..., T2TSettings],
    ras_file: Path,
    backbone: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = []
    for batch, accumulation in ((4, 1), (2, 2), (1, 4)):
        split = (f"train.batch_size={batch}", f"train.gradient_accumulation_steps={accumulation}")
        settings = t2t(*split, "train.max_grad_norm=0")
        torch.manual_seed(0)
        if kind == "ras":
            given = [
                f"output_dir={tmp_path}",
                f"data.train={ras_file}",
                f"model.backbone={backbone}",
            ]
            settings = load_config(
                RasSettings, CONFIGS / "ras_tiny.yaml", [*given, *split, "train.max_grad_norm=0"]
            )
            recipe = prepare(train_ras.RECIPE, settings)
        else:
            recipe = prepare(train_t2t.RECIPE, settings)
        results.append(first_gradient(settings, recipe, monkeypatch))
    loss, gradients = results[0]
    for other_loss, other_gradients in results[1:]:
        assert other_loss == pytest.approx(loss, rel=1e-5)
        assert gradients.keys() == other_gradients.keys()
        for name, gradient in gradients.items():
            torch.testing.assert_close(other_gradients[name], gradient, rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_loss_falls_on_a_set_that_can_be_memorised(t2t: Callable[..., T2TSettings]) -> None:
    # All weights train: adapters on a random, frozen LM head cannot make its logits large.
    short = ("model.lora.rank=0", "train.max_steps=60", "train.batch_size=8")
    recipe, _ = train(t2t(*short, "train.learning_rate=0.005"))
    recipe.module.eval()
    batch = recipe.collate(recipe.train.samples)
    batch.pop("sample_ids")
    with torch.no_grad():
        assert float(recipe.module(**batch).loss) < 1.5  # 5.5 at the start


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_not_finite_stops_before_the_optimizer_and_names_samples(
    where: str, t2t: Callable[..., T2TSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = t2t("train.batch_size=1", "train.gradient_accumulation_steps=2")
    recipe = prepare(train_t2t.RECIPE, settings)
    before = {n: p.detach().clone() for n, p in recipe.module.named_parameters()}
    poison(recipe, "t3", where, monkeypatch)
    monkeypatch.setattr("training.run.runner._print_start", lambda *_: None)
    settings.train.max_steps = 0
    steps: list[int] = []
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self, closure=None: steps.append(1))
    with pytest.raises(NonFiniteLossError) as error:
        run_training(recipe, training_arguments(settings))
    assert "t3" in error.value.sample_ids
    assert len(error.value.sample_ids) == (1 if where == "loss" else 2)
    assert f"the {where} is not finite at step {len(steps) + 1}" in str(error.value)
    for name, parameter in recipe.module.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name])


def poison(recipe: Prepared, sample_id: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the loss, or only its gradient, not finite on one sample."""
    length = next(s.length for s in recipe.train.samples if s.sample_id == sample_id)
    forward = type(recipe.module).forward

    def broken(self: nn.Module, **inputs: Any) -> Any:
        output = forward(self, **inputs)
        if inputs["input_ids"].shape[1] == length:
            if where == "loss":
                output.loss = output.loss * float("nan")
            else:
                output.loss.register_hook(lambda gradient: gradient * float("nan"))
        return output

    monkeypatch.setattr(type(recipe.module), "forward", broken)


def test_cut_labels_are_listed_or_skipped(t2t: Callable[..., T2TSettings]) -> None:
    with pytest.raises(CutLabelsError, match="t0, t1, t2") as error:
        prepare(train_t2t.RECIPE, t2t("model.max_output_tokens=10"))
    assert len(error.value.sample_ids) == 8
    short_only = t2t("data.skip_cut_labels=true", "model.max_output_tokens=26")
    prepared: SampleSet[Any] = prepare(train_t2t.RECIPE, short_only).train
    assert len(prepared) + len(prepared.cut_label_ids) == 8


@pytest.mark.slow
def test_full_disk_keeps_the_earlier_checkpoint(
    t2t: Callable[..., T2TSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = t2t("train.max_steps=4", "train.save_steps=2")
    write = training_state.write_optimizer
    calls: list[Path] = []

    def full_at_second(state: Any, groups: Any, folder: Path) -> None:
        calls.append(folder)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(state, groups, folder)

    monkeypatch.setattr("training.saving.manager.write_optimizer", full_at_second)
    with pytest.raises(CheckpointWriteError, match=r"checkpoint-4: .* the disk is full"):
        train(settings)
    folders = {path.name for path in Path(settings.output_dir).iterdir()}
    assert folders == {"checkpoint-2", "history.jsonl", "run.json"}
    assert (Path(settings.output_dir) / "checkpoint-2/training_state/optimizer.json").is_file()
