"""Losses of outcomes: what a reward makes of the log-probabilities of tokens that were drawn."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

ObjectiveKind = Literal["imitation", "best_of", "policy", "preference"]
# Sums of a course, over tokens.
SUMS = 8


@dataclass(frozen=True)
class Outcomes:
    """What the trajectories of a batch tell of its samples, which are their model calls.

    advantages: [B], of a call's trajectory against the others of its question; of a kept one its
        weight (best_of). logprobs: [B, T] aligned with labels, of each token when it was drawn, 0
        elsewhere. anchored: [B], 1 where the trajectory is below its group's mean, else 0.
    """

    advantages: Tensor
    logprobs: Tensor
    anchored: Tensor

    def to(self, device: torch.device) -> "Outcomes":
        """Return the same on a device."""
        return Outcomes(*(t.to(device) for t in (self.advantages, self.logprobs, self.anchored)))


def means_of(sums: Tensor) -> dict[str, float]:
    """Return means by name of the sums [8] of an `OutcomeLoss`; nothing where no token was seen.

    ratio: new probability to old. clip_share: of tokens whose ratio was cut. kl: to the component
    that drew (k3). distance: of the log-probability from that of the draw. entropy: estimated by
    -log p of drawn tokens. rewarded_gain: of the log-probability of tokens with a positive
    advantage.
    """
    tokens, ratio, clipped, kl, distance, surprise, rewarded, gain = sums.tolist()
    if not tokens:
        return {}
    means = {
        "ratio": ratio / tokens,
        "clip_share": clipped / tokens,
        "kl": kl / tokens,
        "distance": distance / tokens,
        "entropy": surprise / tokens,
    }
    return means | ({"rewarded_gain": gain / rewarded} if rewarded else {})


class OutcomeLoss:
    """The loss of an objective over drawn tokens, and how its training goes.

    policy: a clipped importance ratio on each token, times the advantage (PPO's surrogate with a
    leave-one-out advantage), and a divergence to the component that drew, on trajectories below
    their group's mean alone. best_of: likelihood, each sample weighted. preference: DPO over pairs,
    which stand in rows 2i (better) and 2i + 1.
    """

    def __init__(
        self,
        kind: ObjectiveKind,
        temperature: float = 1.0,
        clip: float = 0.2,
        kl_weight: float = 0.05,
        beta: float = 0.1,
    ) -> None:
        """temperature: that tokens were drawn at; logits are scaled alike. beta: of DPO."""
        self.kind = kind
        self.temperature = temperature
        self.clip = clip
        self.kl_weight = kl_weight
        self.beta = beta
        self._sums = torch.zeros(SUMS)

    def __call__(
        self,
        logprobs: Tensor,
        positions: Tensor,
        outcomes: Outcomes,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """Return the loss of a batch.

        Args:
            logprobs, positions: [L], of `label_logprobs` at this temperature.
            outcomes: of the batch of B rows and T columns whose labels these are.
            num_items_in_batch: what the step's losses are divided by: label tokens, or pairs; None:
                this batch's own.
        """
        columns = outcomes.logprobs.shape[1]
        rows = positions // columns
        # Position t predicts the label at t + 1.
        drawn = outcomes.logprobs.reshape(-1).index_select(0, positions + 1)
        advantages = outcomes.advantages.index_select(0, rows)
        if self.kind == "preference":
            total, items = self._preference(logprobs, drawn, rows, len(outcomes.logprobs))
        else:
            anchored = outcomes.anchored.index_select(0, rows)
            losses = self._token_losses(logprobs, drawn, advantages, anchored)
            total, items = losses.sum(), max(len(losses), 1)
        self._note(logprobs.detach(), drawn, advantages)
        return total / (items if num_items_in_batch is None else num_items_in_batch)

    def take_sums(self) -> Tensor:
        """Return the sums [8] over all tokens since this was last asked, for `means_of`."""
        sums, self._sums = self._sums, torch.zeros(SUMS)
        return sums

    def take_course(self) -> dict[str, float]:
        """Return how the training went since this was last asked, as `means_of`."""
        return means_of(self.take_sums())

    def _token_losses(
        self, logprobs: Tensor, drawn: Tensor, advantages: Tensor, anchored: Tensor
    ) -> Tensor:
        if self.kind == "best_of":
            return -advantages * logprobs
        ratio = (logprobs - drawn).exp()
        cut = ratio.clamp(1 - self.clip, 1 + self.clip)
        surrogate = torch.minimum(ratio * advantages, cut * advantages)
        return self.kl_weight * anchored * divergence(logprobs, drawn) - surrogate

    def _preference(
        self, logprobs: Tensor, drawn: Tensor, rows: Tensor, batch_size: int
    ) -> tuple[Tensor, int]:
        gains = logprobs.new_zeros(batch_size).index_add(0, rows, logprobs - drawn)
        better, worse = gains.reshape(-1, 2).unbind(1)
        losses = -functional.logsigmoid(self.beta * (better - worse))
        # A pair without labels fills up a batch.
        tokens = logprobs.new_zeros(batch_size).index_add(0, rows, torch.ones_like(logprobs))
        counts = tokens.reshape(-1, 2).sum(dim=1) > 0
        return losses[counts].sum(), max(int(counts.sum()), 1)

    def _note(self, logprobs: Tensor, drawn: Tensor, advantages: Tensor) -> None:
        """Add to the sums, on the tokens' device: a training step waits for no figure."""
        gain = logprobs - drawn
        ratio, rewarded = gain.exp(), advantages > 0
        told = (
            torch.ones_like(gain), ratio, ((ratio - 1).abs() > self.clip).float(),
            divergence(logprobs, drawn), gain.abs(), -logprobs, rewarded.float(), gain * rewarded,
        )  # fmt: skip
        self._sums = self._sums.to(gain.device) + torch.stack(told).sum(dim=1)


def divergence(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return the estimate k3 of the KL divergence to a reference, of each token; never negative.

    Of tokens that the reference drew, as here, its mean is the KL divergence up to second order,
    and grows faster where the two part (chi-squared less KL).
    """
    difference = reference - logprobs
    # Rounding alone could take it below.
    return (difference.exp() - difference - 1).clamp(min=0)
