"""Memory that goes back to the system."""

import psutil
import pytest
import torch

from inference.engines.transformers.freed_memory import FreedMemory

MEBIBYTE = 2**20


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(psutil.Process().memory_info().rss)


def test_holes_between_what_is_in_use_are_given_back() -> None:
    freed = FreedMemory(seconds=0.0)
    if not freed.give_back():
        pytest.skip("the C library has no malloc_trim")
    # Small enough for the heap, which alone keeps holes.
    held = [torch.ones(16_384) for _ in range(2_000)]
    before = resident()
    held = held[::20]
    assert before - resident() < 20 * MEBIBYTE
    assert freed.give_back()
    assert before - resident() > 90 * MEBIBYTE
    assert all(tensor.sum() == 16_384 for tensor in held)


def test_it_waits_between_two_times() -> None:
    freed = FreedMemory(seconds=3600.0)
    assert not freed.give_back()
