"""A training on outcomes while it runs: what its losses are divided by, and how tokens fare."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from accelerate import Accelerator

from models.parts.loss import IGNORE_INDEX
from models.parts.objective import OutcomeLoss, means_of

logger = logging.getLogger(__name__)


def items_of(
    accelerator: Accelerator,
    outcome_loss: OutcomeLoss | None,
    batches: Sequence[Mapping[str, Any]],
    label_tokens: Any,
) -> Any:
    """Return what a step's losses are divided by: pairs of all processes, or label tokens."""
    if outcome_loss is None or outcome_loss.kind != "preference":
        return label_tokens
    pairs = sum(int((batch["labels"] != IGNORE_INDEX).any(1)[::2].sum()) for batch in batches)
    return accelerator.reduce(torch.tensor(pairs, device=accelerator.device), "sum")


def course_of(accelerator: Accelerator, outcome_loss: OutcomeLoss) -> dict[str, float]:
    """Return how drawn tokens fared since this was last asked, over all processes.

    Sums are added up, so that a process without a rewarded token waits for no other.
    """
    own = outcome_loss.take_sums().to(accelerator.device)
    return means_of(accelerator.reduce(own, "sum"))


def has_lost(figures: Mapping[str, float], most_lost: float) -> bool:
    """Return whether rewarded tokens have lost more than so much log-probability; 0: any."""
    gain = figures.get("rewarded_gain", 0.0)
    if not most_lost or gain >= -most_lost:
        return False
    logger.warning(
        "rewarded tokens have lost %.3f of their log-probability, more than objective.most_lost=%s",
        -gain,
        most_lost,
    )
    return True
