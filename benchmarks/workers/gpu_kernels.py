"""Our own kernels, losses and layers, each beside the same thing written out plainly."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.kernels.cpu_attention import cpu_encoder_attention, grouped_sdpa
from models.kernels.cpu_lora import Update, products
from models.parts.deep_prompt import PromptStates, prompted_attention
from models.parts.graph import GraphBatch
from models.parts.graph_encoder import GraphEncoder, GraphEncoderConfig, GraphKind
from models.parts.loss import IGNORE_INDEX, ROWS, label_logprobs, label_loss
from models.parts.objective import OutcomeLoss, Outcomes

SCALE, TEMPERATURE, SOFTCAP, WINDOW = 2.0, 0.7, 5.0, 12
WIDTH, VOCABULARY, PROMPT = 64, 512, 5
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 512, "tie_word_embeddings": True,
}  # fmt: skip
Tensors = dict[str, Tensor]
Compute = Callable[[Tensors], Tensor]


@dataclass(frozen=True)
class Kernel:
    """A function of ours and the same written out; those of `learned` have gradients."""

    ours: Compute
    reference: Compute
    tensors: Tensors
    learned: tuple[str, ...]


def kernels(seed: int) -> dict[str, Kernel]:
    """Return what is ours below a component, by name."""
    found: dict[str, Kernel] = {}
    for family in (_products, _losses, _attentions, _graphs):
        # Each anew, so that the sizes of one are not in the numbers of another.
        torch.manual_seed(seed)
        found.update(family())
    return found


def _products() -> Iterator[tuple[str, Kernel]]:
    tensors = {
        "x": torch.randn(3, 70, WIDTH), "weight": torch.randn(96, WIDTH) / 8,
        "bias": torch.randn(96), "a": torch.randn(8, WIDTH) / 8, "b": torch.randn(96, 8) / 3,
    }  # fmt: skip

    def ours(t: Tensors) -> Tensor:
        return products(t["x"], [Update(t["weight"], t["bias"], t["a"], t["b"], SCALE, 0.0)])[0]

    def reference(t: Tensors) -> Tensor:
        return F.linear(t["x"], t["weight"], t["bias"]) + SCALE * (t["x"] @ t["a"].T @ t["b"].T)

    yield "lora_product", Kernel(ours, reference, tensors, ("x", "a", "b"))


def _losses() -> Iterator[tuple[str, Kernel]]:
    """More labels than one block of the loss holds, over a frozen head."""
    length = ROWS + 40
    labels = torch.randint(VOCABULARY, (2, length))
    labels[:, : length // 4] = IGNORE_INDEX
    tensors = {
        "states": torch.randn(2, length, WIDTH), "head": torch.randn(VOCABULARY, WIDTH) / 4,
        "labels": labels, "advantages": torch.tensor([1.0, -0.5]),
        "drawn": torch.randn(2, length) - 8, "anchored": torch.tensor([0.0, 1.0]),
    }  # fmt: skip

    def head(t: Tensors) -> nn.Linear:
        linear = nn.Linear(WIDTH, VOCABULARY, bias=False, device="meta")
        linear.weight = nn.Parameter(t["head"].detach(), requires_grad=False)
        return linear

    def written_out(t: Tensors, temperature: float = 1.0) -> Tensor:
        logits = t["states"] @ t["head"].T / temperature
        chosen = t["labels"][:, 1:]
        logprobs = logits[:, :-1].log_softmax(-1).gather(2, chosen.clamp(min=0)[..., None])
        return logprobs.squeeze(2)[chosen != IGNORE_INDEX]

    def outcome(t: Tensors, found: Tensor, positions: Tensor) -> Tensor:
        told = Outcomes(t["advantages"].float(), t["drawn"].float(), t["anchored"].float())
        return OutcomeLoss("policy", TEMPERATURE)(found.float(), positions, told)

    def policy(t: Tensors) -> Tensor:
        found, positions = label_logprobs(t["states"], t["labels"], head(t), None, TEMPERATURE)
        return outcome(t, found, positions)

    def policy_written_out(t: Tensors) -> Tensor:
        chosen = t["labels"][:, 1:] != IGNORE_INDEX
        old = t["drawn"][:, 1:][chosen]
        gain = t["advantages"][:, None].expand(chosen.shape)[chosen]
        kept = t["anchored"][:, None].expand(chosen.shape)[chosen]
        new = written_out(t, TEMPERATURE)
        ratio = (new - old).exp()
        surrogate = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        divergence = (old - new).exp() - (old - new) - 1
        return (0.05 * kept * divergence - surrogate).mean()

    cases: dict[str, tuple[Compute, Compute]] = {
        "label_logprobs": (
            lambda t: label_logprobs(t["states"], t["labels"], head(t))[0], written_out
        ),
        "label_loss": (
            lambda t: label_loss(t["states"], t["labels"], head(t))[0],
            lambda t: -written_out(t).mean(),
        ),
        "outcome_loss": (policy, policy_written_out),
    }  # fmt: skip
    for name, (ours, reference) in cases.items():
        yield name, Kernel(ours, reference, tensors, ("states",))


def _attentions() -> Iterator[tuple[str, Kernel]]:
    """Four heads over two of keys, causal, with a prompt, padding, a window and a cap."""
    module: Any = SimpleNamespace(
        layer_idx=0, is_causal=True, num_key_value_groups=2, training=True
    )
    batch, heads, groups, length, size = 2, 4, 2, 40, 16
    padding = torch.ones(batch, length, dtype=torch.bool)
    padding[0, :7] = False
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    # A row that is padding sees itself, as transformers' masks have it.
    mask = (causal & padding[:, None, None, :]) | torch.eye(length, dtype=torch.bool)
    tensors = {
        "query": torch.randn(batch, heads, length, size),
        "key": torch.randn(batch, groups, length, size),
        "value": torch.randn(batch, groups, length, size),
        "prompt_key": torch.randn(groups, PROMPT, size),
        "prompt_value": torch.randn(groups, PROMPT, size),
        "mask": mask,
    }  # fmt: skip
    learned = ("query", "key", "value", "prompt_key", "prompt_value")

    def prompted(masked: bool, **options: Any) -> Compute:
        def ours(t: Tensors) -> Tensor:
            states = PromptStates({0: (t["prompt_key"], t["prompt_value"])}, PROMPT)
            return prompted_attention(
                module, t["query"], t["key"], t["value"], t["mask"] if masked else None,
                deep_prompt=states, **options,
            )[0]  # fmt: skip

        return ours

    def written_out(masked: bool, **options: Any) -> Compute:
        def reference(t: Tensors) -> Tensor:
            prompts = (t[f"prompt_{n}"].expand(batch, -1, -1, -1) for n in ("key", "value"))
            pairs = zip(prompts, (t["key"], t["value"]), strict=True)
            keys, values = (torch.cat(pair, 2).repeat_interleave(2, 1) for pair in pairs)
            scores = t["query"] @ keys.transpose(2, 3) * size**-0.5
            if cap := options.get("softcap"):
                scores = torch.tanh(scores / cap) * cap
            own = t["mask"] if masked else causal[None, None]
            seen = torch.cat([own.new_ones(*own.shape[:3], PROMPT), own], dim=3)
            if window := options.get("sliding_window"):
                distance = torch.arange(length)[:, None] - torch.arange(-PROMPT, length)
                # What the layer's own mask hides of the tokens is not this function's.
                seen = seen & ((distance < window) | (torch.arange(-PROMPT, length) >= 0))
            weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
            return (weights @ values).transpose(1, 2)

        return reference

    forms: dict[str, dict[str, Any]] = {
        "causal": {"masked": False}, "padded": {"masked": True},
        "window": {"masked": False, "sliding_window": WINDOW},
        "capped": {"masked": True, "softcap": SOFTCAP},
    }  # fmt: skip
    for name, options in forms.items():
        ours, reference = prompted(**options), written_out(**options)
        yield f"prompted_attention_{name}", Kernel(ours, reference, tensors, learned)

    def last(t: Tensors) -> Tensor:
        visible = t["mask"][:, :, -1:]
        return grouped_sdpa(module, t["query"][:, :, -1:], t["key"], t["value"], visible)[0]

    def last_written_out(t: Tensors) -> Tensor:
        keys, values = (t[name].repeat_interleave(2, 1) for name in ("key", "value"))
        scores = t["query"][:, :, -1:] @ keys.transpose(2, 3) * size**-0.5
        weights = scores.masked_fill(~t["mask"][:, :, -1:], float("-inf")).softmax(-1)
        return (weights @ values).transpose(1, 2)

    yield "grouped_decoding", Kernel(last, last_written_out, tensors, ())
    encoder: Any = SimpleNamespace(is_causal=False, num_key_value_groups=1, training=True)

    def full(t: Tensors) -> Tensor:
        keys, values = (t[name].repeat_interleave(2, 1) for name in ("key", "value"))
        seen = t["mask"][:, :, -1:].expand(-1, -1, length, -1)
        return cpu_encoder_attention(encoder, t["query"], keys, values, seen)[0]

    def full_written_out(t: Tensors) -> Tensor:
        keys, values = (t[name].repeat_interleave(2, 1) for name in ("key", "value"))
        scores = t["query"] @ keys.transpose(2, 3) * size**-0.5
        weights = scores.masked_fill(~t["mask"][:, :, -1:], float("-inf")).softmax(-1)
        return (weights @ values).transpose(1, 2)

    yield "encoder_attention", Kernel(full, full_written_out, tensors, ("query", "key", "value"))


def _graphs() -> Iterator[tuple[str, Kernel]]:
    """Each kind of graph encoder on two samples, of which one has no graph."""
    kinds: tuple[GraphKind, ...] = ("graph_transformer", "gat", "gcn")
    graph = random_graph(samples=3, empty=1)
    features = {"nodes": graph.node_features, "predicates": graph.predicate_features}
    for kind in kinds:
        config = GraphEncoderConfig(16, 32, 2, 4, 0.0, 48, WIDTH, kind)
        encoder = GraphEncoder(config).requires_grad_(False)
        own = {name: tensor.detach() for name, tensor in encoder.state_dict().items()}
        learned = tuple(name for name in own if name.endswith("weight") or name == "empty")
        compute = _encoding(encoder, graph, list(own))
        yield f"graph_encoder_{kind}", Kernel(compute, compute, {**features, **own}, learned)


def _encoding(encoder: GraphEncoder, graph: GraphBatch, names: list[str]) -> Compute:
    def compute(t: Tensors) -> Tensor:
        moved = replace(
            graph.to(t["nodes"].device),
            node_features=t["nodes"],
            predicate_features=t["predicates"],
        )
        found: Tensor = torch.func.functional_call(encoder, {n: t[n] for n in names}, (moved,))
        return found

    return compute


def random_graph(samples: int, empty: int) -> GraphBatch:
    """Return two sub-graphs of six nodes for each sample but the last `empty`."""
    graphs = 2 * (samples - empty)
    nodes, edges = 6 * graphs, 10 * graphs
    own = torch.arange(graphs).repeat_interleave(10)
    return GraphBatch(
        node_features=torch.randn(nodes, 16),
        predicate_features=torch.randn(edges, 16),
        edge_predicates=torch.arange(edges),
        edge_index=torch.randint(6, (2, edges)) + 6 * own,
        node_to_subgraph=torch.arange(graphs).repeat_interleave(6),
        subgraph_to_sample=torch.arange(graphs) // 2,
        batch_size=samples,
    )
