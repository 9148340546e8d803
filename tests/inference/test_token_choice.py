"""Drawing of tokens: the distribution asked for, and the same token for nearly the same logits."""

import math
from dataclasses import replace

import pytest
import torch

from inference.engines.contract import Constraint, EngineError, Sampling
from inference.engines.token_choice import ConstraintCompiler, RowState, choose_tokens, draw
from models.files.backbone import SMOLLM2, load_tokenizer

DRAWS = 20_000
LOGITS = torch.tensor([0.0, 1.0, 2.0, -1.0, -math.inf, 0.5])


def _next(row: RowState, logits: torch.Tensor) -> int:
    token_ids, _ = draw(logits[None], [0], [row], cut=row.sampling.top_p < 1)
    return int(token_ids)


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
    token_ids, logprobs = draw(LOGITS[None], [0] * DRAWS, [row] * DRAWS, cut=top_p < 1)
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
    drawn = [_next(here, logits) for _ in range(200)]
    same = sum(token == _next(there, other) for token in drawn)
    assert same >= 195
    assert drawn != [_next(another, logits) for _ in range(200)]


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_a_row_draws_the_same_in_company(top_p: float) -> None:
    """Rows at several temperatures, held to a constraint, cut and greedy, in one batch."""
    samplings = [
        Sampling(temperature=temperature, top_p=cut, seed=seed, logprobs=True)
        for seed, (temperature, cut) in enumerate([(0.7, top_p), (0.0, 1.0), (1.3, 1.0)])
    ]
    tokenizer = load_tokenizer(SMOLLM2)
    vocabulary = len(tokenizer)
    compiler = ConstraintCompiler(tokenizer, vocabulary)
    constraint = Constraint(regex="(yes|no) [a-z]{3,9}")

    def rows() -> list[RowState]:
        return [
            RowState(
                sampling,
                tokenizer,
                frozenset(),
                compiler.matcher(constraint) if held else None,
                logprobs_of="sampled",
            )
            for sampling in samplings
            for held in (False, True)
        ]

    together, alone = rows(), rows()
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        logits = 4 * torch.randn(len(together), vocabulary, generator=generator)
        choose_tokens(logits, together)
        for place, row in enumerate(alone):
            choose_tokens(logits[place : place + 1], [row])
    assert [row.token_ids for row in together] == [row.token_ids for row in alone]
    for here, there in zip(together, alone, strict=True):
        assert here.logprobs == pytest.approx(there.logprobs, abs=1e-6)
    assert all(text.startswith(("yes", "no")) for text in (r.result().text for r in together[1::2]))


def test_a_token_that_breaks_the_constraint_is_an_error() -> None:
    tokenizer = load_tokenizer(SMOLLM2)
    matcher = ConstraintCompiler(tokenizer, len(tokenizer)).matcher(Constraint(regex="a+"))
    right, wrong = (tokenizer.encode(letter, add_special_tokens=False)[0] for letter in "ab")
    matcher.accept(right)
    with pytest.raises(EngineError, match="breaks the constraint"):
        matcher.accept(wrong)
