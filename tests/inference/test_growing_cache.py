"""The cache that is written in place: each row keeps its own states, whatever joins and leaves."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.cache_utils import DynamicCache

from inference.engines.transformers.decoding import moved_into_gaps
from inference.engines.transformers.growing_cache import SPARE_COLUMNS, GrowingCache
from models.parts.deep_prompt import PromptStates

LAYERS, HEADS, WIDTH = 2, 2, 3


def states(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, HEADS, columns, WIDTH)


class Rows:
    """A cache, and beside it each row's keys [heads, t, head size] as a tensor of its own."""

    def __init__(self, lengths: list[int], prompt: int, room: int) -> None:
        layers = {n: (states(1, prompt)[0], states(1, prompt)[0]) for n in range(LAYERS)}
        self.prompts = layers if prompt else {}
        self.room, self.width = room, max(lengths)
        deep_prompt = PromptStates(layers, prompt) if prompt else None
        self.cache = GrowingCache(LAYERS, self.width, self.width + room, deep_prompt)
        self.own: list[torch.Tensor] = []
        self.read(lengths)

    def read(self, lengths: list[int]) -> None:
        first, total = len(self.own), len(self.own) + len(lengths)
        for row, length in enumerate(lengths, first):
            prefilled = DynamicCache()
            keys = states(1, length)
            for layer in range(LAYERS):
                prefilled.update(keys + layer, -keys, layer)
            self.cache.place(row, total, prefilled, None)
            self.own.append(keys[0])

    def admit(self, lengths: list[int]) -> None:
        self.width = max(self.width, *lengths)
        self.cache.extend(len(lengths), self.width, self.width + self.room)
        self.read(lengths)

    def step(self) -> None:
        if self.width == self.cache.capacity:
            return
        keys = states(len(self.own), 1)
        self.width += 1
        self.own = [torch.cat([row, k], dim=1) for row, k in zip(self.own, keys, strict=True)]
        for layer in range(LAYERS):
            self.compare(layer, *self.cache.update(keys + layer, -keys, layer))

    def keep(self, rows: list[int]) -> None:
        self.own = [self.own[row] for row in rows]
        first = self.width - max(row.shape[1] for row in self.own)
        self.width -= first
        self.cache.keep(torch.tensor(rows), first)

    def compare(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        assert len(keys) == len(values) == len(self.own)
        offset = self.cache.reserved[layer].offset
        assert keys.shape[2] == values.shape[2] == offset + self.width
        assert keys.isfinite().all()
        if self.prompts:
            for found, prompt in zip((keys, values), self.prompts[layer], strict=True):
                assert all(torch.equal(row[:, :offset], prompt) for row in found)
        for row, own in enumerate(self.own):
            torch.testing.assert_close(keys[row, :, -own.shape[1] :], own + layer)
            torch.testing.assert_close(values[row, :, -own.shape[1] :], -own)


LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(st.data(), LENGTHS, st.sampled_from([0, 2]), st.sampled_from([3, SPARE_COLUMNS, 150]))
def test_rows_that_join_leave_and_move_keep_their_states(
    data: st.DataObject, lengths: list[int], prompt: int, room: int
) -> None:
    rows = Rows(lengths, prompt, room)
    for change in data.draw(st.lists(st.sampled_from(["step", "steps", "keep", "admit"]))):
        if change == "admit":
            rows.admit(data.draw(LENGTHS))
        elif change == "keep":
            places = data.draw(st.permutations(range(len(rows.own))))
            rows.keep(places[: data.draw(st.integers(1, len(places)))])
        for _ in range({"step": 1, "steps": 40}.get(change, 0)):
            rows.step()
    rows.step()


@given(st.sets(st.integers(0, 20), min_size=1))
def test_only_the_last_rows_move_into_gaps(active: set[int]) -> None:
    places = moved_into_gaps(sorted(active))
    assert sorted(places) == sorted(active)
    stay = {place for place in active if place < len(active)}
    assert all(places[place] == place for place in stay)


def test_changes_of_rows_share_a_room() -> None:
    rows = Rows([5, 5, 5, 5], 0, 10)
    rooms = set()
    for _ in range(SPARE_COLUMNS):
        rows.step()
        rows.keep([0, 3, 2])
        rows.admit([5])
        rooms.add(rows.cache.reserved[0].key_room)
    # The oldest row stays, so that every step takes a column.
    assert len(rooms) <= 3
