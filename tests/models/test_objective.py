"""Losses of outcomes: gradients against plain autograd, clipping, anchors, pairs, batching."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.parts.loss import IGNORE_INDEX, label_logprobs, label_loss
from models.parts.objective import ObjectiveKind, OutcomeLoss, Outcomes, divergence

WORDS, WIDTH = 23, 8


class TwoLayers(nn.Module):
    """A model of the next token: states [B, T, d] from ids, and a frozen head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Embedding(WORDS, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False).requires_grad_(False)

    def forward(self, ids: Tensor) -> Tensor:
        states: Tensor = torch.tanh(self.second(self.first(ids)))
        return states

    def gradients(self) -> list[Tensor]:
        found = [p.grad.clone() for p in self.parameters() if p.grad is not None]
        self.zero_grad()
        return found


@pytest.fixture
def model() -> TwoLayers:
    return TwoLayers()


def batch_of(rows: int, columns: int = 7, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Ids, and labels of their second half."""
    torch.manual_seed(seed)
    ids = torch.randint(0, WORDS, (rows, columns))
    labels = ids.clone()
    for row in range(rows):
        labels[row, : 2 + row % 3] = IGNORE_INDEX
    return ids, labels


def outcomes_of(
    model: TwoLayers, ids: Tensor, labels: Tensor, away: float = 0.0, temperature: float = 1.0
) -> Outcomes:
    """Those of tokens that the model drew, `away` from its likelihoods, with some advantages."""
    with torch.no_grad():
        found, positions = label_logprobs(model(ids), labels, model.head, temperature=temperature)
    logprobs = torch.zeros(labels.shape)
    logprobs.reshape(-1)[positions + 1] = found + away
    advantages = torch.tensor([0.7, -0.4, 0.2, -1.1])[: len(ids)]
    return Outcomes(advantages, logprobs, (advantages < 0).float())


def loss_of(
    model: TwoLayers,
    ids: Tensor,
    labels: Tensor,
    outcomes: Outcomes,
    loss: OutcomeLoss,
    **more: Any,
) -> Tensor:
    found, positions = label_logprobs(model(ids), labels, model.head, temperature=loss.temperature)
    return loss(found, positions, outcomes, **more)


def plain_logprobs(
    model: TwoLayers, ids: Tensor, labels: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Log-probabilities [B, T - 1] of the labels and where there is one, by autograd alone."""
    logits = model.head(model(ids))[:, :-1] / temperature
    targets = labels[:, 1:]
    there = targets != IGNORE_INDEX
    found = functional.log_softmax(logits, dim=-1).gather(2, targets.clamp(min=0)[..., None])
    return found.squeeze(2), there


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.5])
def test_the_gradient_of_a_policy_is_that_of_reinforce(
    model: TwoLayers, temperature: float
) -> None:
    ids, labels = batch_of(4)
    outcomes = outcomes_of(model, ids, labels, temperature=temperature)
    loss = OutcomeLoss("policy", temperature)
    loss_of(model, ids, labels, outcomes, loss).backward()
    found = model.gradients()
    logprobs, there = plain_logprobs(model, ids, labels, temperature)
    advantages = outcomes.advantages[:, None].expand_as(logprobs)
    (-(advantages * logprobs)[there].sum() / there.sum()).backward()
    expected = model.gradients()
    assert len(found) == len(expected) == 3
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)
    course = loss.take_course()
    assert course["ratio"] == pytest.approx(1.0, abs=1e-5)
    assert course["distance"] == course["clip_share"] == 0 and course["kl"] == 0
    assert course["entropy"] == pytest.approx(float(-logprobs[there].detach().mean()), abs=1e-5)
    assert loss.take_course() == {}


def test_a_ratio_beyond_the_clip_teaches_no_more(model: TwoLayers) -> None:
    ids, labels = batch_of(4)
    # The model has come to like all of these tokens half as much again.
    outcomes = outcomes_of(model, ids, labels, away=-0.5)
    loss = OutcomeLoss("policy", clip=0.2, kl_weight=0.0)
    loss_of(model, ids, labels, outcomes, loss).backward()
    found = model.gradients()
    assert loss.take_course()["clip_share"] == 1.0
    logprobs, there = plain_logprobs(model, ids, labels)
    ratio = torch.exp(torch.tensor(0.5))
    # What is rewarded is cut off; what is punished is still pushed down, by its whole ratio.
    punished = outcomes.advantages.clamp(max=0)[:, None].expand_as(logprobs) * ratio
    (-(punished * logprobs)[there].sum() / there.sum()).backward()
    for ours, theirs in zip(found, model.gradients(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)


def test_only_trajectories_below_the_mean_are_anchored(model: TwoLayers) -> None:
    ids, labels = batch_of(4)
    outcomes = outcomes_of(model, ids, labels, away=0.3)
    values = [
        loss_of(model, ids, labels, outcomes, OutcomeLoss("policy", kl_weight=weight)).item()
        for weight in (0.0, 1.0)
    ]
    _, there = plain_logprobs(model, ids, labels)
    below = there & (outcomes.advantages < 0)[:, None]
    expected = divergence(torch.tensor(-0.3), torch.tensor(0.0)) * below.sum() / there.sum()
    assert values[1] - values[0] == pytest.approx(float(expected), rel=1e-4)


def test_the_likelihood_of_all_is_imitation(model: TwoLayers) -> None:
    ids, labels = batch_of(4)
    outcomes = outcomes_of(model, ids, labels)
    ones = Outcomes(torch.ones(4), outcomes.logprobs, torch.zeros(4))
    found = loss_of(model, ids, labels, ones, OutcomeLoss("best_of"))
    expected, _, _ = label_loss(model(ids), labels, model.head)
    torch.testing.assert_close(found, expected)
    weighted = Outcomes(torch.tensor([1.0, 0, 0, 0]), outcomes.logprobs, torch.zeros(4))
    alone, positions = label_logprobs(model(ids[:1]), labels[:1], model.head)
    one = loss_of(model, ids, labels, weighted, OutcomeLoss("best_of"), num_items_in_batch=5)
    torch.testing.assert_close(one, -alone.sum() / 5)
    assert len(positions) == 5


def test_a_preference_is_dpo_s(model: TwoLayers) -> None:
    ids, labels = batch_of(4)
    outcomes = outcomes_of(model, ids, labels, away=0.2)
    beta = 0.3
    loss_of(model, ids, labels, outcomes, OutcomeLoss("preference", beta=beta)).backward()
    found = model.gradients()
    logprobs, there = plain_logprobs(model, ids, labels)
    gains = ((logprobs - logprobs.detach() - 0.2) * there).sum(dim=1)
    margins = beta * (gains[::2] - gains[1::2])
    (-functional.logsigmoid(margins)).mean().backward()
    for ours, theirs in zip(found, model.gradients(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)


KINDS: list[ObjectiveKind] = ["best_of", "policy", "preference"]


@pytest.mark.parametrize("kind", KINDS)
def test_batches_padding_and_filling_change_nothing(model: TwoLayers, kind: ObjectiveKind) -> None:
    ids, labels = batch_of(4)
    outcomes = outcomes_of(model, ids, labels, away=0.1)
    items = 2 if kind == "preference" else int((labels != IGNORE_INDEX).sum())
    loss_of(model, ids, labels, outcomes, OutcomeLoss(kind)).backward()
    whole = model.gradients()
    for start in (0, 2):
        rows = slice(start, start + 2)
        # Padded on the right, and filled up with two rows without a label.
        more_ids = functional.pad(ids[rows], (0, 3, 0, 2))
        more_labels = functional.pad(labels[rows], (0, 3, 0, 2), value=IGNORE_INDEX)
        own = Outcomes(
            functional.pad(outcomes.advantages[rows], (0, 2)),
            functional.pad(outcomes.logprobs[rows], (0, 3, 0, 2)),
            functional.pad(outcomes.anchored[rows], (0, 2)),
        )
        part = loss_of(
            model, more_ids, more_labels, own, OutcomeLoss(kind), num_items_in_batch=items
        )
        part.backward()
    for ours, theirs in zip(model.gradients(), whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("frozen", [True, False])
def test_logits_are_scaled_as_they_were_for_the_draw(model: TwoLayers, frozen: bool) -> None:
    ids, labels = batch_of(3)
    model.head.requires_grad_(not frozen)
    found, positions = label_logprobs(model(ids), labels, model.head, temperature=0.5)
    logprobs, there = plain_logprobs(model, ids, labels, 0.5)
    torch.testing.assert_close(found, logprobs[there])
    assert len(positions) == int(there.sum())
    found.sum().backward()
    ours = model.gradients()
    logprobs[there].sum().backward()
    for one, other in zip(ours, model.gradients(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
