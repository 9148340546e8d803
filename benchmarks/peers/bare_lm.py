"""The backbone alone: transformers and PEFT on the same token ids, without a graph."""

from collections.abc import Sequence

from benchmarks.harness.settings import Forward, StepSettings
from benchmarks.harness.workload import Workload, model_config
from models.files.backbone import load_backbone
from models.parts.adapters import add_lora
from training.recipe.samples import Collator


class BareLanguageModelStep:
    """`AutoModelForCausalLM` with LoRA, called with ids, mask and labels."""

    def __init__(self, workload: Workload, settings: StepSettings, dtype: str) -> None:
        config = model_config(settings, workload.features.shape[1])
        self.module = add_lora(
            load_backbone(settings.backbone, dtype),
            config.lora_rank,
            config.lora_alpha,
            config.lora_dropout,
            config.lora_targets,
            settings.backbone,
        ).train()
        self.workload = workload
        self.collate = Collator(int(workload.tokenizer.pad_token_id))

    def forward(self, batch: Sequence[int]) -> Forward:
        """Return the loss as transformers computes it, over the logits of every position."""
        inputs = self.collate([self.workload.samples[index] for index in batch])
        del inputs["sample_ids"]
        return Forward(self.module(**inputs).loss, inputs["input_ids"].numel())
