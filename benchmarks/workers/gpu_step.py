"""A recipe's training step on random weights: what it takes beside what was estimated."""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from benchmarks.harness.gpu import (
    MEMORY,
    GpuSettings,
    Outcomes,
    utilisation,
)
from benchmarks.harness.processes import peak_bytes
from benchmarks.harness.settings import device_peak, on_device, synchronize
from benchmarks.workers.gpu_device import device_facts
from models.parts.graph import GraphBatch
from models.parts.loss import IGNORE_INDEX
from training import train_ras, train_tri_rag
from training.fit.estimate import OPEN_KEYS, RESERVE_BYTES
from training.fit.memory import Launch, count_parameters, largest_batch, state_memory
from training.fit.sketch import (
    ARCHITECTURES,
    Lengths,
    Sketch,
    backbone_config,
    inputs,
    recipe_lengths,
    sketch,
)
from training.recipe.recipe import Recipe
from training.recipe.settings import T2TSettings, load_config

CONFIGS = ARCHITECTURES.parent
WARM_UP, LEAST_STEPS, MOST_STEPS, ENOUGH_SECONDS = 2, 3, 20, 15.0
LLAMA_1B = {
    "model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
    "max_position_embeddings": 131072, "tie_word_embeddings": True,
}  # fmt: skip
TINY = {
    "model_type": "llama", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 512, "tie_word_embeddings": True,
}  # fmt: skip
TINY_RECIPE = ("model.max_input_tokens=40", "model.max_output_tokens=8", "train.batch_size=2")
TINY_GRAPH = ("graph.hidden_dim=16", "graph.num_heads=2", "graph.projector_dim=32")
TINY_PROMPT = ("prompt.num_tokens=4",)
KEPT = "train.gradient_checkpointing=false"


@dataclass(frozen=True)
class Step:
    """A recipe on a shape.

    Attributes:
        architecture: a file of configs/architectures, or the values of such a file.
        moved: built on the CPU and moved, as a training builds it; else built where it trains.
    """

    recipe: str
    architecture: str | dict[str, Any]
    overrides: tuple[str, ...] = ()
    moved: bool = False


STEPS: dict[str, Step] = {
    "smollm2": Step("ras_smollm2", "smollm2_135m", moved=True),
    "llama_1b": Step("ras_llama3_8b", LLAMA_1B),
    "llama_3b": Step("ras_llama3_8b", "llama3_2_3b"),
    "llama_8b": Step("ras_llama3_8b", "llama3_8b"),
    "llama_8b_kept": Step("ras_llama3_8b", "llama3_8b", (KEPT,)),
    "llama_8b_prompt": Step("tri_rag_llama3_8b", "llama3_8b"),
}


@dataclass(frozen=True)
class Prepared:
    """A step's recipe with its settings, on a folder that holds the backbone's config alone."""

    step: Step
    recipe: Recipe[Any, Any]
    settings: T2TSettings
    tiny: bool

    @property
    def lengths(self) -> Lengths:
        """Return the recipe's longest."""
        return recipe_lengths(self.settings)

    def sketched(self, *overrides: str) -> Sketch:
        """Return its sketch under some settings more."""
        changed = replace(self.step, overrides=(*self.step.overrides, *overrides))
        folder = Path(self.settings.model.backbone)
        own = _settings(changed, folder, self.tiny)
        return sketch(own, self.recipe, recipe_lengths(own))


def prepared(folder: Path, name: str, tiny: bool) -> Prepared:
    """Return a step by its name."""
    step = STEPS[name]
    values = TINY if tiny else step.architecture
    if isinstance(values, str):
        values = json.loads((ARCHITECTURES / f"{values}.json").read_text("utf-8"))["config"]
    shape = folder / "shapes" / name
    shape.mkdir(parents=True, exist_ok=True)
    (shape / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return Prepared(step, _recipe(step), _settings(step, shape, tiny), tiny)


def _recipe(step: Step) -> Recipe[Any, Any]:
    return train_ras.RECIPE if step.recipe.startswith("ras") else train_tri_rag.RECIPE


def _settings(step: Step, backbone: Path, tiny: bool) -> Any:
    recipe = _recipe(step)
    own = TINY_GRAPH if recipe is train_ras.RECIPE else TINY_PROMPT
    small = (*TINY_RECIPE, *own) if tiny else ()
    given = (f"model.backbone={backbone}", "model.dtype=bfloat16", *small, *step.overrides)
    path = CONFIGS / f"{step.recipe}.yaml"
    return load_config(recipe.settings_type, path, given, OPEN_KEYS)


def estimate(folder: Path, settings: GpuSettings, name: str) -> dict[str, Any]:
    """Return what the project's estimate says of a step's memory and operations.

    `model_flops` are those that a step needs, without what gradient checkpointing computes again;
    a frozen weight needs no gradient of its own.
    """
    own = prepared(folder, name, settings.tiny)
    drawn = own.sketched()
    kept, one = own.sketched(KEPT), own.sketched("train.batch_size=1")
    state = state_memory(drawn.parameters, Launch.one, 1)
    return {
        "recipe": own.step.recipe,
        "parameters": drawn.parameters.total,
        "trained": drawn.parameters.trained,
        "batch_size": own.settings.train.batch_size,
        "gradient_checkpointing": own.settings.train.gradient_checkpointing,
        "tokens": own.settings.train.batch_size * (own.lengths.prompt + own.lengths.label),
        "state": state.total,
        "activations": drawn.run.peak_bytes,
        "activations_of_one": one.run.peak_bytes,
        "reserve": RESERVE_BYTES,
        "model_flops": kept.run.linear_flops + kept.run.attention_flops,
        "hardware_flops": drawn.run.linear_flops + drawn.run.attention_flops,
    }


def step(folder: Path, settings: GpuSettings, name: str) -> dict[str, Any]:
    """Measure a step; one that has no room is an outcome, with the batch that would have."""
    facts = device_facts(settings.device)
    known = Outcomes(folder).get(f"estimate/{name}")
    expected = dict(known.figures) if known is not None and known.status == "ok" else None
    try:
        measured = measure(prepared(folder, name, settings.tiny), settings)
    except torch.OutOfMemoryError as error:
        found: dict[str, Any] = {
            "status": MEMORY,
            "message": str(error).splitlines()[0],
            "estimate": expected,
        }
        if expected and facts["device_bytes"]:
            room = facts["device_bytes"] - expected["state"] - expected["reserve"]
            sizes = [expected[name] for name in ("batch_size", "activations", "activations_of_one")]
            fits = largest_batch(room, *sizes)
            found |= {"batch_size": expected["batch_size"], "estimated_to_fit": fits}
        return {**found, **device_peak(settings.device)}
    return {**facts, **measured, **beside(measured, expected, facts), "estimate": expected}


def beside(
    measured: dict[str, Any], expected: dict[str, Any] | None, facts: dict[str, Any]
) -> dict[str, Any]:
    """Return utilisation of the peak, and memory over what was estimated; None without one."""
    if expected is None:
        return {"mfu": None, "hfu": None, "memory_over_estimate": None}
    seconds, peak = measured["median_step_seconds"], facts["peak_tflops"]
    taken = measured.get("peak_device_bytes")
    return {
        "mfu": utilisation(expected["model_flops"], seconds, peak),
        "hfu": utilisation(expected["hardware_flops"], seconds, peak),
        "memory_over_estimate": taken and taken / (expected["state"] + expected["activations"]),
    }


def measure(own: Prepared, settings: GpuSettings) -> dict[str, Any]:
    """Return the median seconds of a micro-batch's forward and backward pass and a step of AdamW.

    Raises torch.OutOfMemoryError; ValueError for a loss that is not finite.
    """
    train, device = own.settings.train, settings.device
    module = build(own, device)
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=train.learning_rate)
    batch = on_device(random_inputs(module, train.batch_size, own.lengths, settings.seed), device)
    labels = train.batch_size * own.lengths.label
    seconds: list[float] = []
    while len(seconds) < WARM_UP + (LEAST_STEPS if settings.tiny else MOST_STEPS):
        synchronize(device)
        start = time.perf_counter()
        loss = module(**batch, num_items_in_batch=labels).loss
        loss.backward()
        if train.max_grad_norm:
            nn.utils.clip_grad_norm_(parameters, train.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        synchronize(device)
        seconds.append(time.perf_counter() - start)
        if len(seconds) >= WARM_UP + LEAST_STEPS and sum(seconds[WARM_UP:]) > ENOUGH_SECONDS:
            break
    if not bool(torch.isfinite(loss)):
        raise ValueError(f"the loss of {own.step.recipe} is {float(loss)}")
    tokens = batch["input_ids"].numel()
    middle = median(seconds[WARM_UP:])
    return {
        "steps": len(seconds) - WARM_UP,
        "median_step_seconds": middle,
        "fastest_step_seconds": min(seconds[WARM_UP:]),
        "slowest_step_seconds": max(seconds[WARM_UP:]),
        "first_step_seconds": seconds[0],
        "tokens": tokens,
        "tokens_per_second": tokens / middle,
        "parameters": sum(p.numel() for p in module.parameters()),
        "state_bytes": state_memory(count_parameters(module), Launch.one, 1).total,
        "peak_rss_bytes": peak_bytes(),
        **device_peak(device),
        **_used(device),
    }


def _used(device: str) -> dict[str, int]:
    """Return what of a GPU's memory is not free, with the context and other programs."""
    if device == "cpu":
        return {}
    free, total = torch.cuda.mem_get_info()
    return {"used_device_bytes": total - free}


def build(own: Prepared, device: str) -> nn.Module:
    """Return the recipe's module on random weights, ready to train on a device."""
    config = backbone_config(own.settings.model.backbone)
    with torch.device("cpu" if own.step.moved else device):
        backbone = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    backbone.config._name_or_path = own.settings.model.backbone
    module: Any = own.recipe.build(own.settings, backbone).to(device).train()
    if own.settings.train.gradient_checkpointing:
        module.gradient_checkpointing_enable()
    return module  # type: ignore[no-any-return]


def random_inputs(
    module: nn.Module, batch_size: int, lengths: Lengths, seed: int
) -> dict[str, Any]:
    """Return the micro-batch of the estimate with random ids and graphs in place of zeros."""
    draw = torch.Generator().manual_seed(seed)
    batch = inputs(module, batch_size, lengths)
    shape, vocabulary = batch["input_ids"].shape, module.config.vocab_size  # type: ignore[union-attr]
    ids: Tensor = torch.randint(vocabulary, shape, generator=draw)  # type: ignore[arg-type]
    labels = ids.clone()
    labels[:, : -lengths.label] = IGNORE_INDEX
    found = {**batch, "input_ids": ids, "labels": labels}
    if isinstance(graph := batch.get("graph"), GraphBatch):
        found["graph"] = _random_graphs(graph, draw)
    return found


def _random_graphs(graph: GraphBatch, draw: torch.Generator) -> GraphBatch:
    """Return as many nodes and edges, each sample's among themselves."""
    nodes, samples = len(graph.node_features), graph.batch_size
    each = nodes // samples
    own = torch.arange(samples).repeat_interleave(each)
    ends = torch.randint(each, (2, nodes), generator=draw) + own * each
    return replace(
        graph,
        node_features=torch.randn(graph.node_features.shape, generator=draw),
        predicate_features=torch.randn(graph.predicate_features.shape, generator=draw),
        edge_predicates=torch.arange(nodes),
        edge_index=ends,
        node_to_subgraph=own,
        subgraph_to_sample=torch.arange(samples),
    )
