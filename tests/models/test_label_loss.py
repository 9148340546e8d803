"""The loss at label positions equals the Hugging Face model's loss over all positions."""

import copy

import pytest
import torch
from torch import Tensor
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    PreTrainedModel,
)

from models.parts import loss as chunked_loss
from models.parts.adapters import add_lora
from models.parts.loss import (
    IGNORE_INDEX,
    decoder_body,
    label_logprobs,
    label_loss,
    label_positions,
    step_loss,
)
from tests.tiny import tiny_llama


def make_batch(batch_size: int = 3, length: int = 12) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    input_ids = torch.randint(3, 259, (batch_size, length), generator=generator)
    labels = input_ids.clone()
    for row in range(batch_size):
        labels[row, : 5 + row] = IGNORE_INDEX
    return input_ids, labels


def own_loss(
    model: PreTrainedModel,
    input_ids: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    num_items: int | None = None,
) -> Tensor:
    mask = torch.ones_like(input_ids) if mask is None else mask
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    states = decoder_body(model)(
        input_ids=input_ids, attention_mask=mask, position_ids=positions
    ).last_hidden_state
    head = model.get_output_embeddings()
    return label_loss(states, labels, head, num_items, model.config)[0]


def small_config(config_class: type, **extra: object) -> object:
    return config_class(
        vocab_size=259,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        pad_token_id=0,
        **extra,
    )


def models() -> list[PreTrainedModel]:
    torch.manual_seed(0)
    gemma = Gemma2ForCausalLM(small_config(Gemma2Config, final_logit_softcapping=0.5))
    granite = GraniteForCausalLM(small_config(GraniteConfig, logits_scaling=3.0))
    return [tiny_llama(), gemma.eval(), granite.eval()]


@pytest.mark.parametrize("model", models(), ids=lambda model: model.config.model_type)
def test_loss_and_gradients_equal_hugging_face(model: PreTrainedModel) -> None:
    input_ids, labels = make_batch()
    reference = model(input_ids=input_ids, labels=labels).loss
    reference.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    loss = own_loss(model, input_ids, labels)
    loss.backward()
    torch.testing.assert_close(loss, reference, rtol=1e-6, atol=1e-6)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("left", [True, False])
def test_padding_changes_nothing(left: bool) -> None:
    model = tiny_llama()
    input_ids, labels = make_batch()
    pad = (4, 0) if left else (0, 4)
    mask = torch.nn.functional.pad(torch.ones_like(input_ids), pad)
    padded = own_loss(
        model,
        torch.nn.functional.pad(input_ids, pad),
        torch.nn.functional.pad(labels, pad, value=IGNORE_INDEX),
        mask,
    )
    torch.testing.assert_close(padded, own_loss(model, input_ids, labels), rtol=1e-5, atol=1e-6)


def test_accumulated_micro_batches_equal_one_batch() -> None:
    model = tiny_llama()
    input_ids, labels = make_batch(4)
    whole = own_loss(model, input_ids, labels)
    items = int((labels != IGNORE_INDEX).sum())
    parts = [
        own_loss(model, input_ids[rows], labels[rows], num_items=items)
        for rows in (slice(0, 1), slice(1, 4))
    ]
    torch.testing.assert_close(sum(parts), whole, rtol=1e-5, atol=1e-6)


def test_positions_precede_their_labels() -> None:
    labels = torch.tensor([[-100, -100, 7, 8], [-100, 9, -100, -100]])
    assert label_positions(labels).tolist() == [1, 2, 4]


def test_logits_only_where_labels_are() -> None:
    head = torch.nn.Linear(8, 259)
    labels = torch.full((2, 6), IGNORE_INDEX)
    labels[0, 4:] = 5
    _, logits, count = label_loss(torch.randn(2, 6, 8), labels, head)
    assert logits.shape == (2, 259) and count == 2


def test_batch_without_labels_gives_zero_and_a_gradient() -> None:
    states = torch.randn(1, 4, 8, requires_grad=True)
    labels = torch.full((1, 4), IGNORE_INDEX)
    loss, _, count = label_loss(states, labels, torch.nn.Linear(8, 259))
    loss.backward()
    assert loss.item() == 0 and count == 0
    assert states.grad is not None and not states.grad.any()


def test_the_body_of_an_adapted_model_uses_its_adapters() -> None:
    model = add_lora(tiny_llama(), 4, 8, 0.0, "all-linear", "tiny")
    input_ids, labels = make_batch()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    reference = model(input_ids=input_ids, labels=labels).loss
    states = decoder_body(model)(input_ids=input_ids).last_hidden_state
    loss, _, _ = label_loss(states, labels, model.get_base_model().get_output_embeddings())
    torch.testing.assert_close(loss, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 4, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_block_by_block_the_loss_is_the_same(
    rows: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked_loss, "ROWS", rows)
    torch.manual_seed(0)
    head = torch.nn.Linear(16, 259, bias=False).to(dtype).requires_grad_(False)
    _, labels = make_batch()
    states = torch.randn(3, 12, 16).to(dtype).requires_grad_()
    exact = states.detach().double().requires_grad_()
    expected, _, count = label_loss(exact, labels, copy.deepcopy(head).double(), 40)
    expected.backward()
    loss = step_loss(states, labels, head, 40)
    loss.backward()
    assert loss.dtype == torch.float32 and count > 4
    assert "FrozenHeadLogprobs" in str(label_logprobs(states, labels, head)[0].grad_fn)
    exactly = dtype == torch.float32
    torch.testing.assert_close(
        loss, expected.float(), rtol=1e-6 if exactly else 2e-3, atol=0, check_dtype=False
    )
    error = (states.grad - exact.grad).norm() / exact.grad.norm()
    assert error < (1e-6 if exactly else 1e-2)


def test_a_very_unlikely_label_gives_a_finite_loss() -> None:
    head = torch.nn.Linear(4, 9, bias=False).requires_grad_(False)
    head.weight[:] = torch.eye(9, 4) * 300
    states = torch.ones(1, 2, 4).mul(torch.tensor([1.0, 0, 0, 0])).requires_grad_()
    loss = step_loss(states, torch.tensor([[-100, 8]]), head)
    loss.backward()
    torch.testing.assert_close(loss.item(), 300.0)
    assert states.grad is not None and states.grad.isfinite().all()


@pytest.mark.parametrize("model", models(), ids=lambda model: model.config.model_type)
@pytest.mark.parametrize("frozen", [True, False])
def test_a_step_s_loss_for_every_head(model: PreTrainedModel, frozen: bool) -> None:
    head = model.get_output_embeddings()
    head.requires_grad_(not frozen)
    _, labels = make_batch()
    states = torch.randn(3, 12, model.config.hidden_size, requires_grad=True)
    loss = step_loss(states, labels, head, None, model.config)
    expected = label_loss(states, labels, head, None, model.config)[0]
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    found, wanted = (torch.autograd.grad(one, states)[0] for one in (loss, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-7)


def test_a_step_without_labels_gives_zero_and_a_gradient() -> None:
    states = torch.randn(1, 4, 8, requires_grad=True)
    labels = torch.full((1, 4), IGNORE_INDEX)
    head = torch.nn.Linear(8, 259, bias=False).requires_grad_(False)
    loss = step_loss(states, labels, head)
    loss.backward()
    assert loss.item() == 0 and states.grad is not None and not states.grad.any()
