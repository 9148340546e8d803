"""The text-to-triples model: a language model that writes a passage's facts as triples.

Any causal or encoder-decoder backbone, fully fine-tuned or with LoRA adapters
(RAS §3.2 eq. 4, App. D.1).
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from torch import FloatTensor, Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import CausalLMOutput

from models.component import TunedModel
from models.files.backbone import backbone_id, load_backbone, load_tokenizer
from models.files.checkpoint import check_backbone, read_component_config, write_component
from models.parts.adapters import ALL_LINEAR, add_lora, load_adapter, save_adapter, trainable_bytes
from models.parts.loss import IGNORE_INDEX
from models.processors.passages import TextToTriplesProcessor

logger = logging.getLogger(__name__)

COMPONENT = "t2t"
# A fully fine-tuned model has a config.json of its own, so it lies one folder down.
MODEL_FOLDER = "model"


@dataclass(frozen=True)
class TextToTriplesConfig:
    """Settings of a text-to-triples model.

    Attributes:
        backbone: `smollm2`, a Hugging Face id or a folder.
        backbone_revision: commit or tag of a Hugging Face id.
        lora_rank: of the adapters; 0 fine-tunes every weight.
        lora_alpha, lora_dropout: of LoRA.
        lora_targets: module names, or "all-linear".
        max_source_tokens: limit of the prompt, passage included (RAS App. D.1: 512).
        max_target_tokens: limit of the triples (RAS App. D.1: 256).
    """

    backbone: str
    backbone_revision: str | None = None
    lora_rank: int = 16
    lora_alpha: float = 32.0
    lora_dropout: float = 0.05
    lora_targets: list[str] | str = field(default=ALL_LINEAR)
    max_source_tokens: int = 512
    max_target_tokens: int = 256

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TextToTriplesConfig":
        """Pick this dataclass's fields out of a component's config.json."""
        names = {item.name for item in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in names})

    def processor(
        self, tokenizer: PreTrainedTokenizerBase, is_encoder_decoder: bool
    ) -> TextToTriplesProcessor:
        """Return the processor that makes this model's inputs; the form is the backbone's."""
        return TextToTriplesProcessor(
            tokenizer, self.max_source_tokens, self.max_target_tokens, is_encoder_decoder
        )


class TextToTriples(TunedModel):
    """A backbone that is trained to write triples; use `build_text_to_triples` to make one."""

    def __init__(self, model: nn.Module, config: TextToTriplesConfig, identity: str) -> None:
        """Wrap a backbone (PEFT-wrapped where lora_rank > 0) of the given `backbone_id`."""
        super().__init__(model, identity, has_adapter=config.lora_rank > 0)
        self.settings = config

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        labels: Tensor,
        num_items_in_batch: Tensor | int | None = None,
    ) -> CausalLMOutput:
        """Compute the token-weighted loss of a batch.

        Args:
            input_ids, attention_mask: [B, T]; for an encoder-decoder model, the source's.
            labels: causal: [B, T] aligned with input_ids, -100 outside the label;
                encoder-decoder: [B, target length], -100 on padding.
            num_items_in_batch: label tokens of the whole optimizer step.

        Returns:
            `loss`; `logits` of the label positions alone [L, vocabulary] for a causal model (none
            while training), [B, target length, vocabulary] for an encoder-decoder one.
        """
        if not self.is_encoder_decoder:
            return super().forward(input_ids, attention_mask, labels, num_items_in_batch)
        output = self.model(input_ids=input_ids, attention_mask=attention_mask, labels=labels)
        if num_items_in_batch is None:
            return CausalLMOutput(loss=output.loss, logits=output.logits)
        # These models average over the batch's own labels, whatever the step holds, and have no
        # mean for a batch without any.
        total = functional.cross_entropy(
            output.logits.flatten(0, 1).float(),
            labels.flatten(),
            ignore_index=IGNORE_INDEX,
            reduction="sum",
        )
        loss = cast(FloatTensor, total / num_items_in_batch)
        return CausalLMOutput(loss=loss, logits=output.logits)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a component folder: adapters alone, or the whole model where all of it trained.

        Raises:
            CheckpointWriteError: on a full disk; an earlier folder stays as it was.
        """
        config = {
            "component": COMPONENT,
            "backbone_id": self.identity,
            "is_encoder_decoder": self.is_encoder_decoder,
            **asdict(self.settings),
        }
        write_component(folder, config, self._write_weights, trainable_bytes(self.model))

    def _write_weights(self, folder: Path) -> None:
        if self.settings.lora_rank > 0:
            save_adapter(self.model, folder)  # type: ignore[arg-type]
            return
        self.backbone.save_pretrained(folder / MODEL_FOLDER)
        tokenizer = load_tokenizer(self.settings.backbone, self.settings.backbone_revision)
        tokenizer.save_pretrained(folder / MODEL_FOLDER)

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        backbone: str | PreTrainedModel | None = None,
        dtype: str = "auto",
        is_trainable: bool = False,
    ) -> "TextToTriples":
        """Read a component folder; the model comes in eval mode.

        Args:
            folder: what `save_pretrained` wrote.
            backbone: a loaded model or a name in place of the one that config.json names.
            dtype: of the backbone when it is loaded here.
            is_trainable: leave the adapters trainable.

        Raises:
            NotACheckpointError, TruncatedCheckpointError, BackboneMismatchError.
        """
        stored = read_component_config(folder, COMPONENT)
        config = TextToTriplesConfig.from_dict(stored)
        if backbone is not None:
            check_backbone(stored, backbone_id(backbone), folder)
        if config.lora_rank == 0:
            whole = load_backbone(str(Path(folder) / MODEL_FOLDER), dtype)
            whole.config._name_or_path = config.backbone
            model: nn.Module = whole
        else:
            base = backbone
            if base is None or isinstance(base, str):
                base = load_backbone(base or config.backbone, dtype, config.backbone_revision)
                check_backbone(stored, backbone_id(base), folder)
            model = load_adapter(base, Path(folder), is_trainable)
        return cls(model, config, stored["backbone_id"]).eval()


def build_text_to_triples(
    config: TextToTriplesConfig, dtype: str = "auto", model: PreTrainedModel | None = None
) -> TextToTriples:
    """Make an untrained text-to-triples model on a backbone.

    Args:
        config: its settings.
        dtype: "auto", "float32" or "bfloat16" for the backbone; adapters are float32 always.
        model: a loaded backbone in place of the one that `config` names.
    """
    base = model or load_backbone(config.backbone, dtype, config.backbone_revision)
    identity = backbone_id(base)
    if config.lora_rank == 0:
        if dtype == "bfloat16":
            logger.warning("All weights train in bfloat16: small updates are lost to rounding.")
        return TextToTriples(base, config, identity)
    adapted = add_lora(
        base,
        config.lora_rank,
        config.lora_alpha,
        config.lora_dropout,
        config.lora_targets,
        config.backbone,
    )
    return TextToTriples(adapted, config, identity)
