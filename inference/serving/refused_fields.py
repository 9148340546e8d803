"""Fields of a request that this server does not have: passed over, or refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference.serving.api_errors import ApiError

# They change no output.
PASSED_OVER = frozenset({"user", "metadata", "safety_identifier", "prompt_cache_key"})
# Values that ask for what is done anyway.
NEUTRAL: Mapping[str, Any] = {
    "n": 1,
    "best_of": 1,
    "stream": False,
    "echo": False,
    "store": False,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
    "min_p": 0,
    "logit_bias": {},
    "tools": [],
}
TENSORS = "no tensors are read from the network; send text or ids, and subgraphs as triples"
REMEDIES: Mapping[str, str] = {
    "n": "send the prompt several times, each with a seed of its own",
    "best_of": "send the prompt several times and choose",
    "stream": "an answer comes whole; leave stream out",
    "echo": "put the prompt in front of the answer yourself",
    "prompt_logprobs": "only generated tokens have log-probabilities; leave it out",
    "logit_bias": "hold the output by structured_outputs",
    "tools": "hold the output by structured_outputs",
}


def check_other_fields(extra: Mapping[str, Any]) -> None:
    """Raise ApiError for the first field that could change the output, and is not known here.

    extra: those that the body's own model does not have. A null counts as left out.
    """
    for name, value in extra.items():
        if value is None or name in PASSED_OVER:
            continue
        if name in NEUTRAL and value == NEUTRAL[name]:
            continue
        raise ApiError(400, _refusal(name), name, "unsupported_parameter")


def _refusal(name: str) -> str:
    shown = name if len(name) <= 60 else f"{name[:57]}..."
    remedy = TENSORS if "embed" in name else REMEDIES.get(name, "leave it out")
    if name in NEUTRAL:
        return f"{shown}: only {NEUTRAL[name]!r} is supported; {remedy}"
    return f"{shown}: not supported; {remedy}"
