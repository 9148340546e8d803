"""Asking a language model for the logits of the last position, at the cost of one position."""

import torch
from torch import Tensor


def last_position(device: torch.device) -> Tensor:
    """What to pass as `logits_to_keep`.

    As a number it makes transformers hand the head a strided slice, and PyTorch then copies the
    whole vocabulary's weights once a prompt on a CPU; indices give a small tensor of their own.
    """
    return torch.tensor([-1], device=device)
