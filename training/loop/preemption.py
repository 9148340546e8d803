"""Stopping in time: a signal is noted, the step is finished, a checkpoint is written.

The process then exits with `STOPPED` (75, EX_TEMPFAIL: try again later). Python's handler only
sets a flag, so a second signal, also in the middle of a checkpoint, changes nothing.
"""

import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from training.recipe.settings import ConfigError

logger = logging.getLogger(__name__)
STOPPED = 75


class StoppedBySignal(Exception):
    """The training ended early, as a signal asked; what it needs to go on is on the disk."""


class StopRequest:
    """Whether a signal has asked this process to stop, and which came first."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.interrupts = False

    def note(self, number: int, frame: FrameType | None = None) -> None:
        """Handler of the signals."""
        if self.received is None:
            self.received = signal.Signals(number)
        if self.interrupts:
            raise self.error("after the last step")

    @property
    def is_to_requeue(self) -> bool:
        """Whether SLURM warned this process before its time is over; SIGTERM is meant to end."""
        return self.received not in (None, signal.SIGTERM)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """In the block, where nothing is left to save, a signal ends the work at once.

        Raises:
            StoppedBySignal: one came, now or earlier.
        """
        if self.received is not None:
            raise self.error("after the last step")
        self.interrupts = True
        try:
            yield
        finally:
            self.interrupts = False

    def error(self, when: str) -> StoppedBySignal:
        """What ends the training, in words."""
        name = self.received.name if self.received else "a signal to another process"
        return StoppedBySignal(f"stopped by {name} {when}; train.resume=auto goes on from there")


@contextmanager
def listening(stop_signal: str) -> Iterator[StopRequest]:
    """Note SIGTERM and `stop_signal` (such as USR1; empty: none) instead of dying of them.

    Raises:
        ConfigError: no signal has this name.
    """
    request = StopRequest()
    numbers = [signal.SIGTERM, *([signal_of(stop_signal)] if stop_signal else [])]
    earlier = [(number, signal.signal(number, request.note)) for number in numbers]
    try:
        yield request
    finally:
        for number, handler in earlier:
            signal.signal(number, handler)


def signal_of(name: str) -> signal.Signals:
    """The signal called USR1 or SIGUSR1.

    Raises:
        ConfigError: there is none.
    """
    try:
        return signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except KeyError:
        raise ConfigError(
            f"train.stop_signal={name}: no such signal. Write USR1, USR2 or another name that "
            "`kill -l` lists"
        ) from None


class StopOnSignal(TrainerCallback):
    """Ends the training at a step's border, with a checkpoint, once any process was asked to.

    Args:
        request: what this process was asked.
        agree: whether any process says so; called by all of them after each step.
    """

    def __init__(self, request: StopRequest, agree: Callable[[bool], bool]) -> None:
        self.request = request
        self.agree = agree
        self.stopped = False

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """A signal that came while the model was loaded: nothing is new, nothing is saved."""
        self._look(control)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Save now and validate never: the resumed training makes up for the validation."""
        if self._look(control):
            control.should_save, control.should_evaluate = True, False

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """An epoch that was broken off has not ended."""
        if self.stopped:
            control.should_save = control.should_evaluate = False

    def _look(self, control: TrainerControl) -> bool:
        if self.agree(self.request.received is not None):
            self.stopped = control.should_training_stop = True
        return self.stopped


class WorkerSignals:
    """Makes a data worker outlive signals that are sent to a whole job.

    The handler of the main process is not for it. The step under way still needs it, so it
    ignores the first SIGTERM and ends at the second without failing the main process.
    """

    def __init__(self, stop_signal: str, then: Callable[[int], None] | None) -> None:
        self.stop_signal = stop_signal
        self.then = then
        self.terminations = 0

    def __call__(self, worker: int) -> None:
        """What a DataLoader calls first in each worker."""
        signal.signal(signal.SIGTERM, self._terminate)
        if self.stop_signal:
            signal.signal(signal_of(self.stop_signal), signal.SIG_IGN)
        if self.then is not None:
            self.then(worker)

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self.terminations += 1
        if self.terminations > 1:
            os._exit(0)


def requeue() -> bool:
    """Put this SLURM job, or this task of a job array, back in the queue.

    Returns False where this is no job, or SLURM refuses, which is logged. SLURM ends the job's
    processes as it takes the request, so this may never return and is announced beforehand.
    """
    job = os.environ.get("SLURM_JOB_ID", "")
    if not job:
        return False
    if "SLURM_ARRAY_TASK_ID" in os.environ:
        # An array's task has a job id of its own, but goes by this one.
        job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    logger.info("asking SLURM to requeue job %s", job)
    try:
        done = subprocess.run(
            ["scontrol", "requeue", job], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        problem = str(error)
    else:
        # Ended by a signal: SLURM took the request and ends scontrol with the rest of the job.
        if done.returncode <= 0:
            return True
        problem = done.stderr.strip() or f"scontrol ended with {done.returncode}"
    logger.error("job %s could not be requeued: %s. Submit it again", job, problem)
    return False
