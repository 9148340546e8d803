"""Prefix tuning in PEFT's form: learned keys and values of every layer, and soft prompts as such.

PEFT hands a prefix over as a cache and lets real tokens begin at position n; here they begin at 0,
so the stored keys are turned back by n positions. Distances, and with them the logits, are equal.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from models.parts.adapters import ADAPTER_WEIGHTS
from models.parts.deep_prompt import DeepPrompt, PromptStates, UnsupportedBackboneError, rotated
from models.parts.loss import decoder_body

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PROMPT_EMBEDDINGS = "prompt_embeddings"


class PrefixPrompt(nn.Module):
    """Learned keys and values [n, 2 x layers, G, D]; entries 2l and 2l + 1 belong to layer l."""

    def __init__(self, num_tokens: int, backbone: PreTrainedModel) -> None:
        """Draw them as PEFT does, from the standard normal distribution."""
        super().__init__()
        self.num_tokens = num_tokens
        layers, heads, width = cache_shape(backbone)
        self.embeddings = nn.Parameter(torch.randn(num_tokens, 2 * layers, heads, width))

    def states(self, backbone: nn.Module) -> PromptStates:
        """Keys and values of every layer, for real tokens that begin at position 0."""
        decoder = decoder_body(backbone)
        back = torch.tensor([[-self.num_tokens]], device=self.embeddings.device)
        by_layer = self.embeddings.permute(1, 2, 0, 3)
        return PromptStates(
            {
                layer: (rotated(decoder, layer, by_layer[2 * layer], back), by_layer[2 * layer + 1])
                for layer in range(len(by_layer) // 2)
            },
            self.num_tokens,
        )


def cache_shape(backbone: PreTrainedModel) -> tuple[int, int, int]:
    """Layers, key heads and head size of a decoder whose layers are all alike."""
    config = backbone.config.get_text_config(decoder=True)
    attention = decoder_body(backbone).layers[0].self_attn  # type: ignore[index,union-attr]
    width = int(attention.head_dim)
    return int(config.num_hidden_layers), attention.k_proj.out_features // width, width


@torch.no_grad()
def as_prefix(prompt: DeepPrompt, backbone: PreTrainedModel) -> Tensor:
    """A layer-wise soft prompt as a prefix [n, 2 x layers, G, D].

    Raises:
        UnsupportedBackboneError: not every layer has a prompt; PEFT's prefix is one for all.
    """
    layers = cache_shape(backbone)[0]
    if len(prompt.layers) != layers:
        raise UnsupportedBackboneError(
            f"a prefix belongs to all layers, and this soft prompt has {len(prompt.layers)} of "
            f"{layers}. Train with all layers to load it as a PEFT prefix"
        )
    states = prompt.states(backbone, first_position=0).layers
    pairs = [tensor for layer in range(layers) for tensor in states[layer]]
    return torch.stack(pairs).permute(2, 0, 1, 3).contiguous()


def save_prefix(prefix: Tensor, backbone: str, folder: Path) -> None:
    """Write a prefix [n, 2 x layers, G, D] as the folder that `PeftModel.from_pretrained` reads."""
    from peft import PeftType, PrefixTuningConfig, TaskType

    length, doubled, heads, width = prefix.shape
    config = PrefixTuningConfig(
        peft_type=PeftType.PREFIX_TUNING,
        task_type=TaskType.CAUSAL_LM,
        num_virtual_tokens=length,
        num_layers=doubled // 2,
        num_attention_heads=heads,
        token_dim=heads * width,
        num_transformer_submodules=1,
        encoder_hidden_size=heads * width,
        base_model_name_or_path=backbone,
        inference_mode=True,
    )
    config.save_pretrained(str(folder))
    weights = {PROMPT_EMBEDDINGS: prefix.detach().reshape(length, -1).cpu().contiguous()}
    save_file(weights, folder / ADAPTER_WEIGHTS, metadata={"format": "pt"})


def load_prefix(prompt: PrefixPrompt, folder: Path) -> None:
    """Read what `save_prefix` or PEFT wrote into a prompt of the same shape."""
    stored = load_file(folder / ADAPTER_WEIGHTS)[PROMPT_EMBEDDINGS]
    with torch.no_grad():
        prompt.embeddings.copy_(stored.view(prompt.embeddings.shape))
