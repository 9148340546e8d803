"""The CPU's LoRA layer against PEFT's own and against automatic differentiation."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor
from torch.nn import functional as F

from models.kernels.cpu_lora import (
    CpuLoraLinear,
    LoraProducts,
    Update,
    keep_mask,
    products,
    use_cpu_lora,
)
from tests.tiny import tiny_llama

# How much farther from float32 than PEFT's own a gradient may be.
FARTHER = 2.0


def layers(*outs: int, dropout: float = 0.0) -> list[Update]:
    """Updates over an input of 6, the first of rank 3 with a bias, others of rank 2 without."""
    return [
        Update(
            torch.randn(out, 6),
            None if place else torch.randn(out),
            torch.randn(2 if place else 3, 6).requires_grad_(),
            torch.randn(out, 2 if place else 3).requires_grad_(),
            1.5 + place,
            dropout,
        )
        for place, out in enumerate(outs)
    ]


def plainly(x: Tensor, dropped: Tensor, update: Update) -> Tensor:
    down = dropped @ update.lora_a.t()
    return F.linear(x, update.weight, update.bias) + update.scale * down @ update.lora_b.t()


def assert_same_gradients(
    ours: Sequence[Tensor], plain: Sequence[Tensor], x: Tensor, updates: Sequence[Update]
) -> None:
    learned = [x, *(each for update in updates for each in (update.lora_a, update.lora_b))]
    targets = [torch.randn_like(output) for output in plain]
    sums = [
        sum((o * t).sum() for o, t in zip(outputs, targets, strict=True))
        for outputs in (ours, plain)
    ]
    gradients = [torch.autograd.grad(total, learned) for total in sums]
    for actual, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("outs", [(7,), (7, 4, 5)])
def test_products_and_gradients_equal_plain_autograd(outs: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, updates = torch.randn(2, 5, 6, requires_grad=True), layers(*outs)
    actual, expected = products(x, updates), [plainly(x, x, update) for update in updates]
    for ours, plain in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, plain)
    assert_same_gradients(actual, expected, x, updates)


@pytest.mark.parametrize("outs", [(7,), (7, 4, 5)])
def test_dropout_uses_one_mask_forward_and_backward(outs: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, updates = torch.randn(9, 6, requires_grad=True), layers(*outs, dropout=0.4)
    torch.manual_seed(1)
    actual = products(x, updates)
    torch.manual_seed(1)
    dropped = x * keep_mask(x.shape, 0.4, x.dtype) / 0.6
    expected = [plainly(x, dropped, update) for update in updates]
    for ours, plain in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, plain)
    assert_same_gradients(actual, expected, x, updates)


def test_an_output_that_nothing_used_has_no_part_in_the_gradients() -> None:
    torch.manual_seed(0)
    x, updates = torch.randn(9, 6, requires_grad=True), layers(7, 4)
    first = products(x, updates)[:1]
    assert_same_gradients(first, [plainly(x, x, updates[0])], x, updates[:1])


@pytest.mark.parametrize("rate", [0.0001, 0.05, 0.5, 0.9])
def test_mask_drops_at_its_rate_without_a_pattern(rate: float) -> None:
    torch.manual_seed(0)
    dropped = keep_mask(torch.Size([1000, 1003]), rate, torch.bfloat16) == 0
    spread = (rate * (1 - rate) / dropped.numel()) ** 0.5
    assert abs(dropped.float().mean().item() - rate) < 5 * spread + 1e-5
    for neighbours in (dropped[:, 1:] & dropped[:, :-1], dropped[1:] & dropped[:-1]):
        assert abs(neighbours.float().mean().item() - rate**2) < 6 * spread + 1e-5


def adapted(dropout: float = 0.0) -> PeftModel:
    torch.manual_seed(0)
    config = LoraConfig(r=4, lora_alpha=8, lora_dropout=dropout, target_modules="all-linear")
    config.task_type = "CAUSAL_LM"
    model = get_peft_model(tiny_llama().bfloat16(), config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.05)
    for module in model.modules():
        if hasattr(module, "cast_input_dtype_enabled"):
            module.cast_input_dtype_enabled = False
    return model.train()


def step(model: PeftModel, autocast: bool = True) -> tuple[Tensor, dict[str, Tensor]]:
    ids = torch.arange(3, 67).view(2, 32)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    return loss.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def test_loss_and_gradients_are_as_near_to_float32_as_pefts() -> None:
    """Both round to bfloat16, each in its own places; float32 says which rounds more."""
    exact, plain, fast = adapted().float(), adapted(), adapted()
    use_cpu_lora(fast)
    swapped = [module for module in fast.modules() if isinstance(module, CpuLoraLinear)]
    assert len(swapped) == 2 * 7
    true_loss, true = step(exact, autocast=False)
    expected_loss, expected = step(plain)
    loss, gradients = step(fast)
    assert abs(loss - true_loss) <= 2 * abs(expected_loss - true_loss) + 1e-3
    assert gradients.keys() == expected.keys() == true.keys()
    assert len(gradients) == 2 * len(swapped)
    for name, gradient in gradients.items():
        theirs = (expected[name] - true[name]).norm()
        assert (gradient - true[name]).norm() < FARTHER * theirs, name


def test_state_and_inference_stay_pefts() -> None:
    plain, fast = adapted(0.1), adapted(0.1)
    use_cpu_lora(fast)
    assert plain.state_dict().keys() == fast.state_dict().keys()
    ids = torch.arange(3, 35).view(1, 32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(plain.eval()(ids).logits, fast.eval()(ids).logits)
        with fast.disable_adapter(), plain.disable_adapter():
            assert torch.equal(plain(ids).logits, fast(ids).logits)


def test_in_float32_loss_and_gradients_are_pefts() -> None:
    plain, fast = adapted().float(), adapted().float()
    use_cpu_lora(fast)
    assert sum(isinstance(module, CpuLoraLinear) for module in fast.modules()) == 2 * 7
    expected_loss, expected = step(plain, autocast=False)
    loss, gradients = step(fast, autocast=False)
    torch.testing.assert_close(loss, expected_loss)
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6)


def test_float32_under_autocast_stays_pefts() -> None:
    plain, fast = adapted().float(), adapted().float()
    use_cpu_lora(fast)
    expected_loss, expected = step(plain)
    loss, gradients = step(fast)
    assert torch.equal(loss, expected_loss)
    assert all(torch.equal(gradients[name], expected[name]) for name in expected)


def test_other_dtypes_and_mixed_ones_stay_pefts() -> None:
    model = adapted().half()
    use_cpu_lora(model)
    assert not any(isinstance(module, CpuLoraLinear) for module in model.modules())
    mixed = adapted()
    use_cpu_lora(mixed)
    layer = next(module for module in mixed.modules() if isinstance(module, CpuLoraLinear))
    assert layer.update(torch.randn(2, 64)) is None
    assert layer.update(torch.randn(2, 64).bfloat16()) is not None


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of layers that each call of the products computed for, as they come."""
    sizes: list[int] = []
    apply = LoraProducts.apply

    def counting(x: Tensor, dropout: float, scales: Sequence[float], *tensors: Any) -> Any:
        sizes.append(len(scales))
        return apply(x, dropout, scales, *tensors)

    monkeypatch.setattr(LoraProducts, "apply", counting)
    return sizes


def test_layers_with_the_same_input_are_computed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    fast, sizes = adapted(), counted(monkeypatch)
    use_cpu_lora(fast)
    loss, gradients = step(fast)
    assert sizes == 2 * [3, 1, 2, 1]
    for module in fast.modules():
        if isinstance(module, CpuLoraLinear):
            module.same_input = None
    fast.zero_grad()
    alone, expected = step(fast)
    assert sizes == 2 * [3, 1, 2, 1] + 14 * [1]
    torch.testing.assert_close(loss, alone)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=0.05, atol=0.02)


def test_layers_that_got_another_input_compute_for_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fast, plain, sizes = adapted(), adapted(), counted(monkeypatch)
    use_cpu_lora(fast)
    query, key, _ = (f"base_model.model.model.layers.0.self_attn.{n}_proj" for n in "qkv")
    x, other = torch.randn(2, 4, 64).bfloat16(), torch.randn(2, 4, 64).bfloat16()
    for given in (x, other):
        with torch.autocast("cpu", torch.bfloat16):
            outputs = [model.get_submodule(query)(given) for model in (fast, plain)]
            outputs += [model.get_submodule(key)(other) for model in (fast, plain)]
        torch.testing.assert_close(outputs[0], outputs[1], rtol=0.05, atol=0.05)
        torch.testing.assert_close(outputs[2], outputs[3], rtol=0.05, atol=0.05)
    # The key's input was not the query's: what stood ready was dropped, and the group with it.
    assert sizes == [3, 1, 1, 1]


def test_an_adapter_that_is_off_leaves_the_group_to_pefts_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fast, plain, sizes = adapted(), adapted(), counted(monkeypatch)
    use_cpu_lora(fast)
    for model in (fast, plain):
        layer: Any = model.get_submodule("base_model.model.model.layers.0.self_attn.k_proj")
        layer.enable_adapters(False)
    losses = [step(model)[0] for model in (fast, plain)]
    assert sizes == [1, 1, 1, 2, 1, 3, 1, 2, 1]
    torch.testing.assert_close(losses[0], losses[1], rtol=0.01, atol=0.01)
