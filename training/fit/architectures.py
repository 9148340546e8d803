"""A backbone's modules without its weights, from what its architecture says alone."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    PretrainedConfig,
    PreTrainedModel,
)

from models.backbone import DTYPES, resolve_backbone
from training.config import ConfigError

TIED = "tie_word_embeddings"
ARCHITECTURES = Path(__file__).resolve().parents[2] / "configs" / "architectures"


def backbone_config(name: str, revision: str | None = None) -> PretrainedConfig:
    """A backbone's configuration: shipped for the recipes' own, else from its folder or the hub.

    Raises:
        ConfigError: neither is there.
    """
    settings = _settings(name, revision)
    return AutoConfig.for_model(settings.pop("model_type"), **settings)


def backbone_on_meta(name: str, dtype: str, revision: str | None = None) -> PreTrainedModel:
    """The backbone on the meta device: every shape, no weight; attention as on a GPU (sdpa).

    Raises:
        ConfigError: its configuration is not there.
    """
    config = backbone_config(name, revision)
    factory = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with torch.device("meta"):
        model: PreTrainedModel = factory.from_config(config, dtype=DTYPES[dtype])
    head: Any
    embeddings: Any
    head, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    # T5's class ties them until it sees weights that are not.
    if head.weight is embeddings.weight and not _settings(name, revision).get(TIED, True):
        head.weight = nn.Parameter(torch.empty_like(head.weight))
    model.config._name_or_path = name
    return model


def _settings(name: str, revision: str | None) -> dict[str, Any]:
    known = _shipped().get(name)
    if known is not None:
        return dict(known)
    try:
        source = resolve_backbone(name)
        return dict(PretrainedConfig.get_config_dict(source, revision=revision)[0])
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"model.backbone={name}: no config.json of it here, and none from the hub. Give a "
            f"folder that holds its config.json, or one of {', '.join(sorted(_shipped()))}"
        ) from error


def _shipped() -> dict[str, dict[str, Any]]:
    """Architectures of the recipes' backbones, by each name that goes for them."""
    files = [json.loads(path.read_text("utf-8")) for path in sorted(ARCHITECTURES.glob("*.json"))]
    return {name: file["config"] for file in files for name in file["backbones"]}
