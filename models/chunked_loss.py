"""Summed cross-entropy through a frozen LM head, a few hundred rows at a time.

Logits of all label positions, in two types and with their gradient, are the largest tensors of a
step. With a frozen head the gradient of a row is known as soon as its logits are, so each block of
rows is done with at once, in buffers that are used again. `functional.linear_cross_entropy` does
the same but rounds the loss to the hidden states' type.
"""

from typing import Any

import torch
from torch import Tensor

ROWS = 256


class FrozenHeadLoss(torch.autograd.Function):
    """Sum of the token losses of hidden states [L, d] under weights [V, d] and targets [L]."""

    @staticmethod
    def forward(ctx: Any, hidden_states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        """The loss, a float32 scalar; the gradient of the states is kept for the backward pass."""
        gradient = torch.empty_like(hidden_states)
        total = hidden_states.new_zeros((), dtype=torch.float32)
        size = (min(ROWS, len(hidden_states)), len(weight))
        logits, weights = weight.new_empty(size), weight.new_empty(size, dtype=torch.float32)
        for start in range(0, len(hidden_states), ROWS):
            rows, labels = hidden_states[start : start + ROWS], targets[start : start + ROWS, None]
            count = len(rows)
            scores = torch.mm(rows, weight.t(), out=logits[:count])
            log_weights = torch.log_softmax(
                scores, dim=-1, dtype=torch.float32, out=weights[:count]
            )
            of_labels = log_weights.gather(1, labels)
            total -= of_labels.sum()
            probabilities = log_weights.exp_().scatter_(1, labels, of_labels.exp() - 1)
            torch.mm(scores.copy_(probabilities), weight, out=gradient[start : start + count])
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        """The kept gradient, scaled."""
        (gradient,) = ctx.saved_tensors
        return gradient * grad.to(gradient.dtype), None, None
