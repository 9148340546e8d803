"""Tiny random decoders of every family that layer-wise soft prompts are made for."""

from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

VOCABULARY = 97
LAYERS = 4
# Shorter than prompt and text together, so that it hides a part of the prompt.
WINDOW = 7
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SLIDING = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"] * 2}
FAMILIES: dict[str, PretrainedConfig] = {
    "llama": LlamaConfig(**SIZES),
    "mistral": MistralConfig(**SIZES, sliding_window=WINDOW),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3": Qwen3Config(**SIZES),
    "qwen3_sliding": Qwen3Config(**SIZES, **SLIDING, use_sliding_window=True),
    "gemma": GemmaConfig(**SIZES),
    "gemma2": Gemma2Config(**SIZES, **SLIDING, attn_logit_softcapping=5.0),
    "gemma3": Gemma3TextConfig(**SIZES, **SLIDING),
}
SLIDING_FAMILIES = ("mistral", "qwen3_sliding", "gemma2", "gemma3")


def tiny_decoder(family: str, seed: int = 0) -> PreTrainedModel:
    """A random frozen decoder in float32 and eval mode, with norms that are not all ones."""
    torch.manual_seed(seed)
    kernel = "eager" if family == "gemma2" else "sdpa"
    model = AutoModelForCausalLM.from_config(FAMILIES[family], attn_implementation=kernel)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(float("norm" in name and "gemma" not in family), 0.2)
    model.config._name_or_path = family
    return model.eval().requires_grad_(False)
