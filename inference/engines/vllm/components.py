"""Components as vLLM serves them: LoRA folders, prefix files, graph encoders in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from peft import PeftConfig
from safetensors.torch import save_file
from transformers import AutoConfig, GenerationConfig

from common.cache import cache_folder, only_writer
from common.files import atomic_directory
from inference.engines.component_loader import (
    ComponentLoader,
    layer_tensors,
    own_tokenizer,
    prefix_states,
)
from inference.engines.contract import UnsupportedRequestError
from inference.engines.served import Served, all_end_ids
from inference.engines.vllm.process import VLLMSettings, lora_rank_for, prefix_path
from models.condition_extractor import Adaptation, ConditionExtractorConfig
from models.files.backbone import backbone_id, default_device, load_tokenizer, resolve_backbone
from models.files.checkpoint import component_fingerprint, read_component_config
from models.text_to_triples import TextToTriplesConfig

PREFIX_FOLDER = "prefixes"
EMBEDDINGS = {"embed_tokens", "lm_head"}


@dataclass(eq=False, kw_only=True)
class VLLMServed(Served):
    """One name as vLLM runs it.

    lora_folder, lora_id, lora_rank, lora_targets: of its adapter. prefix: its soft prompt's name,
    made of the component in prefix_folder. write_prefix: begins to write the prefix's file in a
    thread; None where it is written. writing: is done once it is.
    """

    lora_folder: Path | None = None
    lora_id: int = 0
    lora_rank: int = 0
    lora_targets: frozenset[str] = frozenset()
    prefix: str | None = None
    prefix_folder: Path | None = None
    write_prefix: Callable[[], asyncio.Future[None]] | None = None
    writing: asyncio.Future[None] | None = None

    async def make_ready(self) -> None:
        """Wait until the prefix is written: once for all who wait, and again if it failed.

        Raises CacheFolderError, BackboneMismatchError, UnsupportedBackboneError.
        """
        if self.write_prefix is None:
            return
        if self.writing is None:
            self.writing = self.write_prefix()
            self.writing.add_done_callback(self._written)
        # Whoever is cancelled here leaves it to the others.
        await asyncio.shield(self.writing)

    def _written(self, writing: asyncio.Future[None]) -> None:
        self.writing = None
        if not writing.cancelled() and writing.exception() is None:
            self.write_prefix = None


class VLLMComponentLoader(ComponentLoader[VLLMServed]):
    """Reads components without loading the backbone: vLLM's process holds it."""

    def __init__(self, backbone: str, max_model_len: int | None) -> None:
        """max_model_len: None is the backbone's context.

        Raises UnsupportedRequestError for an encoder-decoder backbone.
        """
        super().__init__()
        self.source = resolve_backbone(backbone)
        config = AutoConfig.from_pretrained(self.source)
        if config.is_encoder_decoder:
            raise UnsupportedRequestError(
                f"vLLM serves no encoder-decoder backbone ({backbone}); use --engine transformers"
            )
        text_config = config.get_text_config()
        self.device = default_device()
        self.identity = backbone_id(backbone)
        self.tokenizer = load_tokenizer(backbone)
        self.max_model_len = max_model_len or int(text_config.max_position_embeddings)
        self.prefix_folder = cache_folder() / PREFIX_FOLDER
        self.vocabulary_size = int(text_config.vocab_size)
        self._end_ids = all_end_ids(self.tokenizer, _generation_config(self.source))
        self._adapters = 0
        # One at a time: each holds a backbone of its own.
        self._prefix_writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefix")

    def plain(self) -> VLLMServed:
        """Return the backbone as it is."""
        return self._served(None)

    def adapted(self, name: str, folder: Path) -> VLLMServed:
        """Return the backbone with the LoRA adapter of a folder, which vLLM reads itself."""
        self._adapters += 1
        served = self._served(name)
        served.lora_folder, served.lora_id = folder, self._adapters
        served.lora_rank, served.lora_targets = _rank_and_targets(folder)
        return served

    def prompted(self, name: str, folder: Path, settings: ConditionExtractorConfig) -> VLLMServed:
        """Return the backbone behind a prompt's prefix, which is written where it is missing."""
        if settings.adaptation == Adaptation.pretrained:
            return self._served(name)
        served = self._served(name, settings.num_prompt_tokens)
        served.prefix, served.prefix_folder = prefix_name(folder), folder
        self._write_prefix(served.prefix, folder)
        return served

    def combined(self, adapted: VLLMServed, prompted: VLLMServed) -> VLLMServed:
        """Return an adapter behind another component's soft prompt, whose prefix is not written."""
        folder, adapter = prompted.prefix_folder, adapted.lora_folder
        assert folder is not None
        prefix = prefix_name(folder, adapter)
        return replace(
            adapted,
            prefix=prefix,
            prefix_length=prompted.prefix_length,
            write_prefix=partial(self._begin_to_write, prefix, folder, adapter),
        )

    def _begin_to_write(
        self, prefix: str, folder: Path, adapter: Path | None
    ) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(
            self._prefix_writer, self._write_prefix, prefix, folder, adapter
        )

    def _write_prefix(self, prefix: str, folder: Path, adapter: Path | None = None) -> None:
        """Write a prompt's prefix where it is missing; a backbone is loaded for it."""
        path = prefix_path(self.prefix_folder, prefix)
        if not path.is_file():
            states = prefix_states(folder, read_component_config(folder), adapter)
            with only_writer(path.parent):
                if not path.is_file():
                    with atomic_directory(path.parent) as target:
                        tensors = layer_tensors(states)
                        save_file(tensors, target / path.name, metadata={"format": "pt"})

    def alone(self, name: str, folder: Path, settings: TextToTriplesConfig) -> VLLMServed:
        """Return a text-to-triples model that runs beside vLLM."""
        served = self._served(name)
        served.tokenizer, served.own_backbone = own_tokenizer(folder, settings), True
        served.is_encoder_decoder = settings.is_encoder_decoder
        return served

    def _served(self, name: str | None, prefix_length: int = 0) -> VLLMServed:
        return VLLMServed(
            name=name,
            tokenizer=self.tokenizer,
            context_length=self.max_model_len,
            end_ids=self._end_ids,
            vocabulary_size=self.vocabulary_size,
            prefix_length=prefix_length,
        )


def prefix_name(folder: Path, adapter: Path | None = None) -> str:
    """Return the name of a component's prefix, made with an adapter on or without."""
    parts = [folder, adapter] if adapter else [folder]
    return "-".join(component_fingerprint(part) for part in parts)


def decided(settings: VLLMSettings, served: Iterable[VLLMServed]) -> VLLMSettings:
    """Return the settings with what they leave open decided by the components at hand."""
    components = list(served)
    graphs, prompts = settings.graphs, settings.soft_prompts
    ranks = [component.lora_rank for component in components]
    targets = {*settings.lora_target_modules, *(t for c in components for t in c.lora_targets)}
    return replace(
        settings,
        graphs=any(c.graph_encoder for c in components) if graphs is None else graphs,
        soft_prompts=any(c.prefix for c in components) if prompts is None else prompts,
        max_lora_rank=settings.max_lora_rank or max(ranks, default=0),
        lora_target_modules=tuple(sorted(targets)),
        max_loras=max(settings.max_loras, len({c.lora_id for c in components if c.lora_id})),
    )


def check_capacity(served: VLLMServed, settings: VLLMSettings) -> None:
    """Refuse a component that the engine was not started for.

    Raises UnsupportedRequestError with the limit, the value and the setting to change.
    """
    limit = lora_rank_for(settings.max_lora_rank) if settings.max_lora_rank else 0
    if served.lora_rank > limit:
        raise UnsupportedRequestError(
            f"{served.name} has LoRA rank {served.lora_rank} and the engine was started for "
            f"{limit}; start it with max_lora_rank={served.lora_rank}"
        )
    others = sorted(served.lora_targets - set(settings.lora_target_modules))
    if others:
        raise UnsupportedRequestError(
            f"{served.name} adapts {', '.join(others)}, and the engine was started for "
            f"{', '.join(settings.lora_target_modules)}; name them in lora_target_modules"
        )
    if served.prefix is not None and not settings.soft_prompts:
        raise UnsupportedRequestError(
            f"{served.name} has a soft prompt; start the engine with soft_prompts=True"
        )
    if served.graph_encoder is not None and not settings.graphs:
        raise UnsupportedRequestError(
            f"{served.name} reads graphs; start the engine with graphs=True"
        )


def _rank_and_targets(folder: Path) -> tuple[int, frozenset[str]]:
    """Of a folder's adapter. Raises UnsupportedRequestError: vLLM cannot add it."""
    config: Any = PeftConfig.from_pretrained(str(folder))
    kinds = ("use_dora", "modules_to_save", "rank_pattern")
    extras = [kind for kind in kinds if getattr(config, kind, None)]
    targets = frozenset(name.rpartition(".")[2] for name in config.target_modules)
    extras += sorted(EMBEDDINGS & targets)
    if extras:
        raise UnsupportedRequestError(
            f"{folder}: vLLM's LoRA takes no {', '.join(extras)}; export the component with "
            "inference/export.py --to hf, or use --engine transformers"
        )
    lora_rank_for(config.r)
    return int(config.r), targets


def _generation_config(source: str) -> GenerationConfig | None:
    try:
        return GenerationConfig.from_pretrained(source)
    except OSError:
        return None
