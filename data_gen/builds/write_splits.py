"""Samples to one file a split, the same samples to the same file in every run."""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from common.files import atomic_write
from data_gen.sources.splits import SPLITS, hash_fraction, split_of
from data_gen.streaming.files import ExternalSort, sort_key, workspace
from models.formats.records import ConditionSample, InstructionSample, RasSample, TriplesSample
from models.formats.retrieval import RetrievalSample

logger = logging.getLogger(__name__)
Sample = TypeVar(
    "Sample", RasSample, TriplesSample, ConditionSample, InstructionSample, RetrievalSample
)


def write_splits(
    folder: Path,
    samples: Iterable[Sample],
    split_key: Callable[[Sample], str],
    seed: int,
    fractions: Sequence[float],
    keep_together: bool = False,
) -> dict[str, int]:
    """Write train, dev and test files by a hash of each sample's `split_key`; returns the counts.

    Samples of one key share a split. Within a file the order is that of a hash of the ids or,
    with `keep_together`, of the keys, so that samples of one key follow each other as given. The
    samples are read once; they are sorted on disk, in `folder`, where they do not fit in memory.
    """
    order_key = split_key if keep_together else attrgetter("id")
    counts: dict[str, int] = dict.fromkeys(SPLITS, 0)
    with workspace(folder) as work:
        order = ExternalSort(work)
        for number, sample in enumerate(samples):
            split = split_of(split_key(sample), seed, fractions)
            place = sort_key(hash_fraction(f"order/{order_key(sample)}", seed), number)
            line = json.dumps(sample.to_json(), ensure_ascii=False)
            try:
                order.add(f"{SPLITS.index(split)}{place}", f"{SPLITS.index(split)}{line}")
            except UnicodeEncodeError as error:
                problem = f"holds a character that UTF-8 has not ({error})"
                raise ValueError(f"sample {sample.id!a} {problem}. Correct its source") from None
            counts[split] += 1
        _write_files(folder, order)
    for split, share in zip(SPLITS, fractions, strict=True):
        if share > 0 and not counts[split]:
            logger.warning("the %s split is empty; a world keeps its own with --fractions", split)
    return counts


def _write_files(folder: Path, order: ExternalSort) -> None:
    """Write each line to the file of the split whose position it begins with."""
    with ExitStack() as stack:
        files = [stack.enter_context(atomic_write(folder / f"{split}.jsonl")) for split in SPLITS]
        for line in order:
            files[int(line[0])].write(f"{line[1:]}\n")
