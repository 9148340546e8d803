"""Components in this process: a backbone, its adapters, and models that stand alone."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from inference.engines.component_loader import ComponentLoader, own_tokenizer
from inference.engines.contract import UnsupportedRequestError
from inference.engines.served import Served, all_end_ids
from inference.engines.transformers.growing_cache import require_plain_attention
from models.condition_extractor import ConditionExtractorConfig, load_prompt
from models.files.backbone import backbone_id, load_backbone, load_tokenizer
from models.kernels.cpu_attention import use_grouped_attention
from models.kernels.cpu_linear import pack_linears
from models.parts.deep_prompt import DeepPrompt, PromptStates, use_prompt_attention
from models.parts.prefix_tuning import PrefixPrompt
from models.text_to_triples import TextToTriples, TextToTriplesConfig


@dataclass(eq=False, kw_only=True)
class LocalServed(Served):
    """One name with its model.

    adapter: PEFT's name of its adapter on `model`; None runs `model` with adapters off.
    prompt: a layer-wise soft prompt or a prefix, and deep_prompt what it adds to each layer, made
        with the adapter on when first needed.
    """

    model: PreTrainedModel
    peft_model: PeftModel | None = None
    adapter: str | None = None
    prompt: DeepPrompt | PrefixPrompt | None = None
    deep_prompt: PromptStates | None = None

    def activate(self) -> None:
        """Get the model ready for this component, adapter and soft prompt."""
        self._switch_adapters()
        if self.prompt is not None and self.deep_prompt is None:
            use_prompt_attention(self.model)
            with torch.no_grad():
                self.deep_prompt = self.prompt.states(self.model)

    def _switch_adapters(self) -> None:
        """Turn this component's adapter on and every other off."""
        if self.peft_model is None:
            return
        if self.adapter is None:
            self.peft_model.base_model.disable_adapter_layers()  # type: ignore[operator]
            return
        self.peft_model.base_model.enable_adapter_layers()  # type: ignore[operator]
        self.peft_model.set_adapter(self.adapter, inference_mode=True)


class TransformersComponentLoader(ComponentLoader[LocalServed]):
    """Loads a backbone once and puts every adapter that belongs to it on it.

    With `merge_adapters` each adapter is added into a copy of the backbone's weights instead:
    faster by a multiple where a small model decodes on a CPU, at the memory of one more copy an
    adapter, and equal up to the rounding of the backbone's dtype.
    """

    def __init__(self, backbone: str, dtype: str, device: str, merge_adapters: bool) -> None:
        super().__init__()
        model = load_backbone(backbone, dtype)
        if not model.config.is_encoder_decoder:
            require_plain_attention(model.config)
            use_grouped_attention(model)
        self.dtype = dtype
        self.device = device
        self.merge_adapters = merge_adapters
        self.identity = backbone_id(model)
        self.model = model.to(device).eval().requires_grad_(False)  # type: ignore[arg-type]
        self.tokenizer = load_tokenizer(backbone)
        self.peft_model: PeftModel | None = None

    def load_all(self, adapters: Mapping[str, Path]) -> dict[str | None, LocalServed]:
        """Return everything that can be asked for, by name; None is the plain backbone."""
        served: dict[str | None, LocalServed] = {None: self.plain()}
        for name, folder in adapters.items():
            served[name] = self.load(name, Path(folder))
        for component in served.values():
            if component.model is self.model:
                component.peft_model = self.peft_model
            pack_linears(component.model)
        return served

    def plain(self) -> LocalServed:
        """Return the backbone as it is."""
        return _served(None, self.model, self.tokenizer)

    def adapted(self, name: str, folder: Path) -> LocalServed:
        """Return backbone with a component's adapter, switched on for its requests or merged."""
        if not self.merge_adapters:
            return _served(name, self.model, self.tokenizer, adapter=self._add_adapter(folder))
        whole = PeftModel.from_pretrained(
            copy.deepcopy(self.model), str(folder), autocast_adapter_dtype=False
        )
        merged: PreTrainedModel = whole.merge_and_unload()  # type: ignore[operator]
        return _served(name, merged.eval().requires_grad_(False), self.tokenizer)

    def prompted(self, name: str, folder: Path, settings: ConditionExtractorConfig) -> LocalServed:
        """Return the plain backbone, other adapters off, behind a soft prompt."""
        prompt = load_prompt(folder, settings, self.model)
        return _served(name, self.model, self.tokenizer, prompt=prompt)

    def combined(self, adapted: LocalServed, prompted: LocalServed) -> LocalServed:
        """Return an adapter behind another component's soft prompt."""
        return replace(adapted, prompt=prompted.prompt, prefix_length=prompted.prefix_length)

    def alone(self, name: str, folder: Path, settings: TextToTriplesConfig) -> LocalServed:
        """Return a text-to-triples model with a backbone of its own."""
        whole = TextToTriples.from_pretrained(folder, dtype=self.dtype).to(self.device).eval()
        use_grouped_attention(whole.backbone)
        backbone = whole.requires_grad_(False).backbone
        return _served(name, backbone, own_tokenizer(folder, settings), own_backbone=True)

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


def _served(
    name: str | None, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, **rest: Any
) -> LocalServed:
    prompt: DeepPrompt | PrefixPrompt | None = rest.get("prompt")
    config = model.config.get_text_config()
    is_encoder_decoder = bool(model.config.is_encoder_decoder)
    limit = getattr(config, "max_position_embeddings", None)
    if is_encoder_decoder and limit is None:
        # T5's positions are relative and have no end, but its attention's memory does.
        limit = getattr(config, "n_positions", None)
    return LocalServed(
        name=name,
        tokenizer=tokenizer,
        context_length=None if limit is None or is_encoder_decoder else int(limit),
        input_limit=int(limit) if limit is not None and is_encoder_decoder else None,
        prefix_length=0 if prompt is None else prompt.num_tokens,
        end_ids=all_end_ids(tokenizer, getattr(model, "generation_config", None)),
        vocabulary_size=int(config.vocab_size),
        is_encoder_decoder=is_encoder_decoder,
        model=model,
        **rest,
    )
