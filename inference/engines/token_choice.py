"""The next token of a row: sampling, constraints of its form, and when the row is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import llguidance.hf
import torch
from llguidance import LLMatcher

from inference.engines.contract import Constraint, InvalidRequestError, LogprobsOf, Sampling

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
        self._matcher = matcher

    def masked(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the logits [vocabulary], minus infinity for tokens that may not come next."""
        # One byte a token, 0 where it is not allowed.
        allowed = torch.frombuffer(bytearray(self._matcher.compute_logit_bias()), dtype=torch.uint8)
        return logits.masked_fill(allowed.to(logits.device) == 0, -math.inf)

    def accept(self, token_id: int) -> None:
        """Take note of the token that came."""
        self._matcher.consume_token(token_id)


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
    on_tokens: hears of each token as it comes. logprobs_of: see `EngineOptions`.
    drawn_logprob: of the last token that `choose` returned, under the distribution that it was
    drawn from.
    """

    sampling: Sampling
    tokenizer: PreTrainedTokenizerBase
    end_ids: frozenset[int]
    matcher: Matcher | None = None
    abandoned: Callable[[], bool] = lambda: False
    on_tokens: Callable[[Sequence[int]], object] | None = None
    logprobs_of: LogprobsOf = "model"
    drawn_logprob: float = 0.0
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

    def choose(self, logits: torch.Tensor) -> int:
        """Return the next token, out of `logits` [vocabulary] under constraint and sampling."""
        if self.matcher is not None:
            logits = self.matcher.masked(logits)
        if self.generator is not None:
            return self._draw(logits)
        token_id = int(logits.argmax())
        if self.sampling.logprobs and self.logprobs_of == "sampled":
            self.drawn_logprob = float(logits.float().log_softmax(dim=-1)[token_id])
        return token_id

    def _draw(self, logits: torch.Tensor) -> int:
        # One uniform number on the cumulated probabilities: the same token wherever logits are
        # nearly the same, and no order of the vocabulary where none is asked for.
        weights = torch.softmax(logits.float().cpu() / self.sampling.temperature, dim=-1)
        ids = None
        if self.sampling.top_p < 1:
            weights, ids = weights.sort(descending=True, stable=True)
            before = weights.cumsum(dim=-1) - weights
            weights = weights.masked_fill(before >= self.sampling.top_p, 0.0)
        cumulated = weights.cumsum(dim=-1, dtype=torch.float64)
        point = torch.rand(1, generator=self.generator, dtype=torch.float64) * cumulated[-1]
        place = torch.searchsorted(cumulated, point, right=True)
        if self.sampling.logprobs and self.logprobs_of == "sampled":
            self.drawn_logprob = float((weights[place] / cumulated[-1]).log())
        return int(place if ids is None else ids[place])

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
            self.finish_reason = "stop"
        elif len(self.token_ids) >= self.sampling.max_new_tokens:
            self.finish_reason = "length"

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
    chosen = logits_BV.argmax(dim=-1)
    for place, row in enumerate(rows):
        if row.finish_reason is None and (row.generator is not None or row.matcher is not None):
            chosen[place] = row.choose(logits_BV[place])
    logprobs: list[float] | None = None
    if any(row.sampling.logprobs for row in rows):
        scores = logits_BV.float().log_softmax(dim=-1)
        logprobs = scores.gather(1, chosen[:, None])[:, 0].tolist()
        for place, row in enumerate(rows):
            # Elsewhere the two distributions are one.
            if row.logprobs_of == "sampled" and (row.generator or row.matcher):
                logprobs[place] = row.drawn_logprob
    for place, (row, token_id) in enumerate(zip(rows, chosen.tolist(), strict=True)):
        if row.finish_reason is None:
            wanted = logprobs is not None and row.sampling.logprobs
            row.accept(token_id, logprobs[place] if logprobs and wanted else None)
    return chosen
