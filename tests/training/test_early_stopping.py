"""Stopping by validation loss: when, and what weights are left."""

from pathlib import Path

import torch
from torch import nn
from transformers import TrainerControl, TrainerState, TrainingArguments

from training.loop.callbacks import EarlyStopping


def validate(stopping: EarlyStopping, losses: list[float], state: TrainerState) -> TrainerControl:
    """Give the module's only weight the number of each validation, and let it be judged."""
    control = TrainerControl()
    args = TrainingArguments(output_dir=str(stopping.folder.parent), use_cpu=True)
    for loss in losses:
        state.global_step += 1
        state.log_history.append({"eval_loss": loss})
        with torch.no_grad():
            stopping.module.weight.fill_(state.global_step)  # type: ignore[operator,union-attr]
        stopping.on_evaluate(args, state, control)
    return control


def start(folder: Path, patience: int = 2) -> tuple[EarlyStopping, TrainerState]:
    module = nn.Linear(1, 1, bias=False)
    stopping = EarlyStopping(module, str(folder), patience)
    return stopping, TrainerState(is_world_process_zero=True)


def test_stops_after_patience_and_goes_back_to_the_best(tmp_path: Path) -> None:
    stopping, state = start(tmp_path)
    assert not validate(stopping, [3.0, 2.0, 2.5], state).should_training_stop
    assert validate(stopping, [2.0], state).should_training_stop
    assert stopping.restore() == {"best_step": 2, "best_loss": 2.0}
    assert stopping.module.weight.item() == 2.0  # type: ignore[operator,union-attr]


def test_a_better_loss_starts_the_count_again(tmp_path: Path) -> None:
    stopping, state = start(tmp_path)
    control = validate(stopping, [3.0, 4.0, 2.0, 2.5], state)
    assert not control.should_training_stop


def test_a_resumed_training_still_knows_the_best(tmp_path: Path) -> None:
    stopping, state = start(tmp_path)
    validate(stopping, [1.0, 2.0], state)
    resumed, _ = start(tmp_path)
    resumed.on_train_begin(TrainingArguments(str(tmp_path), use_cpu=True), state, TrainerControl())
    assert validate(resumed, [3.0], state).should_training_stop
    assert resumed.restore()["best_step"] == 1
    assert resumed.module.weight.item() == 1.0  # type: ignore[operator,union-attr]


def test_a_new_training_forgets_the_best_of_an_earlier_one(tmp_path: Path) -> None:
    stopping, state = start(tmp_path)
    validate(stopping, [1.0], state)
    new, fresh = start(tmp_path)
    new.on_train_begin(TrainingArguments(str(tmp_path), use_cpu=True), fresh, TrainerControl())
    assert new.restore() == {}
