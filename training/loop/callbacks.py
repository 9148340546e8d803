"""Logging and display of a running training, and stopping once validation no longer improves."""

import json
import logging
import time
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from common.files import AppendLog, atomic_directory, atomic_write
from training.loop.schedule import Clock
from training.saving.checkpoints import writing
from training.saving.sharding import load_parameters, whole_parameters

# Logged, but of no use on a line that people read.
NOT_SHOWN = ("num_input_tokens_seen", "train_runtime", "total_flos", "train_samples_per_second")
logger = logging.getLogger(__name__)
BEST = "best"
LOSS = "eval_loss"


def _duration(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"


class Progress(TrainerCallback):
    """A bar on standard error with loss, learning rate, input tokens/s and time left.

    The bar counts steps. The time left follows the steps done, or the budget in minutes where
    that ends earlier; time spent in validation counts for neither.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.bar: tqdm[Any] | None = None
        self.start_step = 0
        self.start_tokens = 0
        self.seconds = 0.0
        self._step_started = 0.0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.start_step = state.global_step
        self.start_tokens = int(state.num_input_tokens_seen)
        if state.is_world_process_zero:
            self.bar = tqdm(
                total=state.max_steps,
                initial=state.global_step,
                desc="training",
                unit="step",
                dynamic_ncols=True,
                bar_format="{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {postfix}",
            )

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._step_started = time.monotonic()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.seconds += time.monotonic() - self._step_started
        if self.bar is not None:
            self.bar.set_postfix_str(self._figures(state), refresh=False)
            self.bar.update(state.global_step - self.bar.n)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if self.bar is not None and logs:
            shown = (
                f"{name} {value:.4g}"
                for name, value in logs.items()
                if isinstance(value, (int, float)) and name not in NOT_SHOWN
            )
            self.bar.write(f"step {state.global_step}: " + ", ".join(shown), file=self.bar.fp)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the bar's line, so that an error after it begins one of its own."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def tokens_per_second(self, state: TrainerState) -> float:
        """Input tokens (padding left out) a second of step time, over all processes."""
        return (int(state.num_input_tokens_seen) - self.start_tokens) / max(self.seconds, 1e-9)

    def _figures(self, state: TrainerState) -> str:
        done = state.global_step - self.start_step
        left = (state.max_steps - state.global_step) * self.seconds / max(done, 1)
        if self.clock.budget_seconds:
            left = min(left, max(0.0, self.clock.budget_seconds - self.clock.elapsed_seconds))
        losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
        loss = f"loss {losses[-1]:.3f} " if losses else ""
        return f"{loss}{self.tokens_per_second(state):.0f} tokens/s, {_duration(left)} left"


class History(TrainerCallback):
    """Keeps a log of a run's figures, one JSON object with `step` a line, on the main process.

    A resumed run drops what was logged after the checkpoint it goes on from, and logs it again.
    """

    def __init__(self, log: AppendLog) -> None:
        self.log = log

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin with what the checkpoint remembers; with nothing in a new run."""
        if state.is_world_process_zero:
            with atomic_write(self.log.path) as handle:
                handle.writelines(json.dumps(entry) + "\n" for entry in state.log_history)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Add what was logged last."""
        if state.is_world_process_zero:
            self.log.append(state.log_history[-1:])


class TensorBoard(TrainerCallback):
    """Writes every logged number to a TensorBoard folder, from the main process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer: SummaryWriter | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            self.writer = SummaryWriter(str(self.folder), purge_step=state.global_step or None)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if self.writer is None or not logs:
            return
        for name, value in logs.items():
            if isinstance(value, (int, float)):
                group = "eval/" if name.startswith("eval_") else "train/"
                self.writer.add_scalar(group + name.removeprefix("eval_"), value, state.global_step)
        self.writer.flush()


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

    def _keep(self, loss: float, step: int) -> None:
        trained = ((n, p) for n, p in self.module.named_parameters() if p.requires_grad)
        weights = {name: parameter.detach().cpu().contiguous() for name, parameter in trained}
        with writing(self.folder), atomic_directory(self.folder) as folder:
            save_file(weights, folder / "weights.safetensors")
            (folder / "validation.json").write_text(
                json.dumps({"best_step": step, "best_loss": loss}) + "\n", encoding="utf-8"
            )
