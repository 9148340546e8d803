"""The likelihood of drawn tokens under what is trained: at the start that of their draw."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from models.parts.objective import OutcomeLoss
from training.recipe.drawn import OutcomeError

CHECKED = 16
AT_ONCE = 4
# Mean distance of a token's log-probability, by the kernels of two engines and by rounding.
CLOSE, CLOSE_IN_HALF = 0.005, 0.1


def without_dropout(module: nn.Module) -> None:
    """Switch all dropout off: tokens were drawn without, and a ratio to that would be noise."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        for name in ("dropout", "attention_dropout"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)


@torch.no_grad()
def check_likelihoods(
    module: Any, samples: Sequence[Any], collate: Callable[[Sequence[Any]], dict[str, Any]]
) -> float:
    """Refuse a module under which drawn tokens are less, or more, likely than when they were drawn.

    Stale weights, another backbone or another way of making graphs are found so before anything is
    learnt from them. Looks at the first samples; returns the mean distance of a token's
    log-probability.

    Raises OutcomeError.
    """
    outcome_loss, was_training = module.outcome_loss, module.training
    probe = OutcomeLoss("best_of", outcome_loss.temperature)
    module.outcome_loss = probe
    module.eval()
    try:
        for start in range(0, min(CHECKED, len(samples)), AT_ONCE):
            batch = collate(samples[start : start + AT_ONCE])
            del batch["sample_ids"]
            module(**batch)
    finally:
        module.outcome_loss = outcome_loss
        module.train(was_training)
    distance = probe.take_course()["distance"]
    close = CLOSE if module.backbone.dtype == torch.float32 else CLOSE_IN_HALF
    if distance > close:
        raise OutcomeError(
            f"the log-probability of a drawn token is {distance:.4f} away from that of its draw, "
            f"and {close} is allowed: these are not the weights that drew. Roll out again with the "
            "component of model.start_from, in its dtype"
        )
    return distance
