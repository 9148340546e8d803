"""Settings of every test: draws that no other test changes, no limit that load trips over."""

import gc
import multiprocessing
import os
import random

import numpy
import pytest
import torch
from hypothesis import HealthCheck, settings

# Test processes run side by side: threads of one would only wait for those of another. The
# variables are for the commands that tests start.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Arrow's allocator keeps a thread, and a fork at the wrong moment waits for what that one holds.
os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")

# HYPOTHESIS_PROFILE=many, as `make test-all` sets it, draws twice as many examples.
for name, examples in (("some", 50), ("many", 100)):
    settings.register_profile(
        name,
        deadline=None,
        derandomize=True,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "some"))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Draws of a test do not hang on the tests before it."""
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files of the longest tests, so that at the end no process waits for another's.

    Whole files, since their tests share what is built once.
    """
    long = {item.path for item in items if item.get_closest_marker("exhaustive")}
    items.sort(key=lambda item: item.path not in long)


def pytest_collection_finish() -> None:
    """Keep what is imported out of collections of garbage, of which every training asks one."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """End the commands that a failed test has left running (tests/processes.py)."""
    for process in multiprocessing.active_children():
        process.kill()
    # Extensions report as leaked what the interpreter's own last collection leaves alone.
    gc.unfreeze()
