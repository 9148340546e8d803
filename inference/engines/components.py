"""What one engine serves: a backbone, its adapters, and models that stand alone."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from inference.engines.contract import UnsupportedRequestError
from inference.engines.growing_cache import require_plain_attention
from models.backbone import backbone_id, load_backbone, load_tokenizer
from models.checkpoint import NotACheckpointError, check_backbone, read_component_config
from models.condition_extractor import COMPONENT as TRI_RAG
from models.condition_extractor import load_prompt
from models.condition_extractor_config import Adaptation, ConditionExtractorConfig
from models.condition_processor import ConditionProcessor
from models.graph_encoder import GraphEncoder
from models.graph_llm import COMPONENT as RAS
from models.graph_llm import load_graph_encoder
from models.graph_llm_config import GraphLLMConfig
from models.grouped_attention import use_grouped_attention
from models.passage_processor import PassageProcessor
from models.prompt_attention import PromptStates, use_prompt_attention
from models.ras_processor import RasProcessor
from models.sentence_encoder import load_sentence_encoder
from models.text_table import TextFeatures
from models.text_to_triples import COMPONENT as TEXT_TO_TRIPLES
from models.text_to_triples import MODEL_FOLDER, TextToTriples, TextToTriplesConfig
from models.text_to_triples_processor import TextToTriplesProcessor

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Served:
    """One name that requests may ask for.

    adapter: PEFT's name of its adapter on `model`; None runs `model` with adapters off.
    processor: makes the component's prompts; None for the plain backbone.
    graph_encoder, features: for a component that reads graphs; placed at `graph_position`.
    deep_prompt: keys and values of a layer-wise soft prompt.
    """

    name: str | None
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    peft_model: PeftModel | None = None
    adapter: str | None = None
    processor: RasProcessor | PassageProcessor[Any] | None = None
    graph_encoder: GraphEncoder | None = None
    features: TextFeatures | None = None
    graph_position: int | None = None
    deep_prompt: PromptStates | None = None

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether prompts go to an encoder."""
        return bool(self.model.config.is_encoder_decoder)

    @property
    def context_length(self) -> int | None:
        """Most tokens of text and output together; None where positions are unbounded."""
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        taken = 0 if self.deep_prompt is None else self.deep_prompt.length
        return None if limit is None or self.is_encoder_decoder else int(limit) - taken

    def end_ids(self) -> frozenset[int]:
        """Ids that end a text: the tokenizer's and the generation configuration's."""
        generation = getattr(self.model, "generation_config", None)
        configured = getattr(generation, "eos_token_id", None)
        listed = configured if isinstance(configured, list) else [configured]
        return frozenset(
            int(token) for token in [*listed, self.tokenizer.eos_token_id] if token is not None
        )

    def activate(self) -> None:
        """Turn this component's adapter on and every other off."""
        if self.peft_model is None:
            return
        if self.adapter is None:
            self.peft_model.base_model.disable_adapter_layers()  # type: ignore[operator]
            return
        self.peft_model.base_model.enable_adapter_layers()  # type: ignore[operator]
        self.peft_model.set_adapter(self.adapter, inference_mode=True)


class ComponentLoader:
    """Loads a backbone once and puts every adapter that belongs to it on it.

    With `merge_adapters` each adapter is added into a copy of the backbone's weights instead:
    faster by a multiple where a small model decodes on a CPU, at the memory of one more copy an
    adapter, and equal up to the rounding of the backbone's dtype.
    """

    def __init__(
        self,
        backbone: str,
        dtype: str,
        device: str,
        revision: str | None,
        merge_adapters: bool = False,
    ) -> None:
        model = load_backbone(backbone, dtype, revision)
        if not model.config.is_encoder_decoder:
            require_plain_attention(model.config)
            use_grouped_attention(model)
        self.dtype = dtype
        self.device = device
        self.merge_adapters = merge_adapters
        self.identity = backbone_id(model)
        self.model = model.to(device).eval().requires_grad_(False)  # type: ignore[arg-type]
        self.tokenizer = load_tokenizer(backbone, revision)
        self.peft_model: PeftModel | None = None
        self._features: dict[str, TextFeatures] = {}

    def load(self, adapters: Mapping[str, Path]) -> dict[str | None, Served]:
        """Everything that can be asked for, by name; None is the plain backbone."""
        served: dict[str | None, Served] = {None: Served(None, self.model, self.tokenizer)}
        for name, folder in adapters.items():
            served[name] = self._load_one(name, Path(folder))
        for component in served.values():
            if component.model is self.model:
                component.peft_model = self.peft_model
        return served

    def _load_one(self, name: str, folder: Path) -> Served:
        config = read_component_config(folder)
        component = config.get("component")
        if component == RAS:
            return self._load_ras(name, folder, config)
        if component == TEXT_TO_TRIPLES:
            return self._load_text_to_triples(name, folder, config)
        if component == TRI_RAG:
            return self._load_condition_extractor(name, folder, config)
        raise NotACheckpointError(
            f"{folder}: this engine serves the components '{RAS}', '{TEXT_TO_TRIPLES}' and "
            f"'{TRI_RAG}', and this folder holds '{component}'"
        )

    def _load_ras(self, name: str, folder: Path, config: Mapping[str, Any]) -> Served:
        check_backbone(config, self.identity, folder)
        settings = GraphLLMConfig.from_dict(config)
        served = self._adapted(name, folder)
        served.processor = settings.processor(self.tokenizer)
        encoder = load_graph_encoder(folder, settings)
        if encoder is not None:
            served.graph_encoder = encoder.to(self.device).requires_grad_(False)
            served.graph_position = served.processor.graph_position
            served.features = self._text_features(settings.encoder)
        return served

    def _load_text_to_triples(self, name: str, folder: Path, config: Mapping[str, Any]) -> Served:
        settings = TextToTriplesConfig.from_dict(config)
        if settings.lora_rank > 0 and config.get("backbone_id") == self.identity:
            served = self._adapted(name, folder)
        else:
            logger.info("%s has a model of its own (%s)", name, settings.backbone)
            served = self._load_alone(name, folder, settings)
        served.processor = TextToTriplesProcessor(
            served.tokenizer,
            settings.max_source_tokens,
            settings.max_target_tokens,
            served.is_encoder_decoder,
        )
        return served

    def _load_condition_extractor(
        self, name: str, folder: Path, config: Mapping[str, Any]
    ) -> Served:
        check_backbone(config, self.identity, folder)
        settings = ConditionExtractorConfig.from_dict(config)
        if settings.adaptation == Adaptation.lora:
            served = self._adapted(name, folder)
        else:
            served = Served(name, self.model, self.tokenizer)
            served.deep_prompt = self._deep_prompt(folder, settings)
        served.processor = ConditionProcessor(self.tokenizer, settings)
        return served

    @torch.no_grad()
    def _deep_prompt(self, folder: Path, settings: ConditionExtractorConfig) -> PromptStates | None:
        """What a prompt adds to each layer of the plain backbone, other adapters off."""
        prompt = load_prompt(folder, settings, self.model)
        if prompt is None:
            return None
        use_prompt_attention(self.model)
        Served(None, self.model, self.tokenizer, self.peft_model).activate()
        return prompt.states(self.model)

    def _load_alone(self, name: str, folder: Path, settings: TextToTriplesConfig) -> Served:
        whole = TextToTriples.from_pretrained(folder, dtype=self.dtype).to(self.device).eval()
        use_grouped_attention(whole.backbone)
        source = str(folder / MODEL_FOLDER) if settings.lora_rank == 0 else settings.backbone
        revision = None if settings.lora_rank == 0 else settings.backbone_revision
        return Served(name, whole.requires_grad_(False).backbone, load_tokenizer(source, revision))

    def _adapted(self, name: str, folder: Path) -> Served:
        """The backbone with a component's adapter, switched on for its requests or merged."""
        if not self.merge_adapters:
            return Served(name, self.model, self.tokenizer, adapter=self._add_adapter(folder))
        adapted = PeftModel.from_pretrained(
            copy.deepcopy(self.model), str(folder), autocast_adapter_dtype=False
        )
        merged: PreTrainedModel = adapted.merge_and_unload()  # type: ignore[operator]
        return Served(name, merged.eval().requires_grad_(False), self.tokenizer)

    def _add_adapter(self, folder: Path) -> str:
        """Put an adapter on the shared backbone; returns PEFT's name for it.

        In the backbone's dtype: what training's autocast computes in, without its casts.
        """
        if self.model.config.is_encoder_decoder:
            raise UnsupportedRequestError(
                f"{folder}: adapters on a shared encoder-decoder backbone are not served; "
                "give the engine a causal backbone, and this component gets its own model"
            )
        count = len(self.peft_model.peft_config) if self.peft_model is not None else 0
        adapter = f"component_{count}"
        if self.peft_model is None:
            self.peft_model = PeftModel.from_pretrained(
                self.model, str(folder), adapter_name=adapter, autocast_adapter_dtype=False
            )
        else:
            self.peft_model.load_adapter(
                str(folder), adapter_name=adapter, autocast_adapter_dtype=False
            )
        self.peft_model.eval()
        return adapter

    def _text_features(self, encoder: str) -> TextFeatures:
        if encoder not in self._features:
            self._features[encoder] = TextFeatures(load_sentence_encoder(encoder))
        return self._features[encoder]


def default_device() -> str:
    """A GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"
