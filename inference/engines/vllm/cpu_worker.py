"""vLLM's CPU worker with what it lacks mended: LoRA's form, and seeds of prompts read in parts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU
from vllm.platforms.cpu import CpuPlatform
from vllm.v1.worker.cpu_worker import CPUWorker


class MaskedLoRA(PunicaWrapperCPU):
    """LoRA as two matrix products over all adapters at once.

    It runs every adapter's A on every token, keeps each token's own, and runs every B on that.
    vLLM's own CPU form copies every token's adapter out of the stack before it multiplies, and lets
    a request without an adapter take the last one's (index -1) where the stack is full.

    The work of adapters that a token does not have is small (rank over width), and there is no
    loop over adapters or requests, nothing that depends on the data, nothing copied.
    """

    def __init__(
        self,
        max_num_batched_tokens: int,
        max_batches: int,
        device: torch.device | str,
        **kwargs: Any,
    ) -> None:
        """As vLLM calls it."""
        super().__init__(max_num_batched_tokens, max_batches, device, **kwargs)
        config = kwargs["lora_config"]
        self._own = torch.zeros(
            max_num_batched_tokens, config.max_loras, 1, dtype=config.lora_dtype, device=device
        )
        self._any = False

    def update_metadata(self, *args: Any, **kwargs: Any) -> None:
        """Note which adapter each token of the next step has; -1 is none."""
        super().update_metadata(*args, **kwargs)
        indices = self.token_lora_indices
        slots = torch.arange(self._own.shape[1], device=indices.device)
        self._own[: len(indices), :, 0] = indices[:, None] == slots
        self._any = bool((indices >= 0).any())

    def add_lora_linear(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_a_stacked: tuple[torch.Tensor, ...],
        lora_b_stacked: tuple[torch.Tensor, ...],
        scale: float,
        output_slices: tuple[int, ...],
        **_: Any,
    ) -> None:
        """Add B A x to a linear layer's output, in place.

        Args:
            y, x: [tokens, out] and [tokens, in]. scale: vLLM has B scaled already, and gives 1.
            lora_a_stacked, lora_b_stacked: [adapters, 1, rank, in] and [adapters, 1, out, rank]
                for each of the layers that vLLM has merged into this one (q, k and v, say).
            output_slices: the width of each in y.
        """
        # A compiled step is traced once, for all batches.
        if not (self._any or torch.compiler.is_compiling()):
            return
        own = self._own[: x.shape[0]]
        start = 0
        for a, b, width in zip(lora_a_stacked, lora_b_stacked, output_slices, strict=True):
            adapters, _one, rank, _in = a.shape
            low = (x @ a.flatten(0, 2).T).view(-1, adapters, rank) * own
            wide = b.squeeze(1).transpose(1, 2).reshape(adapters * rank, -1)
            y[:, start : start + width] += (low.flatten(1) @ wide) * scale
            start += width


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
