"""An extractive reader: an encoder that points at what a passage answers, or at nothing.

Beside the reader that writes (`models/helper.py`, task `read`): an encoder of 22 million weights
reads question and passage at once in one pass, both ways, and its score tells passages from each
other (Devlin et al. 2019, §4.3; the null answer as in Rajpurkar et al. 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, cast

import torch
import transformers
from torch import FloatTensor, Tensor

from models.component import ComponentConfig, ComponentModel
from models.files.backbone import (
    DTYPES,
    leave_out_cudnn_attention,
    quiet_progress,
    quiet_report,
    resolve_backbone,
    resolve_dtype,
)
from models.kernels.cpu_attention import use_cpu_encoder_attention
from models.kernels.cpu_linear import pack_linears
from models.parts.adapters import ALL_LINEAR
from models.processors.spans import SpanProcessor

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from transformers.modeling_outputs import QuestionAnsweringModelOutput

COMPONENT = "span_reader"
ANSWER_LAYER = "qa_outputs"
LOWEST = -1e4
# Tokens that are read at once.
BATCH_TOKENS = {"cpu": 1024, "gpu": 16_384}
DROPOUT_RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob")


@dataclass(frozen=True)
class SpanReaderConfig(ComponentConfig):
    """Settings of an extractive reader: `ComponentConfig`'s and these.

    Attributes:
        max_input_tokens: of question and passage together; a longer passage is read in windows.
        max_output_tokens: of an answer.
        least_margin: how far an answer's score must lie above that of none to be given.
    """

    component: ClassVar[str] = COMPONENT

    max_output_tokens: int = 30
    least_margin: float = field(default=0.0, kw_only=True)

    def processor(self, tokenizer: PreTrainedTokenizerBase) -> SpanProcessor:
        """Return what turns questions and passages into this reader's ids."""
        return SpanProcessor(tokenizer, self.max_input_tokens)


class Span(NamedTuple):
    """A passage's best answer: its text, and by how much its score exceeds that of no answer."""

    text: str
    margin: float


class SpanReader(ComponentModel[SpanReaderConfig]):
    """An encoder with two scores a token: that an answer begins there, and that it ends there.

    The first token, [CLS], stands for no answer.
    """

    config_type = SpanReaderConfig

    @classmethod
    def load_backbone(cls, config: SpanReaderConfig, dtype: str) -> PreTrainedModel:
        """Return the encoder with a new answer layer."""
        source = resolve_backbone(config.backbone)
        revision = config.backbone_revision
        described = transformers.AutoConfig.from_pretrained(source, revision=revision)
        # Drawing random numbers takes a fifth of a step, and adapters overfit little.
        for rate in DROPOUT_RATES:
            if hasattr(described, rate):
                setattr(described, rate, 0.0)
        # The answer layer is new here, and then trained or loaded.
        with quiet_progress(), quiet_report():
            factory = transformers.AutoModelForQuestionAnswering
            backbone = factory.from_pretrained(
                source,
                config=described,
                revision=revision,
                dtype=DTYPES.get(resolve_dtype(dtype), "auto"),
            )
        use_cpu_encoder_attention(backbone)
        leave_out_cudnn_attention()
        # As `backbone_id` names it, wherever its folder lies.
        backbone.config._name_or_path = config.backbone
        return backbone

    @classmethod
    def add_adapter(cls, backbone: PreTrainedModel, config: SpanReaderConfig) -> PeftModel:
        """Return the encoder frozen, with adapters and an answer layer that train."""
        from peft import LoraConfig, PeftModel

        linear = r".*encoder.*\.(query|key|value|dense)"
        targets = linear if config.lora_targets == ALL_LINEAR else config.lora_targets
        adapter = LoraConfig(
            r=config.lora_rank,
            lora_alpha=config.lora_alpha,  # type: ignore[arg-type]
            lora_dropout=config.lora_dropout,
            target_modules=targets,
            modules_to_save=[ANSWER_LAYER],
        )
        adapted = PeftModel(backbone, adapter)
        adapted.peft_config["default"].base_model_name_or_path = config.backbone
        return adapted

    def forward(  # type: ignore[override]
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        attention_mask: Tensor,
        spans: Tensor,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> QuestionAnsweringModelOutput:
        """Compute the loss of a batch: no position that states the answer is preferred to another.

        Args:
            input_ids, token_type_ids, attention_mask: [B, T].
            spans: [B, S, 2] first and last tokens of the answers, (0, 0) for none, -1 as filling.
            labels: [B]; -100 for a sample that fills up a batch.
            num_items_in_batch: samples of the whole optimizer step.

        Returns:
            `loss`, and start_logits and end_logits [B, T] in float32.
        """
        start, end = self.scores(input_ids, token_type_ids, attention_mask)
        counts = torch.ones(len(spans)) if labels is None else (labels >= 0).float()
        counts = counts.to(start)
        losses = (_missed(start, spans[..., 0]) + _missed(end, spans[..., 1])) / 2
        number = counts.sum().clamp(min=1) if num_items_in_batch is None else num_items_in_batch
        loss = (losses * counts).sum() / number
        return transformers.modeling_outputs.QuestionAnsweringModelOutput(
            loss=cast(FloatTensor, loss),
            start_logits=cast(FloatTensor, start),
            end_logits=cast(FloatTensor, end),
        )

    def scores(
        self, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the scores [B, T] that an answer starts, and ends, at each token.

        Those of the question and of padding are very low; the first token's stands for no answer.
        """
        device_type = self.backbone.device.type
        dtype = self.backbone.dtype
        with torch.autocast(device_type, dtype, enabled=dtype != torch.float32):
            output = self.model(
                input_ids=input_ids, token_type_ids=token_type_ids, attention_mask=attention_mask
            )
        may_answer = (token_type_ids == 1) & (attention_mask == 1)
        # Its last token is the separator.
        may_answer &= may_answer.roll(-1, dims=1)
        may_answer[:, 0] = True
        return tuple(
            logits.float().masked_fill(~may_answer, LOWEST)
            for logits in (output.start_logits, output.end_logits)
        )  # type: ignore[return-value]

    @torch.inference_mode()
    def best_spans(
        self, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the best span [B, 2] of each row, last token included, and its margin [B]."""
        start, end = self.scores(input_ids, token_type_ids, attention_mask)
        width = start.shape[1]
        none = start[:, 0] + end[:, 0]
        both = start[:, 1:, None] + end[:, None, 1:]
        allowed = torch.ones(width - 1, width - 1, dtype=torch.bool, device=start.device)
        allowed = allowed.triu() & ~allowed.triu(self.settings.max_output_tokens)
        best, place = both.masked_fill(~allowed, 2 * LOWEST).flatten(1).max(dim=1)
        spans = torch.stack((place // (width - 1), place % (width - 1)), dim=1) + 1
        return spans, best - none

    def merged(self) -> Self:
        """Return this reader, for reading alone: its update added to the encoder's weights."""
        from peft import PeftModel

        if isinstance(self.model, PeftModel):
            self.model = self.model.merge_and_unload()
        self.eval().requires_grad_(False)
        pack_linears(self.model)
        return self

    def read(
        self,
        processor: SpanProcessor,
        pairs: Sequence[tuple[str, str]],
        batch_tokens: int | None = None,
    ) -> list[Span]:
        """Return the best answer of each passage to its question, whatever its margin.

        Args:
            pairs: questions and passages.
            batch_tokens: tokens at once, padding included, in windows of like length; by default
                what the caches of a CPU hold, or what keeps a GPU busy.
        """
        device = self.backbone.device
        budget = batch_tokens or BATCH_TOKENS["cpu" if device.type == "cpu" else "gpu"]
        windows = processor.windows(pairs)
        best = [Span("", float("-inf"))] * len(pairs)
        for batch in batches_of_like_length([len(w.input_ids) for w in windows], budget):
            chosen = [windows[number] for number in batch]
            inputs = {k: v.to(device) for k, v in processor.batch(chosen).items()}
            spans, margins = self.best_spans(**inputs)
            for window, (start, end), margin in zip(
                chosen, spans.tolist(), margins.tolist(), strict=True
            ):
                if margin > best[window.pair].margin:
                    passage = pairs[window.pair][1]
                    best[window.pair] = Span(window.text(passage, start, end), margin)
        return best


def batches_of_like_length(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Return the places of all lengths in batches, longest first.

    A batch has at most `most` tokens, each row padded to its longest, and one row at least.
    """
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    batches, first = [], 0
    while first < len(order):
        rows = max(1, most // max(1, lengths[order[first]]))
        batches.append(order[first : first + rows])
        first += rows
    return batches


def _missed(scores: Tensor, positions: Tensor) -> Tensor:
    """Return minus the log-probability [B] of all given positions [B, S] together."""
    wanted = torch.zeros_like(scores, dtype=torch.bool)
    wanted.scatter_(1, positions.clamp(min=0), positions >= 0)
    # A filling position may have put False where the first token is wanted.
    wanted[:, 0] = (positions == 0).any(dim=1)
    told = scores.masked_fill(~wanted, 2 * LOWEST)
    return scores.logsumexp(dim=1) - told.logsumexp(dim=1)
