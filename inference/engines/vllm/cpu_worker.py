"""vLLM's CPU worker with what it lacks mended: LoRA's form, and seeds of prompts read in parts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from vllm.platforms.cpu import CpuPlatform
from vllm.v1.worker.cpu_worker import CPUWorker

from inference.engines.vllm.cpu_lora import MaskedLoRA


class MendedCPUWorker(CPUWorker):
    """The worker that the engine starts on a machine without a GPU."""

    def load_model(self, *args: Any, **kwargs: Any) -> Any:
        """As vLLM calls it; the model's LoRA layers are made here."""
        name = f"{MaskedLoRA.__module__}.{MaskedLoRA.__qualname__}"
        CpuPlatform.get_punica_wrapper = classmethod(lambda cls: name)  # type: ignore[method-assign]
        return super().load_model(*args, **kwargs)

    def sample_tokens(self, *args: Any, **kwargs: Any) -> Any:
        """As vLLM calls it.

        A prompt that is read in parts samples a token after each, which is thrown away. vLLM then
        sets the request's generator back, which a CPU's cannot do, and dies of it.
        """
        with _without_unfinished(self.model_runner):
            return super().sample_tokens(*args, **kwargs)


@contextmanager
def _without_unfinished(runner: Any) -> Iterator[None]:
    """Inside, requests whose prompt is not read yet draw from the common generator."""
    generators = runner.input_batch.generators
    rows = np.nonzero(runner.discard_request_mask.np[: runner.input_batch.num_reqs])[0]
    held = {row: generators.pop(row) for row in map(int, rows) if row in generators}
    try:
        yield
    finally:
        generators.update(held)
