"""The likelihood of drawn tokens under what is trained: at the start that of their draw."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import nn

from models.parts.objective import OutcomeLoss
from training.recipe.drawn import OutcomeError

logger = logging.getLogger(__name__)
CHECKED = 16
AT_ONCE = 4
# Mean distance of a token's log-probability, by the kernels of two engines and by rounding.
CLOSE, CLOSE_IN_HALF = 0.005, 0.1
# Of the weights: with the hidden states of the samples that run at once.
ROOM = 1.3


def without_dropout(module: nn.Module) -> None:
    """Switch all dropout off: tokens were drawn without, and a ratio to that would be noise."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        for name in ("dropout", "attention_dropout"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)


@contextmanager
def placed(module: nn.Module, device: str | torch.device) -> Iterator[None]:
    """Put a module on a device for the block where it fits there; it is on the CPU again after.

    A model that FSDP or DeepSpeed will split over several GPUs may be too large for one.
    """
    device = torch.device(device)
    parts = chain(module.parameters(), module.buffers())
    needed = sum(tensor.numel() * tensor.element_size() for tensor in parts)
    if device.type == "cuda" and ROOM * needed > torch.cuda.mem_get_info(device)[0]:
        logger.warning(
            "the likelihood of drawn tokens is checked on the CPU, which takes a while: the model "
            "has %.1f GB, and %s less room than it needs",
            needed / 1e9,
            device,
        )
        device = torch.device("cpu")
    module.to(device)
    try:
        yield
    finally:
        module.to("cpu")


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
            module(**{name: value.to(module.backbone.device) for name, value in batch.items()})
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
