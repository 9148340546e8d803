"""Ways to train a prompt on a frozen backbone, each as a module that gives a batch's loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from benchmarks.harness.settings import FiledSettings
from models.files.backbone import load_backbone
from models.kernels.cpu_attention import use_cpu_training_attention
from models.parts.deep_prompt import DeepPrompt, use_prompt_attention
from models.parts.loss import IGNORE_INDEX, step_loss

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CONTESTANTS = {
    "ours": "layer-wise soft prompt, keys and values alone",
    "frozen": "the frozen model alone, its gradient down to the embeddings",
    "literal": "eq. 5 to 7 to the letter",
    "peft_prefix": "PEFT prefix tuning as it ships",
    "input_prompt": "input-level prompt of the same length",
    "ours_checkpointing": "ours, gradient checkpointing",
    "literal_checkpointing": "to the letter, gradient checkpointing",
    "peft_prefix_checkpointing": "PEFT prefix tuning, gradient checkpointing",
}


@dataclass(frozen=True)
class PromptSettings(FiledSettings):
    """Sizes of the comparison, the same for all contestants.

    num_tokens: n, prompt tokens. batch_size, length: of the texts, without padding, every token
    with a loss. steps: measured after one warm-up step.
    """

    backbone: str = "smollm2"
    dtype: str = "bfloat16"
    num_tokens: int = 32
    batch_size: int = 4
    length: int = 256
    steps: int = 3
    threads: int = 1
    seed: int = 0


class PromptStep(Protocol):
    """A loss of one batch [B, T], and what trains."""

    module: nn.Module
    backbone: PreTrainedModel

    def loss(self, input_ids: Tensor) -> Tensor: ...


def token_loss(backbone: PreTrainedModel, hidden_states: Tensor, input_ids: Tensor) -> Tensor:
    """Return the mean loss of every token but the first, the same for all contestants."""
    head = cast(nn.Module, backbone.get_output_embeddings())
    return step_loss(hidden_states, input_ids, head, config=backbone.config)


def deep_prompt(backbone: PreTrainedModel, settings: PromptSettings) -> DeepPrompt:
    """Return a random prompt for every layer, the same for the same seed."""
    torch.manual_seed(settings.seed)
    config = backbone.config.get_text_config()
    return DeepPrompt(settings.num_tokens, range(config.num_hidden_layers), config.hidden_size)


def use_component_norms(backbone: PreTrainedModel) -> None:
    """Compute the frozen norms as a component's are."""
    # Late, as a command's --help does not need a decoder's module.
    from models.kernels.cpu_norm import use_cpu_norm

    use_cpu_norm(backbone)


class Ours:
    """`models/parts/deep_prompt.py` as the recipe trains it."""

    def __init__(self, settings: PromptSettings, checkpointing: bool = False) -> None:
        self.backbone = frozen(settings)
        use_prompt_attention(self.backbone)
        use_component_norms(self.backbone)
        self.module: nn.Module = deep_prompt(self.backbone, settings)
        if checkpointing:
            self.backbone.gradient_checkpointing_enable({"use_reentrant": False})
            self.backbone.train()

    def loss(self, input_ids: Tensor) -> Tensor:
        """Return the tokens alone run through the layers."""
        states = cast(DeepPrompt, self.module).states(self.backbone)
        output = self.backbone.get_decoder()(
            input_ids=input_ids, use_cache=False, deep_prompt=states
        )
        return token_loss(self.backbone, output.last_hidden_state, input_ids)


def literal_hidden_states(
    backbone: PreTrainedModel, embeddings: Tensor, input_ids: Tensor, checkpointing: bool = False
) -> Tensor:
    """Return the last hidden states [B, T, d] of texts without padding, under E [layers, n, d].

    Tri-RAG's eq. 5 to 7 to the letter: prepend E_l, run the whole layer, drop the prompt's outputs.

    For decoders of Llama's make, every layer with a prompt; the attention is the backbone's own.
    """
    decoder: Any = backbone.get_decoder()
    hidden_states = backbone.get_input_embeddings()(input_ids)
    batch_size, length = input_ids.shape
    prompt_length = embeddings.shape[1]
    positions = torch.arange(prompt_length + length)[None]
    rotary = decoder.rotary_emb(hidden_states, position_ids=positions)

    def run(layer: Any, prompt: Tensor, hidden_states: Tensor) -> Tensor:
        rows = prompt.to(hidden_states.dtype).expand(batch_size, -1, -1)
        output = layer(
            torch.cat([rows, hidden_states], dim=1),
            attention_mask=None,
            position_embeddings=rotary,
            position_ids=positions,
        )
        kept: Tensor = output[:, prompt_length:]
        return kept

    for layer, prompt in zip(decoder.layers, embeddings, strict=True):
        if checkpointing:
            hidden_states = checkpoint(run, layer, prompt, hidden_states, use_reentrant=False)
        else:
            hidden_states = run(layer, prompt, hidden_states)
    normed: Tensor = decoder.norm(hidden_states)
    return normed


class Literal:
    """The paper's equations, with the same kernels as ours."""

    def __init__(self, settings: PromptSettings, checkpointing: bool = False) -> None:
        self.backbone = frozen(settings)
        use_cpu_training_attention(self.backbone)
        use_component_norms(self.backbone)
        self.module: nn.Module = deep_prompt(self.backbone, settings)
        self.checkpointing = checkpointing

    def loss(self, input_ids: Tensor) -> Tensor:
        """Prompt and tokens run through every layer."""
        embeddings = cast(DeepPrompt, self.module).embeddings
        states = literal_hidden_states(self.backbone, embeddings, input_ids, self.checkpointing)
        return token_loss(self.backbone, states, input_ids)


class PeftPrefix:
    """PEFT's prefix tuning; with gradient checkpointing PEFT refuses."""

    def __init__(self, settings: PromptSettings, checkpointing: bool = False) -> None:
        self.backbone = frozen(settings)
        if checkpointing:
            self.backbone.gradient_checkpointing_enable({"use_reentrant": False})
        torch.manual_seed(settings.seed)
        from peft import PrefixTuningConfig, TaskType, get_peft_model

        config = PrefixTuningConfig(
            task_type=TaskType.CAUSAL_LM, num_virtual_tokens=settings.num_tokens
        )
        self.module: nn.Module = get_peft_model(self.backbone, config)

    def loss(self, input_ids: Tensor) -> Tensor:
        """Return the library's own forward pass and loss."""
        mask = torch.ones_like(input_ids)
        output: Any = self.module(input_ids=input_ids, attention_mask=mask, labels=input_ids)
        return cast(Tensor, output.loss)


class FrozenModel:
    """The texts without a prompt: what any prompt on this backbone costs at the least.

    One vector that joins every embedding trains, so that the gradient passes all layers.
    """

    def __init__(self, settings: PromptSettings) -> None:
        self.backbone = frozen(settings)
        use_cpu_training_attention(self.backbone)
        use_component_norms(self.backbone)
        torch.manual_seed(settings.seed)
        self.module: nn.Module = nn.Embedding(1, self.backbone.config.get_text_config().hidden_size)

    def loss(self, input_ids: Tensor) -> Tensor:
        """Return the tokens alone run through the layers."""
        words = self.backbone.get_input_embeddings()(input_ids)
        vector = cast(nn.Embedding, self.module).weight.to(words.dtype)
        output = self.backbone.get_decoder()(inputs_embeds=words + vector, use_cache=False)
        return token_loss(self.backbone, output.last_hidden_state, input_ids)


class InputPrompt:
    """One prompt in front of the embeddings (Lester et al., 2021), with the same kernels."""

    def __init__(self, settings: PromptSettings) -> None:
        self.backbone = frozen(settings)
        use_cpu_training_attention(self.backbone)
        use_component_norms(self.backbone)
        torch.manual_seed(settings.seed)
        self.module: nn.Module = nn.Embedding(
            settings.num_tokens, self.backbone.config.get_text_config().hidden_size
        )

    def loss(self, input_ids: Tensor) -> Tensor:
        """Prompt and tokens run through every layer, the prompt's outputs included."""
        words = self.backbone.get_input_embeddings()(input_ids)
        prompt = cast(nn.Embedding, self.module).weight.to(words.dtype)
        inputs = torch.cat([prompt.expand(len(words), -1, -1), words], dim=1)
        output = self.backbone.get_decoder()(inputs_embeds=inputs, use_cache=False)
        labels = nn.functional.pad(input_ids, (len(prompt), 0), value=IGNORE_INDEX)
        # The last prompt token would predict the first word; the others do not.
        labels[:, len(prompt)] = IGNORE_INDEX
        return token_loss(self.backbone, output.last_hidden_state, labels)


def frozen(settings: PromptSettings) -> PreTrainedModel:
    """Return the backbone, frozen."""
    return load_backbone(settings.backbone, settings.dtype).requires_grad_(False)


def build(name: str, settings: PromptSettings) -> PromptStep:
    """Return a contestant by its name."""
    checkpointing = name.endswith("_checkpointing")
    kind = name.removesuffix("_checkpointing")
    if kind == "frozen":
        return FrozenModel(settings)
    if kind == "input_prompt":
        return InputPrompt(settings)
    if kind == "peft_prefix":
        return PeftPrefix(settings, checkpointing)
    return Literal(settings, checkpointing) if kind == "literal" else Ours(settings, checkpointing)
