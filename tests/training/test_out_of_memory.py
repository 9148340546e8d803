"""A training without memory says which micro-batch it was and what would fit."""

import argparse
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from models.text_to_triples import TextToTriples
from tests.training.conftest import ROOT, Settings
from training.fit.estimate import RESERVE_BYTES
from training.fit.memory import Launch, largest_batch, state_memory
from training.fit.sketch import recipe_lengths, sketch
from training.loop.guards import DataWorkerError, is_out_of_memory
from training.run.out_of_memory import fitting_batch, what_fits
from training.run.runner import carry_out
from training.train_t2t import RECIPE

pytestmark = pytest.mark.timeout(300)
# More than any machine has: PyTorch's own error, whatever its words are.
TOO_MUCH = 1 << 60


def test_the_largest_batch_of_a_constant_and_a_share_for_each_sample() -> None:
    # A constant of 10, and 20 for each sample.
    assert largest_batch(90, 4, 90, 30) == 4 and largest_batch(89, 4, 90, 30) == 3
    assert largest_batch(29, 4, 90, 30) == 0 and largest_batch(-140, 4, 90, 30) == 0
    assert largest_batch(60, 1, 30, 30) == 2


def test_what_is_named_fits_by_the_estimate_and_the_next_larger_does_not(
    settings: Settings,
) -> None:
    given = settings("train.batch_size=12", "train.gradient_accumulation_steps=2")
    lengths = recipe_lengths(given)

    def needed(batch_size: int) -> int:
        drawn = sketch(settings(f"train.batch_size={batch_size}"), RECIPE, lengths)
        state = state_memory(drawn.parameters, Launch.one, 1)
        return state.total + RESERVE_BYTES + drawn.run.peak_bytes

    assert fitting_batch(RECIPE, given, lengths, 1, needed(5)) == 5
    # The largest that divides the micro-batch, so that the steps stay the same.
    said = what_fits(RECIPE, given, lengths, 1, needed(5))
    assert said.endswith("train.batch_size=4 train.gradient_accumulation_steps=6")
    # What did not fit is not named again, whatever the estimate says.
    said = what_fits(RECIPE, given, lengths, 1, needed(40))
    assert said.endswith("train.batch_size=6 train.gradient_accumulation_steps=4")


def test_checkpointing_is_named_where_no_smaller_batch_fits(settings: Settings) -> None:
    given = settings("train.batch_size=1", "train.gradient_checkpointing=false")
    lengths = recipe_lengths(given)
    said = what_fits(RECIPE, given, lengths, 1, 1 << 40)
    assert said.endswith(
        "train.batch_size=1 train.gradient_accumulation_steps="
        f"{given.train.gradient_accumulation_steps} train.gradient_checkpointing=true"
    )
    said = what_fits(RECIPE, given, lengths, 1, RESERVE_BYTES)
    assert re.search(
        r"no sample of [\d,]+ tokens fits into 1\.00 GiB: lower model\.max_input", said
    )
    said = what_fits(RECIPE, settings("model.backbone=not/here"), lengths, 1)
    assert said.startswith("Lower train.batch_size")


@pytest.mark.parametrize(
    ("pass_number", "said"),
    [
        (1, r"out of memory before the first step, in a micro-batch of 4 samples .*batch_size=2 "),
        (4, r"out of memory at step 2, in a micro-batch of 4 samples .*from checkpoint-1$"),
    ],
)
def test_a_batch_without_memory_ends_the_command_with_what_would_fit(
    pass_number: int,
    said: str,
    triples_file: Path,
    backbone: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forward, passes = TextToTriples.forward, 0

    def greedy(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal passes
        passes += 1
        # Two passes measure what is printed at the start.
        if passes == pass_number:
            torch.empty(TOO_MUCH, dtype=torch.uint8)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(TextToTriples, "forward", greedy)
    overrides = [
        f"output_dir={tmp_path / 'out'}", f"data.train={triples_file}",
        f"model.backbone={backbone}", "train.batch_size=4", "train.gradient_accumulation_steps=1",
        "train.save_steps=1", "train.max_steps=3", "train.tensorboard=false",
    ]  # fmt: skip
    config = ROOT / "configs/t2t_tiny.yaml"
    with pytest.raises(SystemExit, match=said) as error:
        carry_out(
            RECIPE,
            argparse.Namespace(estimate=False, config=config, overrides=overrides, json=False),
        )
    assert "\n" not in str(error.value) and f"{TOO_MUCH} bytes were asked for" in str(error.value)


def test_only_a_lack_of_memory_is_taken_for_one() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert is_out_of_memory(MemoryError()) and not is_out_of_memory(ValueError("not enough memory"))
    assert not is_out_of_memory(RuntimeError("expected two tensors"))
    quoted = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")
    assert is_out_of_memory(quoted) and not is_out_of_memory(DataWorkerError(quoted))
