"""A key-value cache that is written in place, drops finished rows and takes in others.

The library's dynamic cache copies all keys and values of all layers for every new token; here a
token is written into room reserved once.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import PretrainedConfig
from transformers.cache_utils import (
    Cache,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
)

from inference.engines.contract import UnsupportedRequestError
from models.parts.deep_prompt import PromptStates


class ReservedLayer(DynamicLayer):
    """One layer's keys and values [B, heads, capacity, head size], filled up to `length`.

    A soft prompt's keys and values [heads, n, head size] stand in front of them, in every row;
    neither `capacity` nor `length` counts them.
    """

    is_croppable = False

    def __init__(
        self, capacity: int, prompt: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> None:
        super().__init__()
        self.capacity = capacity
        self.length = 0
        self.prompt = prompt
        self.offset = 0 if prompt is None else prompt[0].shape[1]
        self.key_room: torch.Tensor | None = None
        self.value_room: torch.Tensor | None = None

    def place(self, row: int, batch_size: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put prompts' states [b, heads, t, head size] at rows `row`..., ending at `length`."""
        if self.key_room is None or self.value_room is None:
            shape = (batch_size, keys.shape[1], self.offset + self.capacity, keys.shape[3])
            # Zeros, not garbage: a masked NaN would still spread through the weighted sum.
            self.key_room = keys.new_zeros(shape)
            self.value_room = values.new_zeros((*shape[:3], values.shape[3]))
            if self.prompt is not None:
                self.key_room[:, :, : self.offset] = self.prompt[0]
                self.value_room[:, :, : self.offset] = self.prompt[1]
            self.is_initialized = True
        end = self.offset + self.length
        start = end - keys.shape[2]
        self.key_room[row : row + len(keys), :, start:end] = keys
        self.value_room[row : row + len(values), :, start:end] = values

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append [B, heads, q, head size]; returns views of everything so far, prompt included."""
        assert self.key_room is not None and self.value_room is not None
        start = self.offset + self.length
        end = start + key_states.shape[2]
        self.key_room[:, :, start:end] = key_states
        self.value_room[:, :, start:end] = value_states
        self.length += key_states.shape[2]
        return self.key_room[:, :, :end], self.value_room[:, :, :end]

    def keep(self, rows: torch.Tensor, first_column: int) -> None:
        """Drop all rows but `rows` and the columns before `first_column`."""
        assert self.key_room is not None and self.value_room is not None
        self.key_room = self._kept(self.key_room, rows, first_column)
        self.value_room = self._kept(self.value_room, rows, first_column)
        self.length -= first_column
        self.capacity -= first_column

    def _kept(self, room: torch.Tensor, rows: torch.Tensor, first_column: int) -> torch.Tensor:
        """Return rows and columns of a room; the prompt's columns, alike in every row, stay."""
        own = room[rows, :, self.offset + first_column :]
        if not self.offset:
            return own
        return torch.cat([room[: len(rows), :, : self.offset], own], dim=2)

    def extend(self, new_rows: int, length: int, capacity: int) -> None:
        """Add empty rows, and make room for `capacity` columns; what is there ends at `length`."""
        assert self.key_room is not None and self.value_room is not None
        self.key_room = self._extended(self.key_room, new_rows, length, capacity)
        self.value_room = self._extended(self.value_room, new_rows, length, capacity)
        self.length, self.capacity = length, capacity

    def _extended(
        self, room: torch.Tensor, new_rows: int, length: int, capacity: int
    ) -> torch.Tensor:
        rows, heads, _, width = room.shape
        extended = room.new_zeros(rows + new_rows, heads, self.offset + capacity, width)
        extended[:, :, : self.offset] = room[:1, :, : self.offset]
        end = self.offset + length
        own = room[:, :, self.offset : self.offset + self.length]
        extended[:rows, :, end - self.length : end] = own
        return extended

    def get_seq_length(self) -> int:
        """Return the columns filled."""
        return self.length


class GrowingCache(Cache):
    """Reserved layers for every layer of a decoder with plain (or sliding-window) attention."""

    def __init__(
        self,
        num_layers: int,
        prompt_length: int,
        capacity: int,
        deep_prompt: PromptStates | None = None,
    ) -> None:
        prompts = {} if deep_prompt is None else deep_prompt.layers
        self.reserved = [ReservedLayer(capacity, prompts.get(n)) for n in range(num_layers)]
        super().__init__(layers=list(self.reserved))
        for layer in self.reserved:
            layer.length = prompt_length

    @property
    def capacity(self) -> int:
        """Columns that there is room for."""
        return self.reserved[0].capacity

    def extend(self, new_rows: int, length: int, capacity: int) -> None:
        """Add empty rows to every layer, whose states then end at `length` of `capacity`."""
        for layer in self.reserved:
            layer.extend(new_rows, length, capacity)

    def place(
        self, row: int, batch_size: int, prefilled: DynamicCache, prompts: torch.Tensor | None
    ) -> None:
        """Copy a prefilled group of prompts to rows `row` and following, right-aligned.

        prompts: which of the group each row has; None: each row the next one.
        """
        for layer, source in zip(self.reserved, prefilled.layers, strict=True):
            assert isinstance(source, DynamicLayer)
            assert source.keys is not None and source.values is not None
            keys, values = source.keys, source.values
            if prompts is not None:
                keys, values = keys[prompts], values[prompts]
            layer.place(row, batch_size, keys, values)

    def keep(self, rows: torch.Tensor, first_column: int) -> None:
        """Keep these rows of every layer, without the columns before `first_column`."""
        for layer in self.reserved:
            layer.keep(rows, first_column)


def prompt_cache() -> DynamicCache:
    """Return an empty cache that keeps a whole prompt's states.

    Made without the model's configuration on purpose: sliding layers would drop early columns,
    while the attention mask already hides what lies outside a window.
    """
    return DynamicCache()


def require_plain_attention(config: PretrainedConfig) -> int:
    """Return the number of decoder layers; raises UnsupportedRequestError for recurrent layers."""
    layers = DynamicCache(config=config.get_text_config(decoder=True)).layers
    for layer in layers:
        if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer):
            raise UnsupportedRequestError(
                f"the backbone '{config.model_type}' has a {type(layer).__name__}; this engine "
                "serves models with attention layers alone"
            )
    return int(config.get_text_config(decoder=True).num_hidden_layers)
