"""The CPU's norm against the norms of transformers that it takes the place of."""

import copy

import pytest
import torch
from torch import nn
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.mistral.modeling_mistral import MistralRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from models.kernels.cpu_norm import CpuRmsNorm, use_cpu_norm
from tests.tiny import tiny_llama

NORMS = (LlamaRMSNorm, MistralRMSNorm, Qwen2RMSNorm, Qwen3RMSNorm)


def gradient(norm: nn.Module, x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x = x.clone().requires_grad_()
    output = norm(x)
    (output * weight).sum().backward()
    assert x.grad is not None
    return output.detach(), x.grad


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equals_transformers(kind: type[nn.Module], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    norm = kind(48).to(dtype)
    nn.init.normal_(norm.weight, mean=1)
    norm.requires_grad_(False)
    x, weight = 3 * torch.randn(2, 7, 48).to(dtype), torch.randn(2, 7, 48).to(dtype)
    output, grad = gradient(norm, x, weight)
    exact = gradient(copy.deepcopy(norm).float(), x.float(), weight.float())[1]
    ours = nn.Sequential(copy.deepcopy(norm))
    use_cpu_norm(ours)
    assert type(ours[0]) is CpuRmsNorm
    own_output, own_grad = gradient(ours, x, weight)
    assert torch.equal(own_output, output)
    torch.testing.assert_close(own_grad, grad)
    assert (own_grad.float() - exact).norm() <= 1.1 * (grad.float() - exact).norm() + 1e-5


def test_norms_that_learn_and_what_learns_nothing_stay_with_transformers() -> None:
    """A norm whose weight learns has its gradient; without gradients nothing is different."""
    plain, model = tiny_llama(), tiny_llama()
    use_cpu_norm(model)
    ids = torch.randint(3, 259, (2, 9))
    for each in (plain, model):
        each(ids, labels=ids).loss.backward()
    for left, right in zip(plain.parameters(), model.parameters(), strict=True):
        assert torch.equal(left.grad, right.grad)
    with torch.no_grad():
        assert torch.equal(plain(ids).logits, model(ids).logits)
