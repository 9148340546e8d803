"""The CPU's LoRA layer against PEFT's own and against automatic differentiation."""

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor
from torch.nn import functional as F

from models.kernels.cpu_lora import CpuLoraLinear, LoraProduct, keep_mask, use_cpu_lora
from tests.tiny import tiny_llama

# How much farther from float32 than PEFT's own a gradient may be.
FARTHER = 2.0


def test_product_and_gradients_equal_plain_autograd() -> None:
    torch.manual_seed(0)
    x, a, b = torch.randn(2, 5, 6), torch.randn(3, 6), torch.randn(7, 3)
    weight, bias, target = torch.randn(7, 6), torch.randn(7), torch.randn(2, 5, 7)
    for tensor in (x, a, b):
        tensor.requires_grad_()
    expected = F.linear(x, weight, bias) + 1.5 * (x @ a.t() @ b.t())
    actual = LoraProduct.apply(x, weight, bias, a, b, 1.5, 0.0)
    torch.testing.assert_close(actual, expected)
    for ours, plain in zip(
        torch.autograd.grad((actual * target).sum(), (x, a, b)),
        torch.autograd.grad((expected * target).sum(), (x, a, b)),
        strict=True,
    ):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-5)


def test_dropout_uses_one_mask_forward_and_backward() -> None:
    torch.manual_seed(0)
    x, a, b = torch.randn(9, 6), torch.randn(3, 6), torch.randn(7, 3)
    weight, target = torch.randn(7, 6), torch.randn(9, 7)
    for tensor in (x, a, b):
        tensor.requires_grad_()
    torch.manual_seed(1)
    actual = LoraProduct.apply(x, weight, None, a, b, 2.0, 0.4)
    torch.manual_seed(1)
    keep = keep_mask(x.shape, 0.4, x.dtype)
    expected = x @ weight.t() + 2.0 * ((x * keep / 0.6) @ a.t() @ b.t())
    torch.testing.assert_close(actual, expected)
    for ours, plain in zip(
        torch.autograd.grad((actual * target).sum(), (x, a, b)),
        torch.autograd.grad((expected * target).sum(), (x, a, b)),
        strict=True,
    ):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-5)


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


def test_float32_backbones_are_left_alone() -> None:
    model = adapted().float()
    use_cpu_lora(model)
    assert not any(isinstance(module, CpuLoraLinear) for module in model.modules())
