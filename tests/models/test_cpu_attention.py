"""The CPU's training attention against PyTorch's own."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from models.kernels.cpu_attention import NAME, CausalAttention, use_cpu_training_attention
from tests.tiny import tiny_llama


def inputs(length: int, heads: int, groups: int, dtype: torch.dtype) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = [(2, heads, length, 8), (2, groups, length, 8), (2, groups, length, 8)]
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("length", [2, 255, 256, 257, 600])
@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (6, 2)])
def test_equals_pytorch_in_float32(length: int, heads: int, groups: int) -> None:
    query, key, value = inputs(length, heads, groups, torch.float32)
    expected = F.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=0.3, enable_gqa=True
    )
    weight = torch.randn_like(expected)
    expected_grads = torch.autograd.grad((expected * weight).sum(), (query, key, value))
    actual = CausalAttention.apply(query, key, value, 0.3)
    grads = torch.autograd.grad((actual * weight).sum(), (query, key, value))
    torch.testing.assert_close(actual, expected)
    for grad, expected_grad in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(grad, expected_grad, rtol=1e-4, atol=1e-5)


def test_gradients_pass_gradcheck() -> None:
    query, key, value = inputs(5, 4, 2, torch.float64)
    F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    exact = torch.autograd.grad(
        F.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=0.5, enable_gqa=True
        ).sum(),
        (query, key, value),
    )
    ours = torch.autograd.grad(
        CausalAttention.apply(query, key, value, 0.5).sum(), (query, key, value)
    )
    for left, right in zip(ours, exact, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)


def test_a_model_in_bfloat16_trains_with_it() -> None:
    model = tiny_llama().bfloat16()
    ids = torch.randint(3, 259, (3, 40))
    model(ids, labels=ids).loss.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    reference = {name: p.grad for name, p in _float32_gradients(ids).items()}
    model.zero_grad()
    use_cpu_training_attention(model)
    assert model.config._attn_implementation == NAME
    model(ids, labels=ids).loss.backward()
    for name, parameter in model.named_parameters():
        limit = (expected[name].float() - reference[name]).norm() * 2 + 1e-3
        assert (parameter.grad.float() - reference[name]).norm() < limit


def _float32_gradients(ids: Tensor) -> dict[str, torch.nn.Parameter]:
    model = tiny_llama().bfloat16().float()
    model(ids, labels=ids).loss.backward()
    return dict(model.named_parameters())


def test_masks_generation_and_float32_stay_with_sdpa() -> None:
    plain, model = tiny_llama().bfloat16(), tiny_llama().bfloat16()
    use_cpu_training_attention(model)
    ids = torch.randint(3, 259, (2, 12))
    mask = torch.ones_like(ids)
    mask[0, :5] = 0
    for options in ({"attention_mask": mask}, {}):
        assert torch.equal(model(ids, **options).logits[:, 5:], plain(ids, **options).logits[:, 5:])
    options = {"max_new_tokens": 5, "do_sample": False, "attention_mask": mask}
    assert torch.equal(model.generate(ids, **options), plain.generate(ids, **options))
    wide = tiny_llama()
    use_cpu_training_attention(wide)
    assert wide.config._attn_implementation == "sdpa"
