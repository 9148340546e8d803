"""A key-value cache that is written in place, drops finished rows and takes in others.

The library's dynamic cache copies all keys and values of all layers for every new token; here a
token is written into room reserved once, and a change of rows copies those alone that move.
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

# Of a room, beyond what its rows may fill: a new room copies all that is in it.
SPARE_COLUMNS = 48


class ReservedLayer(DynamicLayer):
    """One layer's keys and values [B, heads, `length`, head size], a part of a larger room.

    They begin at column `first` of the room, behind a soft prompt's keys and values
    [heads, n, head size], the same in every row; neither `capacity` nor `length` counts those.
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
        self.rows = 0
        self.first = 0
        self.key_room: torch.Tensor | None = None
        self.value_room: torch.Tensor | None = None

    @property
    def start(self) -> int:
        """The room's first column behind the soft prompt."""
        return self.first + self.offset

    @property
    def end(self) -> int:
        """The room's first column that is not filled."""
        return self.start + self.length

    def place(self, row: int, batch_size: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put prompts' states [b, heads, t, head size] at rows `row`..., ending at `length`."""
        if self.key_room is None or self.value_room is None:
            self.rows = batch_size
            self.key_room, self.value_room = self._new_room(keys), self._new_room(values)
            self._place_prompt()
            self.is_initialized = True
        start = self.end - keys.shape[2]
        self.key_room[row : row + len(keys), :, start : self.end] = keys
        self.value_room[row : row + len(values), :, start : self.end] = values

    def _new_room(self, states: torch.Tensor) -> torch.Tensor:
        """Return room for `rows` and `capacity`, and some columns more, for such states."""
        columns = self.offset + self.capacity + SPARE_COLUMNS
        # Zeros, not garbage: a masked NaN would still spread through the weighted sum.
        return states.new_zeros(self.rows, states.shape[1], columns, states.shape[3])

    def _place_prompt(self) -> None:
        """Put the soft prompt in front of every row."""
        assert self.key_room is not None and self.value_room is not None
        if self.prompt is not None:
            self.key_room[: self.rows, :, self.first : self.start] = self.prompt[0]
            self.value_room[: self.rows, :, self.first : self.start] = self.prompt[1]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append [B, heads, q, head size]; returns views of everything so far, prompt included."""
        assert self.key_room is not None and self.value_room is not None
        start, end = self.end, self.end + key_states.shape[2]
        self.key_room[: self.rows, :, start:end] = key_states
        self.value_room[: self.rows, :, start:end] = value_states
        self.length += key_states.shape[2]
        return (
            self.key_room[: self.rows, :, self.first : end],
            self.value_room[: self.rows, :, self.first : end],
        )

    def keep(self, count: int, gaps: torch.Tensor, moved: torch.Tensor, first_column: int) -> None:
        """Keep `count` rows, after those that are `moved` are put into the `gaps` among them.

        The columns before `first_column` are dropped.
        """
        assert self.key_room is not None and self.value_room is not None
        self.first += first_column
        self.length -= first_column
        self.capacity -= first_column
        self.rows = count
        for room in (self.key_room, self.value_room):
            room[gaps, :, self.start : self.end] = room[moved, :, self.start : self.end]
        # Else it is where it was, in the gaps too.
        if first_column:
            self._place_prompt()

    def extend(self, new_rows: int, length: int, capacity: int) -> None:
        """Add empty rows, and make room for `capacity` columns; what is there ends at `length`."""
        assert self.key_room is not None and self.value_room is not None
        keys, values = (
            room[: self.rows, :, self.start : self.end] for room in (self.key_room, self.value_room)
        )
        self.first -= length - self.length
        self.length, self.capacity, self.rows = length, capacity, self.rows + new_rows
        rows, columns = self.key_room.shape[0], self.key_room.shape[2]
        if self.first < 0 or self.rows > rows or self.start + capacity > columns:
            # Half on either side: longer prompts begin further left, later tokens are to the right.
            self.first = SPARE_COLUMNS // 2
            self.key_room, self.value_room = self._moved(keys), self._moved(values)
        self._place_prompt()

    def _moved(self, states: torch.Tensor) -> torch.Tensor:
        """Return a new room whose first rows have these states, ending at `length`."""
        room = self._new_room(states)
        room[: len(states), :, self.end - states.shape[2] : self.end] = states
        return room

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
        """Keep these rows of every layer, in this order, and no column before `first_column`.

        Rows that stay where they are cost nothing.
        """
        gaps = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        moved = rows[gaps]
        for layer in self.reserved:
            layer.keep(len(rows), gaps, moved, first_column)


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
