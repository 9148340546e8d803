"""Stopping once validation no longer improves, and going back to the best weights seen."""

import json
import logging
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from models.atomic import atomic_directory
from training.checkpoints import writing
from training.sharding import load_parameters, whole_parameters

logger = logging.getLogger(__name__)
BEST = "best"
LOSS = "eval_loss"


class EarlyStopping(TrainerCallback):
    """Stops after `patience` validations without a lower loss; `restore` then loads the best.

    The best weights lie in OUTPUT_DIR/best, so that a resumed training still knows them.
    """

    def __init__(self, module: nn.Module, output_dir: str, patience: int) -> None:
        self.module = module
        self.folder = Path(output_dir) / BEST
        self.patience = patience

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Forget the best of an earlier training in the same folder."""
        if state.global_step == 0 and state.is_world_process_zero:
            (self.folder / "validation.json").unlink(missing_ok=True)
        # A training that was killed after its last validation has nothing left to do.
        control.should_training_stop = self._is_over(state)

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Keep weights that did better than all before; count those that did not."""
        losses = [entry[LOSS] for entry in state.log_history if LOSS in entry]
        if not losses:
            return
        best = losses.index(min(losses))
        if best == len(losses) - 1:
            with whole_parameters(self.module):
                if state.is_world_process_zero:
                    self._keep(losses[-1], state.global_step)
        if self._is_over(state):
            logger.info("no lower validation loss in %d validations: stopping", self.patience)
            control.should_training_stop = True

    def _is_over(self, state: TrainerState) -> bool:
        losses = [entry[LOSS] for entry in state.log_history if LOSS in entry]
        return bool(losses) and len(losses) - 1 - losses.index(min(losses)) >= self.patience

    def restore(self) -> dict[str, Any]:
        """Load the best weights into the module; returns their step and loss, {} where none."""
        record = self.folder / "validation.json"
        if not record.is_file():
            return {}
        load_parameters(self.module, load_file(self.folder / "weights.safetensors"))
        best: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        return best

    def _trainable(self) -> dict[str, nn.Parameter]:
        return {n: p for n, p in self.module.named_parameters() if p.requires_grad}

    def _keep(self, loss: float, step: int) -> None:
        weights = {n: p.detach().cpu().contiguous() for n, p in self._trainable().items()}
        with writing(self.folder), atomic_directory(self.folder) as folder:
            save_file(weights, folder / "weights.safetensors")
            (folder / "validation.json").write_text(
                json.dumps({"best_step": step, "best_loss": loss}) + "\n", encoding="utf-8"
            )
