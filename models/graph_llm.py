"""GraphLLM: a language model with LoRA that reads a graph as one token (RAS §3.4, App. D.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from models.component import ComponentConfig, ComponentModel, check_keys
from models.files.backbone import load_tokenizer
from models.files.checkpoint import CONFIG_FILE
from models.parts.adapters import backbone_autocast, causal_loss
from models.parts.graph import GraphBatch
from models.parts.graph_encoder import GraphEncoder, GraphEncoderConfig
from models.parts.objective import Outcomes
from models.processors.ras import RasProcessor

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from transformers.modeling_outputs import CausalLMOutput

COMPONENT = "ras"
GRAPH_ENCODER_FILE = "graph_encoder.safetensors"


@dataclass(frozen=True)
class GraphLLMConfig(ComponentConfig):
    """Settings of a GraphLLM, the paper's by default (RAS Table 8); `ComponentConfig`'s and these.

    Attributes:
        graph: sizes of the graph encoder; None leaves it and the graph token out.
        encoder: name of the sentence encoder that gives the graph's features.
        compare_dates: whether derived comparisons join the triples.
        instructions: whether prompts begin with the paper's instructions, or name the task alone.
        graph_position: where the graph token stands in a prompt, 1 after a BOS; None: looked up
            in the backbone's tokenizer when the model is built.
    """

    component: ClassVar[str] = COMPONENT

    lora_rank: int = 8
    lora_alpha: float = 16.0
    lora_targets: list[str] | str = field(default_factory=lambda: ["q_proj", "v_proj"])
    max_input_tokens: int = 2500
    max_output_tokens: int = 300
    graph: GraphEncoderConfig | None = field(default_factory=GraphEncoderConfig)
    encoder: str = "minilm"
    compare_dates: bool = True
    instructions: bool = True
    graph_position: int | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], folder: str | Path) -> Self:
        """Return the settings among the entries of a folder's config.json.

        Raises:
            NotACheckpointError: an unknown key.
        """
        sizes = values.get("graph")
        if sizes is None:
            return super().from_dict(values, folder)
        check_keys(sizes, GraphEncoderConfig, Path(folder) / CONFIG_FILE)
        return super().from_dict({**values, "graph": GraphEncoderConfig(**sizes)}, folder)

    def processor(self, tokenizer: PreTrainedTokenizerBase) -> RasProcessor:
        """Return what turns histories into this model's inputs."""
        return RasProcessor(
            tokenizer,
            max_input_tokens=self.max_input_tokens,
            max_output_tokens=self.max_output_tokens,
            graph_token=self.graph is not None,
            compare_dates=self.compare_dates,
            instructions=self.instructions,
        )

    def fitted_to(self, backbone: PreTrainedModel) -> Self:
        """Return these settings with the backbone's width, and whether prompts begin with a BOS."""
        if self.graph is None:
            return self
        position = self.graph_position
        if position is None:
            tokenizer = load_tokenizer(self.backbone, self.backbone_revision)
            position = int(tokenizer.bos_token_id is not None)
        graph = replace(self.graph, output_dim=_embeddings(backbone).shape[1])
        return replace(self, graph=graph, graph_position=position)


class GraphLLM(ComponentModel[GraphLLMConfig]):
    """Causal language model with adapters and a graph token after BOS."""

    config_type = GraphLLMConfig

    def __init__(
        self,
        model: nn.Module,
        config: GraphLLMConfig,
        identity: str,
        part: GraphEncoder | None = None,
    ) -> None:
        """Join an adapted backbone and a graph encoder."""
        super().__init__(model, config, identity)
        self.graph_encoder = part

    @classmethod
    def learned_part(
        cls, config: GraphLLMConfig, backbone: PreTrainedModel, folder: Path | None = None
    ) -> GraphEncoder | None:
        """Return the graph encoder, new or as a folder holds it; None without a graph."""
        if config.graph is None:
            return None
        if folder:
            encoder = load_graph_encoder(folder, config)
            return encoder and encoder.to(backbone.device)
        embeddings = _embeddings(backbone)
        # On the meta device there are shapes alone.
        token_norm = 1.0 if embeddings.is_meta else float(embeddings.float().norm(dim=1).mean())
        return GraphEncoder(config.graph, token_norm).to(embeddings.device)

    def forward(  # type: ignore[override]
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        graph: GraphBatch | None = None,
        num_items_in_batch: Tensor | int | None = None,
        outcomes: Outcomes | None = None,
    ) -> CausalLMOutput:
        """Token-weighted loss of a batch (RAS §3.4).

        Args:
            input_ids: [B, T] prompts with the graph placeholder and labels, padded on any side.
            attention_mask: [B, T]; None where padding, if any, is on the right: causal attention
                never looks there.
            labels: [B, T] aligned with input_ids, -100 outside the label.
            graph: the batch's graphs; needed where the model has a graph encoder.
            num_items_in_batch: label tokens of the whole optimizer step; None: of this batch.
            outcomes: of labels that were drawn; the loss is then that of `outcome_loss`.
        """
        if labels is None:
            raise ValueError("GraphLLM.forward needs labels; use generate to predict")
        embeds = self.embed_inputs(input_ids, attention_mask, graph)
        return causal_loss(
            self.model, attention_mask, labels, num_items_in_batch, outcomes, self.outcome_loss,
            inputs_embeds=embeds,
        )  # fmt: skip

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
    ) -> Tensor:
        """New tokens alone, [B, new]; prompts pad left. `options` go to transformers' generate."""
        was_training = self.training
        self.eval()
        try:
            inputs_embeds = self.embed_inputs(input_ids, attention_mask, graph)
            return self._generated(attention_mask, inputs_embeds=inputs_embeds, **options)
        finally:
            self.train(was_training)

    def write_weights(self, folder: Path) -> None:
        """Write the adapter and the graph encoder."""
        super().write_weights(folder)
        if self.graph_encoder is not None:
            weights = self.graph_encoder.state_dict().items()
            tensors = {name: tensor.detach().contiguous() for name, tensor in weights}
            save_file(tensors, folder / GRAPH_ENCODER_FILE)


def load_graph_encoder(folder: str | Path, settings: GraphLLMConfig) -> GraphEncoder | None:
    """The graph encoder of a component folder, in float32 and eval mode; None where it has none."""
    if settings.graph is None:
        return None
    encoder = GraphEncoder(settings.graph)
    encoder.load_state_dict(load_file(Path(folder) / GRAPH_ENCODER_FILE))
    return encoder.eval()


def _embeddings(base: PreTrainedModel) -> Tensor:
    return cast(Tensor, base.get_input_embeddings().weight).detach()
