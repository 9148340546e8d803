"""A recipe without weights: its parameters, and what one of its micro-batches takes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import nn

from models.files.backbone import DTYPES, resolve_backbone
from models.parts.graph import GraphBatch
from models.parts.graph_encoder import GraphEncoder
from training.fit.memory import Parameters, count_parameters
from training.recipe.recipe import Recipe, SettingsT
from training.recipe.samples import SampleSet, SourceT
from training.recipe.settings import ConfigError, T2TSettings

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

    from training.fit.dry_run import DryRun

TIED = "tie_word_embeddings"
ARCHITECTURES = Path(__file__).resolve().parents[2] / "configs" / "architectures"
# Tokens of a history that one triple takes, about: two nodes, and an edge in both directions.
TOKENS_A_TRIPLE = 25


def backbone_config(name: str, revision: str | None = None) -> PretrainedConfig:
    """A backbone's configuration: shipped for the recipes' own, else from its folder or the hub.

    Raises:
        ConfigError: neither is there.
    """
    settings = _settings(name, revision)
    return transformers.AutoConfig.for_model(settings.pop("model_type"), **settings)


def backbone_on_meta(name: str, dtype: str, revision: str | None = None) -> PreTrainedModel:
    """The backbone on the meta device: every shape, no weight; attention as on a GPU (sdpa).

    dtype: of the weights; "native" is bfloat16, as on a GPU.

    Raises:
        ConfigError: its configuration is not there.
    """
    config = backbone_config(name, revision)
    auto = transformers
    factory = auto.AutoModelForSeq2SeqLM if config.is_encoder_decoder else auto.AutoModelForCausalLM
    with torch.device("meta"):
        model: PreTrainedModel = factory.from_config(
            config, dtype=DTYPES.get(dtype, torch.bfloat16)
        )
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
        return dict(transformers.PretrainedConfig.get_config_dict(source, revision=revision)[0])
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"model.backbone={name}: no config.json of it here, and none from the hub. Give a "
            f"folder that holds its config.json, or one of {', '.join(sorted(_shipped()))}"
        ) from error


def _shipped() -> dict[str, dict[str, Any]]:
    """Architectures of the recipes' backbones, by each name that goes for them."""
    files = [json.loads(path.read_text("utf-8")) for path in sorted(ARCHITECTURES.glob("*.json"))]
    return {name: file["config"] for file in files for name in file["backbones"]}


@dataclass(frozen=True)
class Lengths:
    """Tokens of samples: the longest prompt and label, and of a whole sample in the mean.

    Attributes:
        samples: how many there are; None where that is not known.
        source: where the figures come from, in words.
    """

    prompt: int
    label: int
    mean: float
    samples: int | None
    source: str


@dataclass(frozen=True)
class Sketch:
    """What an estimate is made from, whatever the launch."""

    settings: T2TSettings
    parameters: Parameters
    base_bytes: int
    lengths: Lengths
    run: DryRun


def sketch(settings: SettingsT, recipe: Recipe[SettingsT, SourceT], lengths: Lengths) -> Sketch:
    """Build the recipe's module without weights and run one micro-batch of the longest samples.

    Raises:
        ConfigError: no configuration of its backbone is here.
    """
    # It brings what traces tensors without data, which a command's --help does without.
    from training.fit.dry_run import dry_run

    model, train = settings.model, settings.train
    backbone = backbone_on_meta(model.backbone, model.dtype.value, model.revision)
    base_bytes = sum(p.numel() * p.element_size() for p in backbone.parameters())
    with torch.device("meta"):
        module = recipe.build(settings, backbone)
    parameters = count_parameters(module)
    run = dry_run(
        module,
        lambda: inputs(module, train.batch_size, lengths),
        train.batch_size * lengths.label,
        train.gradient_checkpointing,
        train.autocast_bf16,
    )
    return Sketch(settings, parameters, base_bytes, lengths, run)


def recipe_lengths(settings: T2TSettings, samples: int | None = None) -> Lengths:
    """The lengths that the recipe allows, for all samples."""
    prompt, label = settings.model.max_input_tokens, settings.model.max_output_tokens
    return Lengths(prompt, label, prompt + label, samples, "the recipe's longest, for all samples")


def data_lengths(data: SampleSet[Any]) -> Lengths:
    """The lengths of encoded samples."""
    return Lengths(
        prompt=max(sample.length - sample.label_length for sample in data.samples),
        label=max(sample.label_length for sample in data.samples),
        mean=sum(data.lengths) / len(data),
        samples=len(data),
        source="the data's",
    )


def inputs(module: nn.Module, batch_size: int, lengths: Lengths) -> dict[str, Any]:
    """A micro-batch of the longest samples, as the module's forward pass takes it."""
    is_causal = not module.config.is_encoder_decoder  # type: ignore[union-attr]
    source = lengths.prompt + (lengths.label if is_causal else 0)
    target = source if is_causal else lengths.label
    batch: dict[str, Any] = {
        "input_ids": torch.zeros(batch_size, source, dtype=torch.int64),
        "attention_mask": None,
        "labels": torch.zeros(batch_size, target, dtype=torch.int64),
    }
    encoder = getattr(module, "graph_encoder", None)
    if encoder is not None:
        batch["graph"] = _graphs(encoder, batch_size, lengths.prompt)
    return batch


def _graphs(encoder: GraphEncoder, batch_size: int, prompt_tokens: int) -> GraphBatch:
    """One sub-graph a sample, of as many triples as fill its prompt."""
    edges = 2 * batch_size * max(1, prompt_tokens // TOKENS_A_TRIPLE)
    width = encoder.config.input_dim
    return GraphBatch(
        node_features=torch.zeros(edges, width),
        predicate_features=torch.zeros(edges, width),
        edge_predicates=torch.zeros(edges, dtype=torch.int64),
        edge_index=torch.zeros(2, edges, dtype=torch.int64),
        node_to_subgraph=torch.zeros(edges, dtype=torch.int64),
        subgraph_to_sample=torch.zeros(batch_size, dtype=torch.int64),
        batch_size=batch_size,
    )
