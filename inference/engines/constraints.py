"""What an output may be, and the masks that hold decoding to it (llguidance)."""

from __future__ import annotations

import math
from functools import lru_cache

import llguidance.hf
import torch
from llguidance import LLMatcher
from transformers import PreTrainedTokenizerBase

from inference.engines.contract import Constraint
from inference.engines.errors import InvalidRequestError

CHECKED_CONSTRAINTS = 1024


def compiled(constraint: Constraint) -> str:
    """The constraint as llguidance takes it. Raises InvalidRequestError: a schema not in JSON."""
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
        """A fresh matcher for one output."""
        return Matcher(LLMatcher(self._tokenizer, compiled(constraint)))


class Matcher:
    """Follows one output token by token."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher

    def masked(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits [vocabulary], minus infinity for tokens that may not come next."""
        # One byte a token, 0 where it is not allowed.
        allowed = torch.frombuffer(bytearray(self._matcher.compute_logit_bias()), dtype=torch.uint8)
        return logits.masked_fill(allowed.to(logits.device) == 0, -math.inf)

    def accept(self, token_id: int) -> None:
        """Take note of the token that came."""
        self._matcher.consume_token(token_id)


def _shown(constraint: Constraint) -> str:
    text = constraint.regex or constraint.json_schema or constraint.grammar or ""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
