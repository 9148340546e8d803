"""The CPU's training attention against PyTorch's own."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import BertModel

from models.kernels.cpu_attention import (
    ENCODER_NAME,
    NAME,
    CausalAttention,
    FullAttention,
    use_cpu_encoder_attention,
    use_cpu_training_attention,
)
from tests.tiny import tiny_encoder, tiny_llama


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
    ours, theirs = (each(ids, attention_mask=mask).logits[:, 5:] for each in (model, plain))
    assert torch.equal(ours, theirs)
    with torch.no_grad():
        assert torch.equal(model(ids).logits, plain(ids).logits)
    options = {"max_new_tokens": 5, "do_sample": False, "attention_mask": mask}
    assert torch.equal(model.generate(ids, **options), plain.generate(ids, **options))
    wide = tiny_llama()
    use_cpu_training_attention(wide)
    assert wide.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("length", [1, 33, 170])
def test_an_encoders_attention_equals_pytorchs(length: int, masked: bool) -> None:
    query, key, value = inputs(length, 4, 4, torch.float32)
    mask = None
    if masked:
        mask = torch.ones(2, 1, length, length, dtype=torch.bool)
        mask[1, :, :, 1 + length // 2 :] = False
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=0.3)
    weight = torch.randn_like(expected)
    expected_grads = torch.autograd.grad((expected * weight).sum(), (query, key, value))
    actual = FullAttention.apply(query, key, value, mask, 0.3)
    grads = torch.autograd.grad((actual * weight).sum(), (query, key, value))
    torch.testing.assert_close(actual, expected)
    for grad, expected_grad in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(grad, expected_grad, rtol=1e-4, atol=1e-5)


def test_an_encoder_in_bfloat16_reads_padded_batches_with_it(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "encoder")
    exact = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    half = BertModel.from_pretrained(folder, add_pooling_layer=False, dtype=torch.bfloat16).eval()
    use_cpu_encoder_attention(half)
    assert half.config._attn_implementation == ENCODER_NAME
    use_cpu_encoder_attention(exact)
    assert exact.config._attn_implementation == "sdpa"
    ids, mask = torch.randint(5, 60, (3, 40)), torch.ones(3, 40, dtype=torch.long)
    mask[1, 9:] = 0
    with torch.no_grad():
        expected = exact(ids, attention_mask=mask).last_hidden_state
        actual = half(ids, attention_mask=mask).last_hidden_state.float()
    seen = mask.bool()
    torch.testing.assert_close(actual[seen], expected[seen], rtol=0.05, atol=0.05)
