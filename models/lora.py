"""Low-rank adapters on a backbone, written so that plain PEFT reads them."""

import shutil
from pathlib import Path

from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from torch import nn
from transformers import PreTrainedModel

ALL_LINEAR = "all-linear"
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"


def add_lora(
    model: PreTrainedModel,
    rank: int,
    alpha: float,
    dropout: float,
    targets: list[str] | str,
    backbone: str,
) -> PeftModel:
    """Freeze a backbone and add trainable adapters, kept in float32 whatever its own dtype.

    Args:
        model: the backbone; its layers are replaced in place.
        rank, alpha, dropout: of LoRA.
        targets: module names, or "all-linear" (every linear layer but the LM head).
        backbone: the name that the adapter's configuration gives its base model.
    """
    seq2seq = model.config.is_encoder_decoder
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,  # type: ignore[arg-type]
        lora_dropout=dropout,
        target_modules=targets,
        task_type=TaskType.SEQ_2_SEQ_LM if seq2seq else TaskType.CAUSAL_LM,
    )
    was_training = model.training
    adapted = get_peft_model(model, config, autocast_adapter_dtype=True)
    adapted.peft_config["default"].base_model_name_or_path = backbone
    # PEFT leaves the new dropout in training mode on a model in eval mode.
    adapted.train(was_training)
    return adapted


def save_adapter(model: PeftModel, folder: Path) -> None:
    """Write adapter_config.json and adapter_model.safetensors into a folder; no frozen weight."""
    backbone = model.peft_config["default"].base_model_name_or_path
    model.save_pretrained(str(folder), save_embedding_layers=False)
    model.peft_config["default"].base_model_name_or_path = backbone
    # PEFT's model card names local paths and says nothing that config.json does not.
    (folder / "README.md").unlink(missing_ok=True)


def copy_adapter_config(source: Path, target: Path) -> None:
    """Copy adapter_config.json; a layer-wise soft prompt is no PEFT adapter and has none."""
    if (source / ADAPTER_CONFIG).is_file():
        shutil.copyfile(source / ADAPTER_CONFIG, target / ADAPTER_CONFIG)


def load_adapter(model: PreTrainedModel, folder: Path, is_trainable: bool = False) -> PeftModel:
    """Put a saved adapter on its backbone."""
    return PeftModel.from_pretrained(
        model, str(folder), is_trainable=is_trainable, autocast_adapter_dtype=True
    )


def trainable_bytes(model: nn.Module) -> int:
    """Count the bytes of the parameters that train, which is about what a checkpoint takes."""
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
