"""Our own kernels, losses and layers on a device against the CPU, forward and backward.

A kernel is held to the same thing written out in float64, a component to itself in float32, both on
the CPU and on the same numbers: inputs and weights are rounded to the dtype first. A difference is
the norm of it over the norm of the reference.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.harness.gpu import GpuSettings
from benchmarks.harness.settings import on_device
from models.condition_extractor import ConditionExtractor, ConditionExtractorConfig
from models.files.backbone import DTYPES
from models.graph_llm import GraphLLM, GraphLLMConfig
from models.kernels.cpu_attention import cpu_encoder_attention, grouped_sdpa
from models.kernels.cpu_lora import LoraProduct
from models.parts.deep_prompt import PromptStates, prompted_attention
from models.parts.graph import GraphBatch
from models.parts.graph_encoder import GraphEncoder, GraphEncoderConfig, GraphKind
from models.parts.loss import IGNORE_INDEX, ROWS, label_logprobs, label_loss
from models.parts.objective import OutcomeLoss, Outcomes
from models.text_to_triples import TextToTriples, TextToTriplesConfig

# Of a kernel, and of a whole component, whose layers add their roundings up. In bfloat16 a CPU is
# below half of these, in float32 far below; an operand that is wrong is far above.
TOLERANCES = {
    "float32": {"kernel": 1e-4, "component": 1e-3},
    "bfloat16": {"kernel": 5e-2, "component": 8e-2},
}
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


def parity(folder: Path, settings: GpuSettings, dtype: str) -> dict[str, Any]:
    """Return the differences of all cases in a dtype; `status` names those above tolerance."""
    tolerances, differences = TOLERANCES[dtype], {}
    for name, kernel in kernels(settings.seed).items():
        differences[name] = kernel_difference(kernel, settings.device, DTYPES[dtype])
    for name, make in COMPONENTS.items():
        differences[name] = component_difference(make, settings, dtype)
    cases = {
        name: {
            "differences": found,
            "tolerance": tolerances["component" if name in COMPONENTS else "kernel"],
        }
        for name, found in differences.items()
    }
    # Written so that a NaN is above it.
    apart = [
        name
        for name, case in cases.items()
        if not all(value <= case["tolerance"] for value in case["differences"].values())
    ]
    return {
        "status": f"differs: {', '.join(apart)}" if apart else "ok",
        "dtype": dtype,
        "cases": cases,
        "worst": {
            kind: max(
                max(found.values())
                for name, found in differences.items()
                if (name in COMPONENTS) == (kind == "component")
            )
            for kind in ("kernel", "component")
        },
        "tolerances": tolerances,
    }


def difference(found: Tensor, reference: Tensor) -> float:
    """Return the norm of a difference over the reference's."""
    own, wanted = found.detach().cpu().double(), reference.detach().double()
    return float((own - wanted).norm() / wanted.norm().clamp(min=1e-30))


def kernel_difference(kernel: Kernel, device: str, dtype: torch.dtype) -> dict[str, float]:
    """Return the differences of the output and of each gradient."""
    rounded = {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in kernel.tensors.items()
    }
    exact = {n: t.double() if t.is_floating_point() else t for n, t in rounded.items()}
    found = _gradients(kernel.ours, {n: t.to(device) for n, t in rounded.items()}, kernel.learned)
    wanted = _gradients(kernel.reference, exact, kernel.learned)
    return {name: difference(found[name], wanted[name]) for name in wanted}


def _gradients(compute: Compute, tensors: Tensors, learned: tuple[str, ...]) -> Tensors:
    """Return the output, and the gradients of its product with numbers that stay the same."""
    given = {n: t.detach().clone().requires_grad_(n in learned) for n, t in tensors.items()}
    output = compute(given)
    if not learned:
        return {"output": output}
    draw = torch.Generator().manual_seed(1)
    weights = torch.randn(output.shape, generator=draw, dtype=torch.float64)
    (output.double() * weights.to(output.device)).sum().backward()
    gradients = {name: given[name].grad for name in learned}
    return {"output": output, **{n: g for n, g in gradients.items() if g is not None}}


def kernels(seed: int) -> dict[str, Kernel]:
    """Return what is ours below a component, by name."""
    torch.manual_seed(seed)
    return {**dict(_products()), **dict(_losses()), **dict(_attentions()), **dict(_graphs())}


def _products() -> Iterator[tuple[str, Kernel]]:
    tensors = {
        "x": torch.randn(3, 70, WIDTH), "weight": torch.randn(96, WIDTH) / 8,
        "bias": torch.randn(96), "a": torch.randn(8, WIDTH) / 8, "b": torch.randn(96, 8) / 3,
    }  # fmt: skip

    def ours(t: Tensors) -> Tensor:
        product: Tensor = LoraProduct.apply(
            t["x"], t["weight"], t["bias"], t["a"], t["b"], SCALE, 0.0
        )
        return product

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


def _backbone(dtype: str) -> LlamaForCausalLM:
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, pad_token_id=0))  # type: ignore[arg-type]
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.1)
    return model.to(DTYPES[dtype])


def _lora(dtype: str) -> nn.Module:
    config = TextToTriplesConfig("parity", lora_rank=4, lora_dropout=0.0)
    return TextToTriples.from_config(config, _backbone(dtype))


def _graph_llm(dtype: str) -> nn.Module:
    graph = GraphEncoderConfig(16, 32, 2, 4, 0.0, 48)
    config = GraphLLMConfig("parity", graph=graph, lora_dropout=0.0, graph_position=0)
    return GraphLLM.from_config(config, _backbone(dtype))


def _extractor(adaptation: str) -> Callable[[str], nn.Module]:
    def make(dtype: str) -> nn.Module:
        config = ConditionExtractorConfig("parity", adaptation=adaptation, num_prompt_tokens=PROMPT)
        return ConditionExtractor.from_config(config, _backbone(dtype))

    return make


COMPONENTS: Mapping[str, Callable[[str], nn.Module]] = {
    "component_lora": _lora,
    "component_graph": _graph_llm,
    "component_soft_prompt": _extractor("soft_prompt"),
    "component_prefix": _extractor("prefix_tuning"),
}


def component_difference(
    make: Callable[[str], nn.Module], settings: GpuSettings, dtype: str
) -> dict[str, float]:
    """Return differences of the loss, and of all gradients together, padded on either side.

    Padding on the right takes the path without a mask. The component is built on the CPU and then
    moved, as a training does it; its reference has the same weights in float32.
    """
    module = _stirred(make(dtype)).train()
    reference = make("float32").train()
    reference.load_state_dict(module.state_dict())
    module.to(settings.device)
    found = {}
    for side in ("right", "left"):
        batch = _batch(side, graph=isinstance(module, GraphLLM))
        losses = [
            _loss(module, on_device(batch, settings.device)),
            _loss(reference, batch),
        ]
        (own, gradients), (wanted, references) = losses
        found[f"loss_{side}"] = difference(own, wanted)
        found[f"gradients_{side}"] = difference(gradients, references)
    return found


def _stirred(module: nn.Module) -> nn.Module:
    """Give LoRA's B, which starts at zero, values: A has no gradient without them."""
    torch.manual_seed(4)
    for name, parameter in module.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.1)
    return module


def _batch(side: str, graph: bool) -> dict[str, Any]:
    torch.manual_seed(5)
    ids = torch.randint(3, VOCABULARY, (3, 24))
    mask = torch.ones_like(ids)
    mask[0, 16:], mask[1, 20:] = 0, 0
    if side == "left":
        mask = mask.flip(1)
    # A label is the end of a row's real tokens.
    place = mask.cumsum(1) * mask
    labels = torch.where(place > 8, ids, IGNORE_INDEX)
    batch: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    return {**batch, "graph": random_graph(3, 1)} if graph else batch


def _loss(module: nn.Module, batch: dict[str, Any]) -> tuple[Tensor, Tensor]:
    module.zero_grad()
    loss: Tensor = module(**batch).loss
    loss.backward()
    trained = [p for p in module.parameters() if p.requires_grad]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    return loss.detach().cpu(), torch.cat([g.detach().cpu().float().flatten() for g in gradients])
