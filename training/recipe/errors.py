"""Errors that stop a training, each with what it is about in its message."""

from collections.abc import Sequence

from common.errors import UserError


class NonFiniteLossError(UserError, RuntimeError):
    """A loss or gradient is not a number; the optimizer has not stepped on it."""

    def __init__(self, what: str, step: int, sample_ids: Sequence[str]) -> None:
        self.sample_ids = list(sample_ids)
        super().__init__(
            f"{what} is not finite at step {step}; the optimizer has not stepped. "
            f"Samples: {', '.join(self.sample_ids)}. Look at these samples, or lower the "
            "learning rate."
        )


class LossSpikeError(UserError, RuntimeError):
    """A loss far above those before it; the optimizer has not stepped on it."""

    def __init__(self, loss: float, usual: float, step: int, sample_ids: Sequence[str]) -> None:
        self.sample_ids = list(sample_ids)
        super().__init__(
            f"the loss is {loss:.4g} at step {step}, where {usual:.4g} was usual; the optimizer "
            f"has not stepped. Samples: {', '.join(self.sample_ids)}. Look at these samples, lower "
            "the learning rate, or raise train.loss_spike_factor (0: never stop)."
        )


class DataWorkerError(UserError, RuntimeError):
    """A process that collates batches died."""

    def __init__(self, cause: BaseException) -> None:
        problem = " ".join(str(cause).split())[:300]
        super().__init__(
            f"a process that collates batches died: {problem} Give the job more memory or lower "
            "train.num_workers; train.resume=last goes on from the last checkpoint"
        )


class CutLabelsError(UserError, ValueError):
    """Samples whose label does not fit, found before the training starts."""

    def __init__(self, sample_ids: Sequence[str], shown: int = 20) -> None:
        self.sample_ids = list(sample_ids)
        listed = ", ".join(self.sample_ids[:shown])
        rest = f" and {len(sample_ids) - shown} more" if len(sample_ids) > shown else ""
        super().__init__(
            f"the label is cut away in {len(sample_ids)} samples: {listed}{rest}. Raise "
            "model.max_input_tokens or model.max_output_tokens, or set "
            "data.skip_cut_labels=true to leave them out."
        )


class ResumeError(UserError, ValueError):
    """A checkpoint that this training cannot go on from; the message says why and what helps."""


class LaunchError(UserError, RuntimeError):
    """The processes that started are not the ones that were asked for."""


class OtherProcessError(UserError, RuntimeError):
    """Another process of this training failed, and says why itself."""

    def __init__(self, processes: Sequence[int]) -> None:
        listed = ", ".join(map(str, processes))
        super().__init__(f"process {listed} cannot start; see its own message")


class RunFolderError(UserError, RuntimeError):
    """A run's folder is in use, or holds another training that would be lost."""


class EmptyDataError(UserError, ValueError):
    """A data file without a usable sample; the message names it."""
