"""Our requests and completions in vLLM's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from inference.engines.contract import Completion, Constraint, Request
from inference.engines.token_choice import output_text
from inference.engines.vllm.components import VLLMServed
from inference.engines.vllm.settings import REQUEST_KEY
from models.parts.graph import Subgraph


@dataclass(frozen=True, eq=False)
class Prepared:
    """A checked request: ids, graphs and what it is asked of."""

    request: Request
    served: VLLMServed
    input_ids: list[int]
    subgraphs: list[Subgraph]


def vllm_prompt(item: Prepared, graph_token: torch.Tensor | None) -> dict[str, Any]:
    """Return a prompt for vLLM: ids, placeholders for a soft prompt in front, a graph token's
    embedding.

    graph_token: [d] in the model's dtype, in place of the id at the component's position.
    """
    from vllm.inputs import EmbedsPrompt, TokensPrompt

    served = item.served
    ids = [int(served.tokenizer.pad_token_id)] * served.prefix_length + item.input_ids
    # Two prefixes over one text have the same ids: without a salt the cache would mix them up.
    salt = {"cache_salt": served.prefix} if served.prefix else {}
    if graph_token is None:
        return dict(TokensPrompt(prompt_token_ids=ids, **salt))
    assert served.graph_position is not None
    position = served.prefix_length + served.graph_position
    embeddings = graph_token.new_zeros(len(ids), len(graph_token))
    embeddings[position] = graph_token
    is_id = [place != position for place in range(len(ids))]
    return dict(
        EmbedsPrompt(
            prompt_embeds=embeddings, prompt_token_ids=ids, prompt_is_token_ids=is_id, **salt
        )
    )


def sampling_params(item: Prepared) -> Any:
    """Return how tokens are chosen, as vLLM's SamplingParams."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    sampling, constraint = item.request.sampling, item.request.constraint
    options: dict[str, Any] = {}
    if item.served.prefix:
        options["extra_args"] = {"kv_transfer_params": {REQUEST_KEY: item.served.prefix}}
    if constraint is not None:
        options["structured_outputs"] = _structured_outputs(constraint)
    return SamplingParams(
        max_tokens=sampling.max_new_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        stop=list(sampling.stop),
        stop_token_ids=sorted(item.served.end_ids),
        logprobs=0 if sampling.logprobs else None,
        # The text is made from the ids once, at the end; vLLM needs it for stop strings alone.
        detokenize=bool(sampling.stop),
        output_kind=RequestOutputKind.FINAL_ONLY,
        **options,
    )


def _structured_outputs(constraint: Constraint) -> Any:
    from vllm.sampling_params import StructuredOutputsParams

    return StructuredOutputsParams(
        json=constraint.json_schema, regex=constraint.regex, grammar=constraint.grammar
    )


def completion(item: Prepared, output: Any) -> Completion:
    """vLLM's finished output as ours; the placeholders of a soft prompt are not counted."""
    token_ids = tuple(output.token_ids)
    logprobs = None
    if item.request.sampling.logprobs:
        pairs = zip(token_ids, output.logprobs, strict=True)
        logprobs = [float(listed[token].logprob) for token, listed in pairs]
    return Completion(
        text=output_text(item.served.tokenizer, token_ids, item.request.sampling.stop),
        token_ids=token_ids,
        input_tokens=len(item.input_ids),
        output_tokens=len(token_ids),
        finish_reason=output.finish_reason,
        logprobs=logprobs,
    )
