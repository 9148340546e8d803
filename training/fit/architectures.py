"""A backbone's modules without its weights, from what its architecture says alone."""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    PretrainedConfig,
    PreTrainedModel,
)

from models.backbone import DTYPES, resolve_backbone
from training.config import ConfigError

ARCHITECTURES = Path(__file__).resolve().parents[2] / "configs" / "architectures"


def backbone_config(name: str, revision: str | None = None) -> PretrainedConfig:
    """A backbone's configuration: shipped for the recipes' own, else from its folder or the hub.

    Raises:
        ConfigError: neither is there.
    """
    known = _shipped().get(name)
    if known is not None:
        settings = dict(known)
        return AutoConfig.for_model(settings.pop("model_type"), **settings)
    try:
        return AutoConfig.from_pretrained(resolve_backbone(name), revision=revision)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"model.backbone={name}: no config.json of it here, and none from the hub. Give a "
            f"folder that holds its config.json, or one of {', '.join(sorted(_shipped()))}"
        ) from error


def backbone_on_meta(name: str, dtype: str, revision: str | None = None) -> PreTrainedModel:
    """The backbone on the meta device: every shape, no weight; attention as on a GPU (sdpa).

    Raises:
        ConfigError: its configuration is not there.
    """
    config = backbone_config(name, revision)
    factory = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with torch.device("meta"):
        model: PreTrainedModel = factory.from_config(config, dtype=DTYPES[dtype])
    model.config._name_or_path = name
    return model


def _shipped() -> dict[str, dict[str, Any]]:
    """Architectures of the recipes' backbones, by each name that goes for them."""
    files = [json.loads(path.read_text("utf-8")) for path in sorted(ARCHITECTURES.glob("*.json"))]
    return {name: file["config"] for file in files for name in file["backbones"]}
