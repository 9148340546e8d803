"""Component folders as what an engine serves: read, checked against the backbone, equipped."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from common.names import did_you_mean
from inference.engines.contract import InvalidRequestError
from inference.engines.served import Served
from models.condition_extractor import COMPONENT as TRI_RAG
from models.condition_extractor import ConditionExtractorConfig, load_prompt
from models.files.backbone import backbone_id, load_backbone, load_tokenizer
from models.files.checkpoint import (
    NotACheckpointError,
    check_backbone,
    component_fingerprint,
    read_component_config,
)
from models.files.sentence_encoder import load_sentence_encoder
from models.files.text_table import TextFeatures
from models.graph_llm import COMPONENT as RAS
from models.graph_llm import GraphLLMConfig, load_graph_encoder
from models.helper import COMPONENT as HELPER
from models.helper import HelperConfig
from models.parts.deep_prompt import DeepPrompt
from models.parts.prefix_tuning import as_prefix
from models.text_to_triples import COMPONENT as TEXT_TO_TRIPLES
from models.text_to_triples import MODEL_FOLDER, TextToTriplesConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

ServedT = TypeVar("ServedT", bound=Served)


class ComponentLoader(ABC, Generic[ServedT]):
    """Turns folders into what is served; how an adapter or a prompt is put on the backbone is the
    engine's own.

    identity: `backbone_id` of the engine's backbone. device: of the graph encoders.
    """

    identity: str
    tokenizer: PreTrainedTokenizerBase
    device: str

    def __init__(self) -> None:
        self._features: dict[str, TextFeatures] = {}
        self._helpers: dict[str, ServedT] = {}

    @abstractmethod
    def plain(self) -> ServedT:
        """Return the backbone as it is."""

    @abstractmethod
    def adapted(self, name: str, folder: Path) -> ServedT:
        """Return the backbone with the LoRA adapter of a folder."""

    @abstractmethod
    def prompted(self, name: str, folder: Path, settings: ConditionExtractorConfig) -> ServedT:
        """Return the backbone with the soft prompt or prefix of a folder, if it has one."""

    @abstractmethod
    def alone(self, name: str, folder: Path, settings: TextToTriplesConfig) -> ServedT:
        """Return a text-to-triples model with a backbone of its own."""

    def load(self, name: str, folder: Path) -> ServedT:
        """Return the component of a name.

        Raises NotACheckpointError, TruncatedCheckpointError, BackboneMismatchError.
        """
        config = read_component_config(folder)
        component = config.get("component")
        if component == RAS:
            return self._load_ras(name, folder, config)
        if component == TEXT_TO_TRIPLES:
            return self._load_text_to_triples(name, folder, config)
        if component == TRI_RAG:
            return self._load_condition_extractor(name, folder, config)
        if component == HELPER:
            return self._load_helper(name, folder, config)
        known = (RAS, TEXT_TO_TRIPLES, TRI_RAG, HELPER)
        raise NotACheckpointError(
            f"{folder} holds the component '{component}', {did_you_mean(component, known)}. This "
            f"engine serves {', '.join(known)}"
        )

    def _load_ras(self, name: str, folder: Path, config: Mapping[str, Any]) -> ServedT:
        check_backbone(config, self.identity, folder)
        settings = GraphLLMConfig.from_dict(config, folder)
        served = self.adapted(name, folder)
        served.processor = settings.processor(self.tokenizer)
        encoder = load_graph_encoder(folder, settings)
        if encoder is not None:
            served.graph_encoder = encoder.to(self.device).requires_grad_(False)
            served.graph_position = served.processor.graph_position
            served.features = self._text_features(settings.encoder)
        return served

    def _load_text_to_triples(self, name: str, folder: Path, config: Mapping[str, Any]) -> ServedT:
        settings = TextToTriplesConfig.from_dict(config, folder)
        if settings.has_adapter and config.get("backbone_id") == self.identity:
            served = self.adapted(name, folder)
        else:
            logger.info("%s has a model of its own (%s)", name, settings.backbone)
            served = self.alone(name, folder, settings)
        served.processor = settings.processor(served.tokenizer)
        if served.is_encoder_decoder:
            # Of the whole prompt: instruction and special tokens count in training too.
            served.input_limit = settings.max_input_tokens
        return served

    def _load_condition_extractor(
        self, name: str, folder: Path, config: Mapping[str, Any]
    ) -> ServedT:
        check_backbone(config, self.identity, folder)
        settings = ConditionExtractorConfig.from_dict(config, folder)
        if settings.has_adapter:
            served = self.adapted(name, folder)
        else:
            served = self.prompted(name, folder, settings)
        served.processor = settings.processor(self.tokenizer)
        return served

    def _load_helper(self, name: str, folder: Path, config: Mapping[str, Any]) -> ServedT:
        check_backbone(config, self.identity, folder)
        # One that does several jobs is asked for under the name of each, and loaded once.
        version = component_fingerprint(folder)
        if version not in self._helpers:
            served = self.adapted(name, folder)
            served.processor = HelperConfig.from_dict(config, folder).processor(self.tokenizer)
            self._helpers[version] = served
        return replace(self._helpers[version], name=name)

    def _text_features(self, encoder: str) -> TextFeatures:
        if encoder not in self._features:
            self._features[encoder] = TextFeatures(load_sentence_encoder(encoder))
        return self._features[encoder]


def own_tokenizer(folder: Path, settings: TextToTriplesConfig) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a text-to-triples model with a backbone of its own."""
    if not settings.has_adapter:
        return load_tokenizer(str(folder / MODEL_FOLDER))
    return load_tokenizer(settings.backbone, settings.backbone_revision)


def first_backbone(folders: Mapping[str, Path]) -> str:
    """Return the backbone that adapters name, a shared one's before a text-to-triples model's own.

    Raises InvalidRequestError without an adapter.
    """
    if not folders:
        raise InvalidRequestError("an engine needs a backbone, or an adapter that names one")
    configs = [read_component_config(folder) for folder in folders.values()]
    configs.sort(key=lambda config: config.get("component") == TEXT_TO_TRIPLES)
    return str(configs[0]["backbone"])


@torch.no_grad()
def prefix_states(
    folder: Path, config: Mapping[str, Any], adapter: Path | None = None
) -> torch.Tensor:
    """Return the prefix [n, 2 x layers, G, D] in float32 that a component's prompt amounts to.

    Its keys and values stand in front of every layer, at positions 0 to n - 1; real tokens follow
    from n, in our vLLM connector as in PEFT.

    adapter: folder of a LoRA adapter that is on while the keys and values are made.

    Raises:
        BackboneMismatchError: the backbone's name now means another model.
        UnsupportedBackboneError: a soft prompt that some layers do not have.
    """
    settings = ConditionExtractorConfig.from_dict(config, folder)
    backbone = load_backbone(settings.backbone, "float32", settings.backbone_revision)
    check_backbone(config, backbone_id(backbone), folder)
    if adapter is not None:
        from peft import PeftModel

        PeftModel.from_pretrained(backbone, str(adapter))
    prompt = load_prompt(folder, settings, backbone)
    assert prompt is not None
    return as_prefix(prompt, backbone) if isinstance(prompt, DeepPrompt) else prompt.embeddings


def layer_tensors(prefix: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return a prefix [n, 2 x layers, G, D] as one pair of tensors [n, G, D] a layer."""
    columns = prefix.detach().unbind(dim=1)
    return {
        f"{'kv'[column % 2]}.{column // 2}": states.contiguous()
        for column, states in enumerate(columns)
    }
