"""Layer-wise soft prompts on a frozen decoder, and attention over them (Tri-RAG eq. 3 to 7)."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.kernels.cpu_attention import (
    causal_mask,
    cpu_training_attention,
    set_attention,
    trains_on_cpu,
)
from models.parts.loss import decoder_body

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

NAME = "deep_prompt"
# Rotary embeddings whose frequencies hang on the longest position seen, not on distances alone.
LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")


@dataclass(frozen=True)
class PromptStates:
    """Keys and values [G, n, D] of a soft prompt, by the index of the layer that they go to.

    in_cache: a cache of its own kind has them in front of each row's already.
    """

    layers: Mapping[int, tuple[Tensor, Tensor]]
    length: int
    in_cache: bool = False


def use_prompt_attention(model: PreTrainedModel) -> None:
    """Let a causal language model take `deep_prompt`, whatever attention it ran with."""
    set_attention(model, NAME, prompted_attention)


def prompted_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    deep_prompt: PromptStates | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers calls it, over the prompt's keys and then the layer's own.

    query: [B, H, Q, D]; key and value: [B, G, K, D]; attention_mask: None (causal), boolean or
    additive [B or 1, 1, Q, K]. Returns [B, Q, H, D].
    """
    layer = int(getattr(module, "layer_idx", -1))
    if deep_prompt is not None and layer in deep_prompt.layers:
        length = deep_prompt.length
        if not deep_prompt.in_cache:
            prompt_key, prompt_value = deep_prompt.layers[layer]
            key, value = _prepended(prompt_key, key), _prepended(prompt_value, value)
        visible = _visible(query, key, length, options)
        inputs = (module, query, key, value, attention_mask, dropout, options)
        if visible is not None or options.get("softcap") or not trains_on_cpu(*inputs):
            attention_mask = _mask(attention_mask, query, key, length, visible)
    if options.get("softcap"):
        capped = _capped(query, key, value, attention_mask, dropout, scaling, options["softcap"])
        return capped, None
    return cpu_training_attention(
        module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
    )


def _prepended(prompt: Tensor, own: Tensor) -> Tensor:
    """Prompt [G, n, D] in front of a batch's keys or values [B, G, K, D]."""
    return torch.cat([prompt.to(own.dtype).expand(own.shape[0], -1, -1, -1), own], dim=2)


def _mask(
    mask: Tensor | None, query: Tensor, key: Tensor, length: int, visible: Tensor | None
) -> Tensor | None:
    """Widen a layer's mask to the prompt's columns, [B or 1, 1, Q, n + K].

    query [B, H, Q, D] and key [B, G, n + K, D]; visible: boolean [B or 1, 1, Q, n] where a
    sliding window hides a part of the prompt, None where every token sees all of it.
    """
    if mask is None:
        if query.shape[2] == 1 and visible is None:
            return None
        mask = causal_mask(query, key[:, :, length:])[None, None]
    seen, unseen = (1, 0) if mask.dtype == torch.bool else (0.0, float("-inf"))
    prompt = mask.new_full((*mask.shape[:3], length), seen)
    if visible is not None:
        rows = max(mask.shape[0], visible.shape[0])
        mask = mask.expand(rows, -1, -1, -1)
        prompt = prompt.expand(rows, -1, -1, -1).masked_fill(~visible, unseen)
    return torch.cat([prompt, mask], dim=-1)


def _visible(query: Tensor, key: Tensor, length: int, options: Mapping[str, Any]) -> Tensor | None:
    """Which prompt columns a sliding window leaves to each query, boolean [B or 1, 1, Q, n].

    key: [B, G, n + K, D]. None where every query sees the whole prompt. `position_ids` of the
    queries, [B or 1, Q], begin with 0 at the first real token; without them padding is on the
    right, and a query's position is its column.
    """
    window, positions = options.get("sliding_window"), options.get("position_ids")
    if window is None or key.shape[2] <= window:
        return None
    if positions is None:
        last = key.shape[2] - length
        positions = torch.arange(last - query.shape[2], last, device=query.device)[None]
    columns = torch.arange(-length, 0, device=query.device)
    return (positions[:, None, :, None] - columns) < int(window)


def _capped(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    scaling: float | None,
    softcap: float,
) -> Tensor:
    """Attention with capped scores (Gemma 2), which no fused kernel here computes."""
    groups = query.shape[1] // key.shape[1]
    keys, values = (tensor.repeat_interleave(groups, dim=1) for tensor in (key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = torch.tanh(query @ keys.transpose(2, 3) * scale / softcap) * softcap
    if mask is None and query.shape[2] > 1:
        mask = causal_mask(query, key)
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        )
    weights = F.dropout(scores.float().softmax(dim=-1), dropout).to(query.dtype)
    return (weights @ values).transpose(1, 2).contiguous()


class UnsupportedBackboneError(ValueError):
    """A decoder that layer-wise soft prompts cannot be computed for; says what it lacks."""


class DeepPrompt(nn.Module):
    """Learned matrices E_l [n, d], one a selected layer: the only trainable parameters (eq. 12).

    Args:
        num_tokens: n, the prompt tokens of a layer.
        layers: indices of the selected layers, from 0.
        hidden_size: d of the backbone.
    """

    def __init__(self, num_tokens: int, layers: Sequence[int], hidden_size: int) -> None:
        super().__init__()
        self.layers = tuple(layers)
        self.num_tokens = num_tokens
        # The layer's norm takes any scale away again; with one scale for all layers and
        # initialisations, a learning rate means the same everywhere.
        self.embeddings = nn.Parameter(torch.randn(len(self.layers), num_tokens, hidden_size))

    def states(self, backbone: nn.Module, first_position: int | None = None) -> PromptStates:
        """Compute the keys and values that the selected layers' tokens attend to.

        Args:
            backbone: the frozen language model.
            first_position: of the prompt; default -n, so that real tokens keep their positions.
                0 gives an ordinary prefix, in front of tokens that are shifted by n.
        """
        decoder = decoder_body(backbone)
        start = -self.num_tokens if first_position is None else first_position
        positions = torch.arange(
            start, start + self.num_tokens, device=self.embeddings.device
        ).unsqueeze(0)
        states = {
            layer: layer_states(decoder, layer, embeddings, positions)
            for layer, embeddings in zip(self.layers, self.embeddings, strict=True)
        }
        return PromptStates(states, self.num_tokens)


def layer_states(
    decoder: nn.Module, layer: int, hidden_states: Tensor, positions: Tensor
) -> tuple[Tensor, Tensor]:
    """Keys and values [G, n, D] that a frozen layer makes of its input.

    hidden_states: [n, d], what enters the layer; positions: [1, n].
    """
    block: Any = decoder.layers[layer]  # type: ignore[index]
    attention = block.self_attn
    normed = block.input_layernorm(hidden_states.to(attention.k_proj.weight.dtype))
    shape = (len(hidden_states), -1, attention.head_dim)
    key = attention.k_proj(normed).view(shape)
    if getattr(attention, "k_norm", None) is not None:
        key = attention.k_norm(key)
    value = attention.v_proj(normed).view(shape).transpose(0, 1)
    return rotated(decoder, layer, key.transpose(0, 1), positions), value


def rotated(decoder: nn.Module, layer: int, key: Tensor, positions: Tensor) -> Tensor:
    """Keys [G, n, D] under the layer's own rotary embedding at positions [1, n] or [1, 1]."""
    attention: Any = decoder.layers[layer].self_attn  # type: ignore[index,union-attr]
    rotary: Any = decoder.rotary_emb
    options = {}
    if "layer_type" in inspect.signature(rotary.forward).parameters:
        options["layer_type"] = attention.layer_type
    cos, sin = rotary(key, positions, **options)
    apply = sys.modules[type(attention).__module__].apply_rotary_pos_emb
    rotated_key: Tensor = apply(key[None], key[None], cos, sin)[1][0]
    return rotated_key


def selected_layers(selection: str | Sequence[int], num_layers: int) -> tuple[int, ...]:
    """Turn a recipe's choice of layers into indices, from 0.

    Args:
        selection: "all", "even", "odd", "last" or indices; negative ones count from the end.
        num_layers: of the backbone.

    Raises:
        ValueError: an unknown word, no layer, a layer twice or one that does not exist.
    """
    words = {
        "all": range(num_layers),
        "even": range(0, num_layers, 2),
        "odd": range(1, num_layers, 2),
        "last": range(num_layers - 1, num_layers),
    }
    if isinstance(selection, str) and selection not in words:
        raise ValueError(f"layers '{selection}': give {', '.join(words)} or a list of indices")
    chosen = words[selection] if isinstance(selection, str) else selection
    outside = [layer for layer in chosen if not -num_layers <= layer < num_layers]
    if outside:
        raise ValueError(f"layers {outside} do not exist: the backbone has {num_layers}")
    layers = [layer % num_layers for layer in chosen]
    if not layers or len(set(layers)) != len(layers):
        raise ValueError(f"layers {list(chosen)}: name at least one layer, and each once")
    return tuple(sorted(layers))


def require_supported(backbone: PreTrainedModel, num_tokens: int) -> None:
    """Refuse a decoder that the states above are not right for, or that has no room for them.

    Raises:
        UnsupportedBackboneError: naming the model and what it lacks (families that are known to
            work: Llama, Mistral, Qwen2, Qwen3, Gemma), or its context and n.
    """
    decoder, config = decoder_body(backbone), backbone.config.get_text_config(decoder=True)
    lacking = [name for name in ("layers", "rotary_emb") if not hasattr(decoder, name)]
    if not lacking:
        block: Any = decoder.layers[0]  # type: ignore[index]
        parts = ("input_layernorm", "self_attn.k_proj", "self_attn.v_proj", "self_attn.head_dim")
        lacking = [part for part in parts if not _has(block, part)]
    if getattr(config, "num_kv_shared_layers", None):
        lacking.append("keys and values of its own in every layer")
    kind = getattr(getattr(decoder, "rotary_emb", None), "rope_type", "default")
    if kind in LENGTH_DEPENDENT_ROPE:
        lacking.append(f"a rotary embedding that hangs on distances alone (it has '{kind}')")
    if lacking:
        raise UnsupportedBackboneError(
            f"{config.model_type}: layer-wise soft prompts need {', '.join(lacking)}, which this "
            "backbone lacks. Use a Llama, Mistral, Qwen2, Qwen3 or Gemma model, or LoRA"
        )
    context = getattr(config, "max_position_embeddings", None)
    if context is not None and num_tokens >= context:
        raise UnsupportedBackboneError(
            f"{num_tokens} prompt tokens do not fit the context of {config.model_type}, which "
            f"holds {context}. Lower the number of prompt tokens"
        )


def _has(module: Any, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(module, name):
            return False
        module = getattr(module, name)
    return True


@torch.no_grad()
def initialise_from_vocabulary(prompt: DeepPrompt, backbone: PreTrainedModel) -> None:
    """Fill every layer's prompt with embeddings of tokens drawn from the vocabulary."""
    embeddings: Any = backbone.get_input_embeddings().weight
    drawn = torch.randint(len(embeddings), prompt.embeddings.shape[:2], device=embeddings.device)
    prompt.embeddings.copy_(_unit_scale(embeddings[drawn]))


@torch.no_grad()
def initialise_from_text(
    prompt: DeepPrompt, backbone: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str
) -> None:
    """Fill every layer's prompt with what enters that layer when the backbone reads a text.

    With all layers selected and a text of n tokens this is the text as a cached prefix: training
    starts where an instruction would have led. A shorter text is repeated, a longer one is cut.

    Raises:
        ValueError: a text without a token.
    """
    ids = [token for token in [tokenizer.bos_token_id] if token is not None]
    words = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    if not words:
        raise ValueError("the instruction that initialises a soft prompt is empty")
    while len(ids) < prompt.num_tokens:
        ids.extend(words)
    input_ids = torch.tensor([ids[: prompt.num_tokens]], device=backbone.device)
    decoder = decoder_body(backbone)
    output = decoder(input_ids=input_ids, use_cache=False, output_hidden_states=True)
    hidden_states = torch.cat([output.hidden_states[layer] for layer in prompt.layers])
    prompt.embeddings.copy_(_unit_scale(hidden_states))


def _unit_scale(rows: Tensor) -> Tensor:
    """Rows [..., d] of root mean square 1, which a layer's norm makes the same thing of."""
    rows = rows.float()
    return rows / rows.square().mean(dim=-1, keepdim=True).sqrt().clamp(min=1e-9)
