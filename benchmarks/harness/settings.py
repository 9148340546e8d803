"""The settings and contestants of a comparison of training steps, and what is asked of each."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import torch
from torch import Tensor, nn

from benchmarks.harness.run_folder import SETTINGS_FILE

LengthDistribution = Literal["log-uniform", "uniform"]
Kind = Literal[
    "graph_llm", "graph_llm_without_graph", "pyg", "per_sample_loop", "bare_lm", "compiled_lm"
]


@dataclass(frozen=True)
class Forward:
    """Loss of a batch and the tokens, padding included, that the backbone worked through."""

    loss: Tensor
    padded_tokens: int


class StepModel(Protocol):
    """A model in training mode."""

    @property
    def module(self) -> nn.Module:
        """Holds every parameter that trains."""
        ...

    def forward(self, batch: Sequence[int]) -> Forward:
        """From the workload's samples of these indices to their loss, batching included."""
        ...


def on_device(batch: dict[str, Any], device: str) -> dict[str, Any]:
    """Return a batch whose tensors, and whose graphs, lie on a device."""
    place = torch.device(device)
    return {n: value if value is None else value.to(place) for n, value in batch.items()}


def synchronize(device: str) -> None:
    """Wait until a GPU has done what was asked of it."""
    if device != "cpu":
        torch.cuda.synchronize()


def device_peak(device: str) -> dict[str, int]:
    """Return the most memory that tensors took on a GPU, and with what the allocator kept."""
    if device == "cpu":
        return {}
    return {
        "peak_device_bytes": torch.cuda.max_memory_allocated(),
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
    }


@dataclass(frozen=True)
class FiledSettings:
    """A dataclass of plain values that goes to a part's process by way of a file."""

    def write(self, folder: Path) -> None:
        """Leave the settings where a contestant's process finds them."""
        (folder / SETTINGS_FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return what `write` left."""
        return cls(**json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8")))


@dataclass(frozen=True)
class StepSettings(FiledSettings):
    """Sizes of the comparison, the same for all contestants.

    Attributes:
        backbone, encoder: names as `load_backbone` and `load_sentence_encoder` take them.
        batches, batch_size: optimizer steps measured, samples a step.
        threads: threads that a contestant may use.
        device: that everyone trains on, "cpu" or "cuda".
        min_tokens, max_tokens: shortest and longest prompt.
        lengths: how prompt lengths are spread between the two; log-uniform over 120 to 900 has a
            mean of 387, uniform one of 510.
        graph_width, graph_layers, graph_heads, projector_width: of the graph encoder (RAS Table 8).
        seed: of samples, order and weights.
    """

    backbone: str = "smollm2"
    encoder: str = "minilm"
    batches: int = 4
    batch_size: int = 4
    threads: int = 1
    device: str = "cpu"
    min_tokens: int = 120
    max_tokens: int = 900
    lengths: LengthDistribution = "log-uniform"
    graph_width: int = 1024
    graph_layers: int = 3
    graph_heads: int = 8
    projector_width: int = 2048
    seed: int = 0


@dataclass(frozen=True)
class Contestant:
    """One way of training: `grouped` says whether its batches hold samples of like length."""

    kind: Kind
    dtype: Literal["bfloat16", "float32"]
    grouped: bool
    description: str


# In the order in which they run, like for like first: should time run out, what is left is the
# least telling.
CONTESTANTS: dict[str, Contestant] = {
    "ours_fp32_same_batches": Contestant(
        "graph_llm", "float32", False, "GraphLLM, all in float32, on the peers' batches"
    ),
    "pyg": Contestant("pyg", "float32", False, "PyG GRetriever as it ships"),
    "loop": Contestant("per_sample_loop", "float32", False, "per-sample loop as published"),
    "ours_bf16_same_batches": Contestant(
        "graph_llm", "bfloat16", False, "GraphLLM on the peers' batches"
    ),
    "ours_fp32": Contestant("graph_llm", "float32", True, "GraphLLM, all in float32"),
    "ours_bf16": Contestant("graph_llm", "bfloat16", True, "GraphLLM as shipped"),
    "bare_lm": Contestant("bare_lm", "bfloat16", True, "transformers and PEFT, no graph"),
    "compiled_lm": Contestant(
        "compiled_lm", "bfloat16", True, "transformers and PEFT, torch.compile, no graph"
    ),
    "ours_no_graph": Contestant(
        "graph_llm_without_graph", "bfloat16", True, "GraphLLM without its graph encoder"
    ),
}
