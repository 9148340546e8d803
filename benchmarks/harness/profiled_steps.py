"""Steps of a recipe's own trainer over the same batches, without and with a profiler."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import Sampler
from tqdm import tqdm
from transformers import TrainerCallback

from benchmarks.harness.step_parts import STEP, Scopes, StepProfile, cut
from training.loop.schedule import Clock
from training.run.arguments import training_arguments
from training.run.prepare import Prepared
from training.run.runner import trainer_of

# Steps over the same batch, the first of all a warm-up; turned round from batch to batch.
PAIR = ("plain", "profiled")
WARM_UP = "warm-up"


@dataclass(frozen=True)
class StepsTaken:
    """Seconds of each step by kind, those with a profile cut into parts, and tokens of a step.

    processor_seconds: of this process, over the steps without a profile.
    """

    seconds: dict[str, list[float]]
    processor_seconds: float
    profiles: list[StepProfile]
    tokens: list[int]


class RepeatedSteps(Sampler[int]):
    """Another sampler's indices, each step's as often as the plan steps over the same batch.

    One step more follows, which is not taken: a loader reads ahead, and the last step would
    otherwise read less than the others.
    """

    def __init__(self, inner: Any, step_size: int, plan: Sequence[Sequence[str]]) -> None:
        self.inner = inner
        self.step_size = step_size
        self.plan = plan

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the other sampler."""
        self.inner.set_epoch(epoch)

    def __len__(self) -> int:
        return self.step_size * (sum(map(len, self.plan)) + 1)

    def __iter__(self) -> Iterator[int]:
        order = list(self.inner)
        for number, kinds in enumerate(self.plan):
            step = order[number * self.step_size : (number + 1) * self.step_size]
            yield from step * len(kinds)
        yield from order[: self.step_size]


class TimedSteps(TrainerCallback):
    """Times every step from the end of the one before, and profiles those that the plan says.

    So a step begins with its data, and no second between two steps is left out but for the
    profiler's own start and end.
    """

    def __init__(self, plan: Sequence[str], scopes: Scopes) -> None:
        """plan: the kind of each step."""
        self.plan = list(plan)
        self.scopes = scopes
        self.seconds: dict[str, list[float]] = {kind: [] for kind in (WARM_UP, *PAIR)}
        self.processor_seconds = 0.0
        self.events: list[Any] = []
        # The last one.
        self.profiler: Any = None
        self._step = ExitStack()
        self._bar = tqdm(total=len(self.plan), desc="steps", unit=" steps")
        self._start = 0.0

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """The first step begins."""
        self._begin()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """A step ends, and the next begins."""
        scope = self._step.pop_all()
        if self._kind == PAIR[1]:
            self._marked.__exit__(None, None, None)
        self.seconds[self._kind].append(time.perf_counter() - self._start)
        if self._kind == PAIR[0]:
            self.processor_seconds += time.process_time() - self._processor
        scope.close()
        self._bar.update()
        if self._bar.n < len(self.plan):
            self._begin()

    def _begin(self) -> None:
        self._kind = self.plan[int(self._bar.n)]
        self._bar.set_postfix_str(self._kind)
        if self._kind == PAIR[1]:
            self._step.enter_context(self.scopes)
            self._step.callback(self._stop_profiler)
            self.profiler = profile(activities=[ProfilerActivity.CPU], record_shapes=True)
            self.profiler.start()
            self._marked = record_function(STEP)
        self._processor, self._start = time.process_time(), time.perf_counter()
        if self._kind == PAIR[1]:
            self._marked.__enter__()

    def _stop_profiler(self) -> None:
        self.profiler.stop()
        self.events.append(self.profiler.events())

    def close(self) -> None:
        """Stop what an error or an interruption left running."""
        self._step.close()
        self._bar.close()


def write_trace(profiler: Any, path: Path) -> None:
    """Write a profile as chrome://tracing and Perfetto open it, whole or not at all."""
    with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
        # With the same ending: PyTorch compresses a name that ends with .gz.
        new = Path(temporary) / path.name
        profiler.export_chrome_trace(str(new))
        new.replace(path)


def plan_of(steps: int) -> list[list[str]]:
    """Return the kinds of steps over each batch: a warm-up, then each batch both ways in turn."""
    plan = [list(PAIR if number % 2 == 0 else PAIR[::-1]) for number in range(steps)]
    plan[0].insert(0, WARM_UP)
    return plan


def take_steps(prepared: Prepared, steps: int, trace: Path | None) -> StepsTaken:
    """Train as the recipe does, so many batches without and with a profiler."""
    plan = plan_of(steps)
    kinds = [kind for batch in plan for kind in batch]
    prepared.settings.train.max_steps = len(kinds)
    args = training_arguments(prepared.settings)
    args.save_strategy, args.eval_strategy = "no", "no"
    sizes: list[int] = []
    prepared.collate = _counting(prepared.collate, sizes)
    trainer = trainer_of(replace(prepared, validate=None), args, Clock(0.0))
    repeated = RepeatedSteps(trainer.sampler, trainer.samples_a_step, plan)
    trainer.__dict__["_get_train_sampler"] = lambda *_: repeated
    trainer.sampler = repeated  # type: ignore[assignment]
    timed = TimedSteps(kinds, Scopes(prepared.module, trainer))
    trainer.add_callback(timed)
    try:
        trainer.train()
    finally:
        timed.close()
    if trace is not None:
        write_trace(timed.profiler, trace)
    tokens = set(sizes)
    a_step = args.gradient_accumulation_steps
    of_steps = [sum(sizes[n * a_step : (n + 1) * a_step]) for n in range(len(kinds))]
    return StepsTaken(
        timed.seconds,
        timed.processor_seconds,
        [cut(events, tokens) for events in timed.events],
        [count for count, kind in zip(of_steps, kinds, strict=True) if kind == "profiled"],
    )


def _counting(collate: Callable[[list[Any]], Any], sizes: list[int]) -> Callable[[list[Any]], Any]:
    """Return the collator, noting the tokens of every batch, padding included."""

    def counted(samples: list[Any]) -> Any:
        batch = collate(samples)
        sizes.append(batch["input_ids"].numel())
        return batch

    return counted
