"""Layer-wise soft prompts inside vLLM: a KV connector that writes learned keys and values.

A request's prompt begins with n placeholders. To vLLM they are tokens whose keys and values come
from elsewhere; this connector says so to the scheduler and writes them into the request's blocks
before the first step that reads them. Loaded by vLLM in its own process, by this module's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from vllm.distributed import (
    get_tensor_model_parallel_rank,
    get_tensor_model_parallel_world_size,
)
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
)

from inference.engines.vllm.process import FOLDER_OPTION, REQUEST_KEY, prefix_path

_LAYER = re.compile(r"layers\.(\d+)\.")
_NAME = re.compile(r"[0-9A-Za-z_-]+")


@dataclass(frozen=True)
class Load:
    """Positions `start` and on of a prefix, and the cache's slots that they go to."""

    prefix: str
    start: int
    slots: list[int]


@dataclass
class Loads(KVConnectorMetadata):
    """The prefixes that a step's requests need before it runs."""

    loads: list[Load] = field(default_factory=list)


class SoftPrefixConnector(KVConnectorBase_V1):
    """Reads the prefix files: per layer l `k.l` and `v.l`, [n, key heads, head size], keys rotated
    for positions 0 to n - 1.

    NAME comes with a request's `kv_transfer_params`; it is no path, so that a client of a server
    can name no file of its own.
    """

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        if kv_cache_config is not None and len(kv_cache_config.kv_cache_groups) != 1:
            raise ValueError(
                "soft prompts need one kind of attention in all layers; this model has "
                f"{len(kv_cache_config.kv_cache_groups)} groups of layers"
            )
        options = vllm_config.kv_transfer_config.kv_connector_extra_config
        self.folder = Path(options[FOLDER_OPTION])
        self.block_size = vllm_config.cache_config.block_size
        self._lengths: dict[str, int] = {}
        self._states: dict[str, dict[str, torch.Tensor]] = {}
        self._waiting: dict[str, Load] = {}

    # In the scheduler.
    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int, bool]:
        """Return how many tokens' keys and values come from here: those the prefix cache lacks.

        Asked again when a preempted request comes back.
        """
        length = self._length_of(request)
        return max(length - num_computed_tokens, 0), False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Note the slots of the tokens that `get_num_new_matched_tokens` promised."""
        if num_external_tokens <= 0:
            return
        length = self._length_of(request)
        block_ids, size = blocks.get_block_ids()[0], self.block_size
        start = length - num_external_tokens
        slots = [
            block_ids[position // size] * size + position % size
            for position in range(start, length)
        ]
        self._waiting[request.request_id] = Load(_name_of(request), start, slots)

    def build_connector_meta(self, scheduler_output: Any) -> Loads:
        """Hand the step's loads to the workers."""
        loads = Loads(list(self._waiting.values()))
        self._waiting.clear()
        return loads

    def _length_of(self, request: Any) -> int:
        """Return the tokens of the prefix that a request names; 0 without one."""
        name = _name_of(request)
        if not name:
            return 0
        if name not in self._lengths:
            with safe_open(self._path(name), "pt") as file:
                self._lengths[name] = file.get_slice("k.0").get_shape()[0]
        return self._lengths[name]

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"'{name}' is no soft prompt's name: letters, digits, - and _ alone")
        return prefix_path(self.folder, name)

    # In the workers.
    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Write the prefixes of this step's new requests into every layer's cache.

        Through the operation that the attention layer itself uses, since inside a block the cache
        may be laid out privately.
        """
        metadata: Any = self._get_connector_metadata()
        if not metadata.loads:
            return
        layers = {
            int(match[1]): layer
            for name, layer in forward_context.no_compile_layers.items()
            if getattr(layer, "kv_cache", None) is not None and (match := _LAYER.search(name))
        }
        for load in metadata.loads:
            states = self._states_of(load.prefix)
            for index, layer in layers.items():
                cache = layer.kv_cache
                key, value = (
                    _own_heads(states[f"{kind}.{index}"][load.start :], layer.num_kv_heads)
                    .to(cache.device, layer.kv_cache_torch_dtype)
                    .contiguous()
                    for kind in "kv"
                )
                slots = torch.tensor(load.slots, dtype=torch.int64, device=cache.device)
                layer.impl.do_kv_cache_update(layer, key, value, cache, slots)

    def _states_of(self, name: str) -> dict[str, torch.Tensor]:
        if name not in self._states:
            self._states[name] = load_file(self._path(name))
        return self._states[name]

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Nothing to wait for: all layers are written at the step's start."""

    def save_kv_layer(
        self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: Any, **kwargs: Any
    ) -> None:
        """Nothing is saved."""

    def wait_for_save(self) -> None:
        """Nothing is saved."""


def _name_of(request: Any) -> str:
    return str((request.kv_transfer_params or {}).get(REQUEST_KEY, ""))


def _own_heads(states: torch.Tensor, heads: int) -> torch.Tensor:
    """Return the key heads of this worker, under tensor parallelism one of several."""
    first = get_tensor_model_parallel_rank() * states.shape[1]
    first //= get_tensor_model_parallel_world_size()
    return states[:, first : first + heads]
