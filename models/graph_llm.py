"""GraphLLM: a language model with LoRA that reads a graph as one token (RAS §3.4, App. D.2)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import CausalLMOutput

from models.files.backbone import backbone_id, load_backbone, load_tokenizer
from models.files.checkpoint import check_backbone, read_component_config, write_component
from models.kernels.cpu_attention import use_cpu_training_attention
from models.kernels.cpu_lora import use_cpu_lora
from models.parts.adapters import (
    add_lora,
    backbone_autocast,
    causal_loss,
    copy_weights,
    last_position,
    leave_casting_to_autocast,
    load_adapter,
    save_adapter,
    trainable_bytes,
)
from models.parts.graph import GraphBatch
from models.parts.graph_encoder import GraphEncoder, GraphEncoderConfig
from models.processors.ras import RasProcessor

COMPONENT = "ras"
GRAPH_ENCODER_FILE = "graph_encoder.safetensors"


@dataclass(frozen=True)
class GraphLLMConfig:
    """Settings of a GraphLLM; LoRA and graph sizes default to the paper's (RAS Table 8).

    Attributes:
        backbone: `smollm2`, a Hugging Face id or a folder; a causal language model.
        backbone_revision: commit or tag of a Hugging Face id.
        lora_rank, lora_alpha, lora_dropout: of LoRA.
        lora_targets: module names, or "all-linear".
        graph: sizes of the graph encoder; None leaves it and the graph token out.
        encoder: name of the sentence encoder that gives the graph's features.
        compare_dates: whether derived comparisons join the triples.
        max_input_tokens, max_output_tokens: limits of prompt and label.
        graph_position: where the graph token stands in a prompt, 1 after a BOS; None: looked up
            in the backbone's tokenizer when the model is built.
    """

    backbone: str
    backbone_revision: str | None = None
    lora_rank: int = 8
    lora_alpha: float = 16.0
    lora_dropout: float = 0.05
    lora_targets: list[str] | str = field(default_factory=lambda: ["q_proj", "v_proj"])
    graph: GraphEncoderConfig | None = field(default_factory=GraphEncoderConfig)
    encoder: str = "minilm"
    compare_dates: bool = True
    max_input_tokens: int = 2500
    max_output_tokens: int = 300
    graph_position: int | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "GraphLLMConfig":
        """Pick this dataclass's fields out of a component's config.json."""
        names = {item.name for item in fields(cls)}
        picked = {key: value for key, value in values.items() if key in names}
        if picked.get("graph") is not None:
            picked["graph"] = GraphEncoderConfig(**picked["graph"])
        return cls(**picked)

    def processor(self, tokenizer: PreTrainedTokenizerBase) -> RasProcessor:
        """The processor that makes this model's inputs."""
        return RasProcessor(
            tokenizer,
            max_input_tokens=self.max_input_tokens,
            max_output_tokens=self.max_output_tokens,
            graph_token=self.graph is not None,
            compare_dates=self.compare_dates,
        )


class GraphLLM(nn.Module):
    """Causal language model with adapters and a graph token after BOS.

    Make one with `GraphLLM.from_config` or `GraphLLM.from_pretrained`. Frozen weights keep the
    backbone's dtype; what trains is float32 and, on a half-precision backbone, computes in that
    precision under autocast.
    """

    # transformers.Trainer then hands num_items_in_batch to forward.
    accepts_loss_kwargs = True
    supports_gradient_checkpointing = True

    def __init__(
        self,
        language_model: PeftModel,
        graph_encoder: GraphEncoder | None,
        settings: GraphLLMConfig,
        identity: str,
    ) -> None:
        """Join an adapted backbone of the given `backbone_id` and a graph encoder."""
        super().__init__()
        self.language_model = language_model
        self.graph_encoder = graph_encoder
        self.settings = settings
        self.identity = identity
        if self.backbone.dtype != torch.float32:
            leave_casting_to_autocast(language_model)
        use_cpu_training_attention(self.backbone)
        use_cpu_lora(language_model)

    @property
    def backbone(self) -> PreTrainedModel:
        """The language model itself, adapters inside."""
        return cast(PreTrainedModel, self.language_model.get_base_model())

    @property
    def config(self) -> Any:
        """The backbone's configuration, where transformers looks for it."""
        return self.backbone.config

    @property
    def device(self) -> torch.device:
        """Where the backbone lies."""
        return self.backbone.device

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        graph: GraphBatch | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> CausalLMOutput:
        """Token-weighted loss of a batch (RAS §3.4).

        Args:
            input_ids: [B, T] prompts with the graph placeholder and labels, padded on any side.
            attention_mask: [B, T]; None where padding, if any, is on the right: causal attention
                never looks there.
            labels: [B, T] aligned with input_ids, -100 outside the label.
            graph: the batch's graphs; needed where the model has a graph encoder.
            num_items_in_batch: label tokens of the whole optimizer step; None: of this batch.
        """
        if labels is None:
            raise ValueError("GraphLLM.forward needs labels; use generate to predict")
        inputs_embeds = self.embed_inputs(input_ids, attention_mask, graph)
        return causal_loss(
            self.language_model,
            attention_mask,
            labels,
            num_items_in_batch,
            inputs_embeds=inputs_embeds,
        )

    def embed_inputs(
        self, input_ids: Tensor, attention_mask: Tensor | None, graph: GraphBatch | None
    ) -> Tensor:
        """Embeddings [B, T, d], the graph token in its placeholder's position.

        Raises ValueError when the model has a graph encoder and `graph` is None.
        """
        embeds: Tensor = self.backbone.get_input_embeddings()(input_ids)
        if self.graph_encoder is None:
            return embeds
        if graph is None:
            raise ValueError("this model has a graph encoder: pass `graph`, empty graphs included")
        with backbone_autocast(self.backbone):
            tokens = self.graph_encoder(graph.to(input_ids.device))
        samples = torch.arange(input_ids.shape[0], device=input_ids.device)
        positions = torch.full_like(samples, self.settings.graph_position or 0)
        if attention_mask is not None:
            positions = positions + attention_mask.long().argmax(dim=1)
        return embeds.index_put((samples, positions), tokens.to(embeds.dtype))

    @torch.no_grad()
    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        graph: GraphBatch | None = None,
        **options: Any,
    ) -> Any:
        """New tokens alone, [B, new]; prompts pad left. `options` go to transformers' generate."""
        was_training = self.training
        self.eval()
        try:
            with backbone_autocast(self.backbone):
                return self.backbone.generate(  # type: ignore[operator]
                    inputs_embeds=self.embed_inputs(input_ids, attention_mask, graph),
                    attention_mask=attention_mask,
                    **{"logits_to_keep": last_position(self.device), **options},
                )
        finally:
            self.train(was_training)

    def trainable_parameter_table(self) -> list[tuple[str, int, int]]:
        """Rows (part, parameters, of these trainable), the last one the total."""
        adapters = {id(p) for p in self.language_model.parameters() if p.requires_grad}
        parts: dict[str, list[nn.Parameter]] = {"backbone": [], "lora": [], "graph encoder": []}
        for name, parameter in self.language_model.named_parameters():
            is_adapter = id(parameter) in adapters or "lora_" in name
            parts["lora" if is_adapter else "backbone"].append(parameter)
        if self.graph_encoder is not None:
            parts["graph encoder"] = list(self.graph_encoder.parameters())
        rows = [
            (part, sum(p.numel() for p in group), sum(p.numel() for p in group if p.requires_grad))
            for part, group in parts.items()
        ]
        return [*rows, ("total", sum(row[1] for row in rows), sum(row[2] for row in rows))]

    def gradient_checkpointing_enable(
        self, gradient_checkpointing_kwargs: dict[str, Any] | None = None
    ) -> None:
        """Recompute activations in the backward pass."""
        options = gradient_checkpointing_kwargs or {"use_reentrant": False}
        self.backbone.gradient_checkpointing_enable(options)
        if options.get("use_reentrant", True):
            self.backbone.enable_input_require_grads()

    def gradient_checkpointing_disable(self) -> None:
        """Keep activations again."""
        self.backbone.gradient_checkpointing_disable()

    def save_pretrained(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write a component folder: adapters and graph encoder, no frozen weight.

        `dtype` is that of the stored weights (bfloat16 halves what ships); None keeps float32.
        Raises CheckpointWriteError on a full disk; an earlier folder stays as it was.
        """
        config = {"component": COMPONENT, "backbone_id": self.identity, **asdict(self.settings)}

        def write(target: Path) -> None:
            save_adapter(self.language_model, target)
            if self.graph_encoder is not None:
                save_file(_contiguous(self.graph_encoder), target / GRAPH_ENCODER_FILE)
            if dtype is not None:
                copy_weights(target, target, dtype)

        write_component(folder, config, write, trainable_bytes(self))

    @classmethod
    def from_config(
        cls, settings: GraphLLMConfig, backbone: PreTrainedModel | None = None, dtype: str = "auto"
    ) -> "GraphLLM":
        """An untrained GraphLLM, in training mode.

        Args:
            settings: its settings.
            backbone: a loaded backbone in place of the one that `settings` names.
            dtype: "auto", "float32" or "bfloat16" for the backbone when it is loaded here.
        """
        base = backbone or load_backbone(settings.backbone, dtype, settings.backbone_revision)
        identity = backbone_id(base)
        settings = _complete_settings(settings, base)
        encoder = _build_graph_encoder(settings, base)
        adapted = add_lora(
            base,
            settings.lora_rank,
            settings.lora_alpha,
            settings.lora_dropout,
            settings.lora_targets,
            settings.backbone,
        )
        return cls(adapted, encoder, settings, identity).train()

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        backbone: str | PreTrainedModel | None = None,
        dtype: str = "auto",
        is_trainable: bool = False,
    ) -> "GraphLLM":
        """Read a component folder; the model comes in eval mode.

        Args:
            folder: what `save_pretrained` wrote.
            backbone: a loaded model or a name in place of the one that config.json names.
            dtype: of the backbone when it is loaded here.
            is_trainable: leave adapters and graph encoder trainable.

        Raises:
            NotACheckpointError, TruncatedCheckpointError, BackboneMismatchError.
        """
        stored = read_component_config(folder, COMPONENT)
        settings = GraphLLMConfig.from_dict(stored)
        base = backbone
        if base is None or isinstance(base, str):
            base = load_backbone(base or settings.backbone, dtype, settings.backbone_revision)
        check_backbone(stored, backbone_id(base), folder)
        encoder = load_graph_encoder(folder, settings)
        adapted = load_adapter(base, Path(folder), is_trainable)
        if encoder is not None:
            encoder.to(base.device).requires_grad_(is_trainable)
        return cls(adapted, encoder, settings, stored["backbone_id"]).eval()


def load_graph_encoder(folder: str | Path, settings: GraphLLMConfig) -> GraphEncoder | None:
    """The graph encoder of a component folder, in float32 and eval mode; None where it has none."""
    if settings.graph is None:
        return None
    encoder = GraphEncoder(settings.graph)
    encoder.load_state_dict(load_file(Path(folder) / GRAPH_ENCODER_FILE))
    return encoder.eval()


def _complete_settings(settings: GraphLLMConfig, base: PreTrainedModel) -> GraphLLMConfig:
    """Fill in what only the backbone knows: its width, and whether prompts begin with a BOS."""
    if settings.graph is None:
        return settings
    width = _embeddings(base).shape[1]
    position = settings.graph_position
    if position is None:
        tokenizer = load_tokenizer(settings.backbone, settings.backbone_revision)
        position = int(tokenizer.bos_token_id is not None)
    graph = replace(settings.graph, output_dim=width)
    return replace(settings, graph=graph, graph_position=position)


def _build_graph_encoder(settings: GraphLLMConfig, base: PreTrainedModel) -> GraphEncoder | None:
    if settings.graph is None:
        return None
    embeddings = _embeddings(base)
    # On the meta device there are shapes alone.
    token_norm = 1.0 if embeddings.is_meta else float(embeddings.float().norm(dim=1).mean())
    return GraphEncoder(settings.graph, token_norm).to(embeddings.device)


def _embeddings(base: PreTrainedModel) -> Tensor:
    return cast(Tensor, base.get_input_embeddings().weight).detach()


def _contiguous(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in module.state_dict().items()}
