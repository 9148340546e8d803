"""The next token of a row: sampling, constraints of its form, and when the row is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import llguidance.hf
import llguidance.numpy
import numpy as np
import torch
from llguidance import LLExecutor, LLMatcher

from inference.engines.contract import (
    Constraint,
    EngineError,
    InvalidRequestError,
    LogprobsOf,
    Sampling,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CHECKED_CONSTRAINTS = 1024
# A character takes up to four byte-level tokens; a few more for tokens that decode to nothing.
TOKENS_A_CHARACTER = 4
SPARE_TOKENS = 8


def decode_ids(tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int]) -> str:
    """Return the text of ids, special tokens left out and spaces as they were generated."""
    return str(
        tokenizer.decode(
            list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
    )


def output_text(
    tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int], stop: Sequence[str]
) -> str:
    """Return the text of ids, cut before the first of the stop strings."""
    text = decode_ids(tokenizer, token_ids)
    ends = [text.find(string) for string in stop if string in text]
    return text[: min(ends)] if ends else text


def compiled(constraint: Constraint) -> str:
    """Return the constraint for llguidance. Raises InvalidRequestError for a schema not in JSON."""
    if constraint.regex is not None:
        return LLMatcher.grammar_from_regex(constraint.regex)
    if constraint.grammar is not None:
        return LLMatcher.grammar_from_lark(constraint.grammar)
    try:
        return LLMatcher.grammar_from_json_schema(
            constraint.json_schema or "", defaults={"whitespace_flexible": False}
        )
    except ValueError as error:
        raise InvalidRequestError(f"the JSON schema is not JSON: {error}") from None


class ConstraintCompiler:
    """Makes and checks the matchers of one tokenizer's vocabulary."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, vocabulary_size: int) -> None:
        """vocabulary_size: columns of the model's logits, which may be more than the tokens."""
        self._tokenizer = llguidance.hf.from_tokenizer(
            tokenizer,  # type: ignore[arg-type]
            n_vocab=vocabulary_size,
        )
        # The same few come with most requests; a choice among a question's topics is its own, and
        # a server's clients may send any number.
        self.check = lru_cache(CHECKED_CONSTRAINTS)(self._check)

    def _check(self, constraint: Constraint) -> None:
        """Raise InvalidRequestError for a constraint that is malformed or lets no text through."""
        grammar = compiled(constraint)
        problem = LLMatcher.validate_grammar(grammar, self._tokenizer)
        if problem:
            raise InvalidRequestError(f"the constraint is malformed: {problem.strip()}")
        matcher = LLMatcher(self._tokenizer, grammar)
        matcher.compute_bitmask()
        if matcher.is_stopped() and not matcher.is_accepting():
            raise InvalidRequestError(
                f"no text meets the constraint {_shown(constraint)}; loosen it"
            )

    def matcher(self, constraint: Constraint) -> Matcher:
        """Return a fresh matcher for one output."""
        return Matcher(LLMatcher(self._tokenizer, compiled(constraint)))


class Matcher:
    """Follows one output token by token."""

    def __init__(self, matcher: LLMatcher) -> None:
        self.matcher = matcher

    def accept(self, token_id: int) -> None:
        """Take note of the token that came. Raises EngineError for one that may not come here."""
        if not self.matcher.consume_token(token_id):
            raise EngineError(
                f"token {token_id} breaks the constraint of its request: the masks are not those "
                "of the backbone's tokenizer"
            )


def _shown(constraint: Constraint) -> str:
    text = constraint.regex or constraint.json_schema or constraint.grammar or ""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


@dataclass(frozen=True)
class Generated:
    """A row's outcome: ids with the end-of-sequence token, where there was one."""

    token_ids: tuple[int, ...]
    text: str
    finish_reason: str
    logprobs: list[float] | None


@dataclass(eq=False)
class RowState:
    """One request while it is being decoded.

    matcher: of its constraint. abandoned: whether nobody waits for its outcome any more.
    on_tokens: hears of each token as it comes. on_finish: hears of the row once it is done.
    logprobs_of: see `EngineOptions`. generator: of what is drawn.
    """

    sampling: Sampling
    tokenizer: PreTrainedTokenizerBase
    end_ids: frozenset[int]
    matcher: Matcher | None = None
    abandoned: Callable[[], bool] = lambda: False
    on_tokens: Callable[[Sequence[int]], object] | None = None
    on_finish: Callable[[RowState], object] | None = None
    logprobs_of: LogprobsOf = "model"
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: str | None = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        if self.sampling.temperature > 0:
            # On the CPU, so that a seed means the same tokens on every device.
            self.generator = torch.Generator()
            if self.sampling.seed is None:
                self.generator.seed()
            else:
                self.generator.manual_seed(self.sampling.seed)

    def accept(self, token_id: int, logprob: float | None) -> None:
        """Append a token and decide whether the row ends with it."""
        self.token_ids.append(token_id)
        if self.matcher is not None:
            self.matcher.accept(token_id)
        if logprob is not None:
            self.logprobs.append(logprob)
        if self.on_tokens is not None:
            self.on_tokens([token_id])
        if token_id in self.end_ids or self._at_stop_string():
            self.finish("stop")
        elif len(self.token_ids) >= self.sampling.max_new_tokens:
            self.finish("length")

    def finish(self, reason: str) -> None:
        """End the row."""
        self.finish_reason = reason
        if self.on_finish is not None:
            self.on_finish(self)

    def _at_stop_string(self) -> bool:
        if not self.sampling.stop:
            return False
        longest = max(map(len, self.sampling.stop))
        tail = self.token_ids[-(TOKENS_A_CHARACTER * longest + SPARE_TOKENS) :]
        text = decode_ids(self.tokenizer, tail)
        return any(stop in text for stop in self.sampling.stop)

    def result(self) -> Generated:
        """Return the finished row, its text cut before the first stop string."""
        return Generated(
            tuple(self.token_ids),
            output_text(self.tokenizer, self.token_ids, self.sampling.stop),
            self.finish_reason or "length",
            self.logprobs if self.sampling.logprobs else None,
        )


def choose_tokens(logits_BV: torch.Tensor, rows: list[RowState]) -> torch.Tensor:
    """Pick a token for each unfinished row and record it; returns the ids [B].

    logits_BV: one line a row, the finished rows' lines included (their token is not recorded).
    """
    active = [place for place, row in enumerate(rows) if row.finish_reason is None]
    held = held_to_constraints(logits_BV, rows, active)
    chosen = held.argmax(dim=-1)
    logprobs: dict[int, float] = {}
    for cut in (False, True):
        drawing = [
            place
            for place in active
            if rows[place].generator is not None and (rows[place].sampling.top_p < 1) == cut
        ]
        if drawing:
            token_ids, drawn_logprobs = draw(held, drawing, [rows[n] for n in drawing], cut)
            chosen[drawing] = token_ids
            told = zip(drawing, drawn_logprobs.tolist(), strict=True)
            logprobs |= {n: each for n, each in told if rows[n].logprobs_of == "sampled"}
    for logits, logprobs_of in ((logits_BV, "model"), (held, "sampled")):
        untold = [
            place
            for place in active
            if rows[place].sampling.logprobs
            and rows[place].logprobs_of == logprobs_of
            and place not in logprobs
        ]
        if untold:
            logprobs |= zip(untold, _logprobs(logits, chosen, untold), strict=True)
    for place, token_id in zip(active, chosen[active].tolist(), strict=True):
        row = rows[place]
        row.accept(token_id, logprobs.get(place) if row.sampling.logprobs else None)
    return chosen


def held_to_constraints(
    logits_BV: torch.Tensor, rows: Sequence[RowState], active: Sequence[int]
) -> torch.Tensor:
    """Return the logits, minus infinity where a row's constraint lets a token not come next.

    The very tensor that was given where no unfinished row, of those `active`, has a constraint.
    """
    matchers = {n: matcher for n in active if (matcher := rows[n].matcher) is not None}
    if not matchers:
        return logits_BV
    allowed = allowed_tokens(list(matchers.values()), logits_BV.shape[1], logits_BV.device)
    barred = torch.zeros_like(logits_BV, dtype=torch.bool)
    barred[list(matchers)] = ~allowed
    return logits_BV.masked_fill(barred, -math.inf)


def allowed_tokens(
    matchers: Sequence[Matcher], vocabulary_size: int, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Return of each token of the vocabulary whether it may come next, [N, vocabulary]."""
    # Worked out by threads beside Python's, one bit a token.
    shape = llguidance.numpy.get_bitmask_shape(len(matchers), vocabulary_size)
    bits = np.empty(shape, dtype=np.int32)
    numbered = [(each.matcher, row) for row, each in enumerate(matchers)]
    # Its twin for tensors would import torch's compiler, which takes seconds.
    llguidance.numpy.fill_next_token_bitmask_par(_executor(), numbered, bits)
    bytes_of_bits = torch.from_numpy(bits).to(device).view(torch.uint8).int()
    allowed = _bits_of_bytes(str(device)).index_select(0, bytes_of_bits.flatten())
    return allowed.view(len(matchers), -1)[:, :vocabulary_size]


@cache
def _bits_of_bytes(device: str) -> torch.Tensor:
    """Return the bits of each byte, the lowest first, [256, 8]."""
    return (torch.arange(256)[:, None] >> torch.arange(8) & 1).bool().to(device)


@cache
def _executor() -> LLExecutor:
    return LLExecutor()


def draw(
    logits_BV: torch.Tensor, places: Sequence[int], rows: Sequence[RowState], cut: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a token for each of `rows`, which stand at `places` of the logits, at its temperature.

    cut: the rows have a `top_p` below 1, under which log-probabilities are too.

    Returns the ids [N] and their log-probabilities [N].
    """
    if logits_BV.is_cuda:
        return _drawn(logits_BV[places], rows, cut)
    # What one row needs stays in a CPU's cache; all at once would take three times as long.
    found = [
        _drawn(logits_BV[place : place + 1].cpu(), [row], cut)
        for place, row in zip(places, rows, strict=True)
    ]
    token_ids, logprobs = (torch.cat(parts) for parts in zip(*found, strict=True))
    return token_ids.to(logits_BV.device), logprobs


def _drawn(
    logits_NV: torch.Tensor, rows: Sequence[RowState], cut: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    def column(values: Sequence[float]) -> torch.Tensor:
        return torch.tensor(values, device=logits_NV.device)[:, None]

    temperatures = column([row.sampling.temperature for row in rows])
    weights = (logits_NV.float() / temperatures).softmax(dim=-1)
    ids = None
    if cut:
        weights, ids = weights.sort(descending=True, stable=True)
        before = weights.cumsum(dim=-1) - weights
        is_cut = before >= column([row.sampling.top_p for row in rows])
        weights = weights.masked_fill(is_cut, 0.0)
    # One uniform number on the cumulated probabilities: the same token wherever logits are nearly
    # the same, and no order of the vocabulary where none is asked for.
    cumulated = weights.cumsum(dim=-1, dtype=torch.float64)
    uniform = [torch.rand(1, generator=row.generator, dtype=torch.float64) for row in rows]
    points = torch.stack(uniform).to(logits_NV.device) * cumulated[:, -1:]
    places = torch.searchsorted(cumulated, points, right=True)
    logprobs = (weights.gather(1, places) / cumulated[:, -1:]).log()
    token_ids = places if ids is None else ids.gather(1, places)
    return token_ids[:, 0], logprobs[:, 0]


def _logprobs(
    logits_BV: torch.Tensor, token_ids: torch.Tensor, places: Sequence[int]
) -> list[float]:
    """Return the log-probabilities of the tokens of some places."""
    if len(places) < len(logits_BV):
        logits_BV, token_ids = logits_BV[places], token_ids[places]
    scores = logits_BV.float().log_softmax(dim=-1)
    found: list[float] = scores.gather(1, token_ids[:, None])[:, 0].tolist()
    return found
