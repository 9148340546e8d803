"""Drawing of tokens: the distribution asked for, and the same token for nearly the same logits."""

import math
from dataclasses import replace

import pytest
import torch

from inference.engines.contract import Sampling
from inference.engines.token_choice import RowState
from models.files.backbone import SMOLLM2, load_tokenizer

DRAWS = 20_000
LOGITS = torch.tensor([0.0, 1.0, 2.0, -1.0, -math.inf, 0.5])


def _row(sampling: Sampling) -> RowState:
    return RowState(sampling, load_tokenizer(SMOLLM2), frozenset(), logprobs_of="sampled")


@pytest.mark.parametrize(
    ("top_p", "kept"),
    # In order of probability 2, 1, 5, 0, 3: 0.65, 0.83, 0.93, 0.98, 1.
    [(1.0, [0, 1, 2, 3, 5]), (0.9, [1, 2, 5]), (0.8, [1, 2]), (0.01, [2])],
)
def test_tokens_are_drawn_as_often_as_they_are_probable(top_p: float, kept: list[int]) -> None:
    row = _row(Sampling(temperature=0.8, top_p=top_p, seed=3, logprobs=True))
    wanted = torch.zeros(len(LOGITS))
    wanted[kept] = torch.softmax(LOGITS[kept] / 0.8, dim=-1)
    drawn = [(row.choose(LOGITS), row.drawn_logprob) for _ in range(DRAWS)]
    token_ids = torch.tensor([token_id for token_id, _ in drawn])
    logprobs = torch.tensor([logprob for _, logprob in drawn], dtype=torch.float64)
    torch.testing.assert_close(logprobs, wanted[token_ids].double().log(), rtol=0, atol=1e-6)
    counts = torch.bincount(token_ids, minlength=len(LOGITS))
    assert not counts[wanted == 0].any()
    # Five standard deviations of a share.
    spread = 5 * (wanted * (1 - wanted) / DRAWS).sqrt()
    assert ((counts / DRAWS - wanted).abs() <= spread + 1e-9).all()


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_a_seed_draws_the_same_from_nearly_the_same_logits(top_p: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(50_000, generator=generator)
    other = logits + 1e-6 * torch.randn(50_000, generator=generator)
    sampling = Sampling(temperature=1.0, top_p=top_p, seed=1)
    here, there, another = _row(sampling), _row(sampling), _row(replace(sampling, seed=2))
    drawn = [here.choose(logits) for _ in range(200)]
    same = sum(token == there.choose(other) for token in drawn)
    assert same >= 195
    assert drawn != [another.choose(logits) for _ in range(200)]
