"""Decoding over grouped keys gives what transformers' own attention gives."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from models.kernels.cpu_attention import GROUPED_SDPA, grouped_sdpa, use_grouped_attention


class Groups(nn.Module):
    """What transformers' attention reads off its module."""

    is_causal = True

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.num_key_value_groups = groups


@given(
    batch=st.integers(1, 3),
    key_heads=st.integers(1, 3),
    groups=st.integers(1, 3),
    queries=st.integers(1, 3),
    length=st.integers(3, 9),
    padded=st.booleans(),
    seed=st.integers(0, 99),
)
def test_equal_to_repeated_keys(
    batch: int, key_heads: int, groups: int, queries: int, length: int, padded: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(batch, key_heads * groups, queries, 8, generator=generator)
    # A view into reserved room, as the engine's cache gives it.
    room = torch.randn(2, batch, key_heads, length + 4, 8, generator=generator)
    key, value = room[0, :, :, :length], room[1, :, :, :length]
    mask = None
    if padded or queries > 1:
        mask = torch.rand(batch, 1, queries, length, generator=generator) < 0.7
        mask[..., -1] = True
    expected, _ = sdpa_attention_forward(Groups(groups), query, key, value, mask, scaling=0.3)
    found, _ = grouped_sdpa(Groups(groups), query, key, value, mask, scaling=0.3)
    torch.testing.assert_close(found, expected)


def test_a_model_decodes_the_same_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 64}
    config = LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2)
    model = LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    input_ids = torch.randint(3, 64, (3, 7))
    mask = torch.ones_like(input_ids)
    mask[0, :4] = 0
    options = {"attention_mask": mask, "do_sample": False, "max_new_tokens": 12, "pad_token_id": 0}
    expected = model.generate(input_ids, **options)
    use_grouped_attention(model)
    assert model.config._attn_implementation == GROUPED_SDPA
    calls = []
    own = torch.nn.functional.scaled_dot_product_attention

    def counted(query: torch.Tensor, *arguments: object, **given: object) -> torch.Tensor:
        calls.append(query.shape[1])
        return own(query, *arguments, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    assert torch.equal(model.generate(input_ids, **options), expected)
    # Two key heads, never four repeated ones, for every token after the first.
    assert calls.count(2) == 2 * 11


def test_other_implementations_stay() -> None:
    config = LlamaConfig(hidden_size=32, num_attention_heads=4, num_hidden_layers=1, vocab_size=9)
    model = LlamaForCausalLM(config)
    model.set_attn_implementation("eager")
    use_grouped_attention(model)
    assert model.config._attn_implementation == "eager"
