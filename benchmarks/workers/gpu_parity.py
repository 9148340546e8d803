"""Our own kernels, losses and components on a device against the CPU, forward and backward.

A kernel is held to the same thing written out in float64, a component to itself in float32, both on
the CPU and on the same numbers: inputs and weights are rounded to the dtype first. A difference is
the norm of it over the norm of the reference.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.harness.gpu import GpuSettings
from benchmarks.harness.settings import on_device
from benchmarks.workers.gpu_kernels import (
    PROMPT,
    SIZES,
    VOCABULARY,
    Compute,
    Kernel,
    Tensors,
    kernels,
    random_graph,
)
from models.condition_extractor import ConditionExtractor, ConditionExtractorConfig
from models.files.backbone import DTYPES
from models.graph_llm import GraphLLM, GraphLLMConfig
from models.parts.graph_encoder import GraphEncoderConfig
from models.parts.loss import IGNORE_INDEX
from models.text_to_triples import TextToTriples, TextToTriplesConfig

# Of a kernel, and of a whole component, whose layers add their roundings up. In bfloat16 a CPU is
# below half of these, in float32 far below; an operand that is wrong is far above.
TOLERANCES = {
    "float32": {"kernel": 1e-4, "component": 1e-3},
    "bfloat16": {"kernel": 5e-2, "component": 8e-2},
}


def parity(folder: Path, settings: GpuSettings, dtype: str) -> dict[str, Any]:
    """Return the differences of all cases in a dtype; `status` names those above tolerance."""
    tolerances, differences = TOLERANCES[dtype], {}
    for name, kernel in kernels(settings.seed).items():
        differences[name] = kernel_difference(kernel, settings.device, DTYPES[dtype])
    for name, make in COMPONENTS.items():
        differences[name] = component_difference(make, settings, dtype)
    cases: dict[str, dict[str, Any]] = {
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


def _backbone(dtype: str) -> LlamaForCausalLM:
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, pad_token_id=0))  # type: ignore[arg-type]
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.1)
    return model.to(DTYPES[dtype])  # type: ignore[arg-type]


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
