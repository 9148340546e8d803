"""Splits by a hash of the question id, so that all steps of a question stay together."""

import hashlib
from collections.abc import Sequence
from typing import Literal

Split = Literal["train", "dev", "test"]


SPLITS: tuple[Split, ...] = ("train", "dev", "test")
DEFAULT_FRACTIONS = (0.94, 0.06, 0.0)


def check_fractions(fractions: Sequence[float]) -> tuple[float, float, float]:
    """Return train, dev and test shares. Raises ValueError unless they are three and sum to one."""
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
    """Return a number in [0, 1) that depends on nothing but `key` and `seed` (sha256)."""
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def split_of(
    question_id: str, seed: int = 0, fractions: Sequence[float] = DEFAULT_FRACTIONS
) -> Split:
    """Return the split that every sample of `question_id` belongs to.

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
