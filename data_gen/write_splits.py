"""Samples to one file a split, the same samples to the same file in every run."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from data_gen.splits import SPLITS, hash_fraction, split_of
from models.formats.records import (
    ConditionSample,
    InstructionSample,
    RasSample,
    TriplesSample,
    write_records,
)

logger = logging.getLogger(__name__)
Sample = TypeVar("Sample", RasSample, TriplesSample, ConditionSample, InstructionSample)


def write_splits(
    folder: Path,
    samples: Sequence[Sample],
    split_key: Callable[[Sample], str],
    seed: int,
    fractions: Sequence[float],
    keep_together: bool = False,
) -> dict[str, int]:
    """Write train, dev and test files by a hash of each sample's `split_key`; returns the counts.

    Samples of one key share a split. Within a file the order is that of a hash of the ids or,
    with `keep_together`, of the keys, so that samples of one key follow each other as given.
    """
    counts: dict[str, int] = {}
    order_key = split_key if keep_together else _id
    for split in SPLITS:
        chosen = [s for s in samples if split_of(split_key(s), seed, fractions) == split]
        chosen.sort(key=lambda s: hash_fraction(f"order/{order_key(s)}", seed))
        counts[split] = write_records(folder / f"{split}.jsonl", chosen)
    for split, share in zip(SPLITS, fractions, strict=True):
        if share > 0 and not counts[split]:
            logger.warning("the %s split is empty; a world keeps its own with --fractions", split)
    return counts


def _id(sample: RasSample | TriplesSample | ConditionSample | InstructionSample) -> str:
    return sample.id
