"""Splits by a hash of the question id, and one file for each of them."""

import hashlib
from collections.abc import Sequence
from typing import Literal
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar
from common.files import atomic_write
from data_gen.streaming.files import ExternalSort, sort_key
from data_gen.streaming.files import workspace
from models.formats.records import ConditionSample, InstructionSample, RasSample, TriplesSample

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
DEFAULT_FRACTIONS = (0.94, 0.06, 0.0)
logger = logging.getLogger(__name__)
Sample = TypeVar("Sample", RasSample, TriplesSample, ConditionSample, InstructionSample)


def check_fractions(fractions: Sequence[float]) -> tuple[float, float, float]:
    """Train, dev and test shares as a tuple; ValueError unless three shares that sum to one."""
    if len(fractions) != 3 or any(share < 0 for share in fractions):
        raise ValueError(
            f"fractions {list(fractions)}: give three shares of train, dev and test, none negative"
        )
    if abs(sum(fractions) - 1.0) > 1e-6:
        raise ValueError(
            f"fractions {list(fractions)} sum to {sum(fractions):g}: they must sum to 1"
        )
    train, dev, test = fractions
    return train, dev, test


def hash_fraction(key: str, seed: int = 0) -> float:
    """A number in [0, 1) that depends on nothing but `key` and `seed` (sha256)."""
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def split_of(
    question_id: str, seed: int = 0, fractions: Sequence[float] = DEFAULT_FRACTIONS
) -> Split:
    """The split that every sample of `question_id` belongs to.

    `fractions` are the shares of train, dev and test; the same id and seed give the same split
    in every run, whatever other questions there are.
    """
    train, dev, _ = check_fractions(fractions)
    position = hash_fraction(question_id, seed)
    if position < train:
        return "train"
    # A share of zero stays empty whatever the rounding of the sum.
    if position < train + dev or fractions[2] == 0:
        return "dev" if dev > 0 else "train"
    return "test"


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
    order_key = split_key if keep_together else _id
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


def _id(sample: RasSample | TriplesSample | ConditionSample | InstructionSample) -> str:
    return sample.id
