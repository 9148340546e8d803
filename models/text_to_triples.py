"""The text-to-triples model: a language model that writes a passage's facts as triples.

Any causal or encoder-decoder backbone, fully fine-tuned or with LoRA adapters
(RAS §3.2 eq. 4, App. D.1).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, cast

import torch
import transformers
from torch import FloatTensor, Tensor
from torch.nn import functional

from models.component import ComponentConfig, ComponentModel
from models.files.backbone import backbone_id, load_backbone, load_tokenizer
from models.files.checkpoint import check_backbone, read_component_config
from models.parts.loss import IGNORE_INDEX
from models.parts.objective import Outcomes
from models.processors.passages import TextToTriplesProcessor

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from transformers.modeling_outputs import CausalLMOutput

logger = logging.getLogger(__name__)

COMPONENT = "t2t"
# A fully fine-tuned model has a config.json of its own, so it lies one folder down.
MODEL_FOLDER = "model"


@dataclass(frozen=True)
class TextToTriplesConfig(ComponentConfig):
    """Settings of a text-to-triples model: `ComponentConfig`'s and these.

    `lora_rank` 0 fine-tunes every weight; the limits default to the paper's (RAS App. D.1).

    Attributes:
        is_encoder_decoder: the backbone reads with an encoder; looked up when the model is built.
    """

    component: ClassVar[str] = COMPONENT

    is_encoder_decoder: bool = False

    def processor(self, tokenizer: PreTrainedTokenizerBase) -> TextToTriplesProcessor:
        """Return what turns passages into this model's inputs."""
        return TextToTriplesProcessor(
            tokenizer, self.max_input_tokens, self.max_output_tokens, self.is_encoder_decoder
        )

    def fitted_to(self, backbone: PreTrainedModel) -> Self:
        """Return these settings with the backbone's form."""
        if not self.has_adapter and backbone.dtype == torch.bfloat16:
            logger.warning("All weights train in bfloat16: small updates are lost to rounding.")
        return replace(self, is_encoder_decoder=bool(backbone.config.is_encoder_decoder))


class TextToTriples(ComponentModel[TextToTriplesConfig]):
    """A backbone that is trained to write triples."""

    config_type = TextToTriplesConfig

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        labels: Tensor,
        num_items_in_batch: Tensor | int | None = None,
        outcomes: Outcomes | None = None,
    ) -> CausalLMOutput:
        """Compute the token-weighted loss of a batch.

        Args:
            input_ids, attention_mask: [B, T]; for an encoder-decoder model, the source's.
            labels: causal: [B, T] aligned with input_ids, -100 outside the label;
                encoder-decoder: [B, target length], -100 on padding.
            num_items_in_batch: label tokens of the whole optimizer step.
            outcomes: of labels that were drawn, causal alone; see `ComponentModel.forward`.

        Returns:
            `loss`; `logits` of the label positions alone [L, vocabulary] for a causal model (none
            while training), [B, target length, vocabulary] for an encoder-decoder one.
        """
        if not self.settings.is_encoder_decoder:
            return super().forward(input_ids, attention_mask, labels, num_items_in_batch, outcomes)
        if outcomes is not None:
            raise ValueError("an encoder-decoder model learns by imitation alone")
        output = self.model(input_ids=input_ids, attention_mask=attention_mask, labels=labels)
        if num_items_in_batch is None:
            return transformers.modeling_outputs.CausalLMOutput(
                loss=output.loss, logits=output.logits
            )
        # These models average over the batch's own labels, whatever the step holds, and have no
        # mean for a batch without any.
        total = functional.cross_entropy(
            output.logits.flatten(0, 1).float(),
            labels.flatten(),
            ignore_index=IGNORE_INDEX,
            reduction="sum",
        )
        loss = cast(FloatTensor, total / num_items_in_batch)
        return transformers.modeling_outputs.CausalLMOutput(loss=loss, logits=output.logits)

    def write_weights(self, folder: Path) -> None:
        """Write the adapter, or the whole model where all of it trained."""
        super().write_weights(folder)
        if not self.settings.has_adapter:
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
    ) -> Self:
        """Read a component folder; one that trained whole has its backbone in it."""
        stored = read_component_config(folder, COMPONENT)
        config = TextToTriplesConfig.from_dict(stored, folder)
        if not config.has_adapter:
            if backbone is not None:
                check_backbone(stored, backbone_id(backbone, config.backbone_revision), folder)
            backbone = load_backbone(str(Path(folder) / MODEL_FOLDER), dtype)
            backbone.config._name_or_path = config.backbone
        return super().from_pretrained(folder, backbone, dtype, is_trainable)
