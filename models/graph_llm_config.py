"""Settings of a GraphLLM, as a recipe and a component folder's config.json give them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from transformers import PreTrainedTokenizerBase

from models.graph_encoder import GraphEncoderConfig
from models.ras_processor import RasProcessor


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
