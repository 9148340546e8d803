"""What benchmarks/gpu.py consists of: its parts, their order and outcomes, and peaks of GPUs."""

import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import ROOT
from benchmarks.harness.settings import FiledSettings
from common.files import atomic_write
from models.files.backbone import MINILM_MODULE, SMOLLM2_MODULE

OWN_WORKER = "benchmarks.workers.gpu"
PEERS_WORKER = "benchmarks.workers.step"
PARTS_FOLDER, PEERS_FOLDER = "parts", "peers"
OK, MEMORY, LATE = "ok", "out of memory", "no time left"
# A part may take so many times what is expected of it.
PATIENCE = 3.0
# Dense bfloat16 TFLOP/s as NVIDIA's data sheets give them (without sparsity), by a part of the name
# that PyTorch reports; the first that is in it counts. A slice of a GPU has no published one.
SLICE = "MIG"
PUBLISHED_TFLOPS: dict[str, float] = {
    "GB200": 2500.0, "B200": 2250.0, "GH200": 989.4, "H200 NVL": 835.5, "H200": 989.4,
    "H100 NVL": 835.5, "H100 PCIe": 756.0, "H100": 989.4, "A100": 312.0, "A40": 149.7,
    "A30": 165.0, "A10G": 70.0, "A10": 125.0, "L40S": 362.05, "L40": 181.05, "L4": 121.0,
    "RTX 4090": 165.2, "RTX 3090": 71.0,
}  # fmt: skip


@dataclass(frozen=True)
class GpuSettings(FiledSettings):
    """What all parts are told.

    Attributes:
        device: "cuda", or "cpu" in its place.
        tiny: shapes that a CPU takes seconds for, in place of the real ones.
        threads: of a part.
    """

    device: str = "cuda"
    tiny: bool = False
    threads: int = 1
    seed: int = 0


@dataclass(frozen=True)
class Part:
    """One measurement in a process of its own.

    Attributes:
        name: GROUP/NAME, or GROUP alone.
        seconds: expected on one GPU, the process's start included; a guess that orders and bounds.
        worker: module that does it. argument: its PART there; None: the name.
        needs: the part without whose figures it cannot run.
        modules: what has to be installed for it beyond what all parts need.
        on_gpu: whether it computes on the GPU.
    """

    name: str
    seconds: float
    worker: str = OWN_WORKER
    argument: str | None = None
    needs: str | None = None
    modules: tuple[str, ...] = ()
    on_gpu: bool = True

    @property
    def group(self) -> str:
        """Return the name that --parts knows it by, beside its own."""
        return self.name.partition("/")[0]


STEPS = ("llama_8b", "smollm2", "llama_8b_prompt", "llama_1b", "llama_3b", "llama_8b_kept")
# The peers in train_step.py's own order, but what ships and its like first.
PEERS = (
    "ours_bf16", "pyg", "bare_lm", "loop", "ours_bf16_same_batches", "ours_fp32_same_batches",
    "ours_fp32", "ours_no_graph", "compiled_lm",
)  # fmt: skip
SHIPPED_MODULES = (SMOLLM2_MODULE, MINILM_MODULE)


def _parts() -> Iterator[Part]:
    yield Part("install", 30)
    yield Part("parity/float32", 40)
    yield Part("parity/bfloat16", 40)
    yield Part("attention", 20)
    for name in STEPS:
        yield Part(f"estimate/{name}", 60, on_gpu=False)
        yield Part(f"step/{name}", 60)
    yield (backbone := Part("backbone", 40, on_gpu=False))
    yield (prepared := Part("peers/prepare", 40, PEERS_WORKER, "prepare", backbone.name))
    for name in ("parity", *PEERS):
        yield Part(f"peers/{name}", 30, PEERS_WORKER, name, needs=prepared.name)
    yield Part("vllm", 150, modules=("vllm", *SHIPPED_MODULES))
    yield Part("loop/vllm", 180, modules=("vllm", *SHIPPED_MODULES))
    yield Part("loop/transformers", 120, needs=backbone.name, modules=SHIPPED_MODULES)


# In the order in which they run: should time run out, what is left is the least telling.
PARTS: dict[str, Part] = {part.name: part for part in _parts()}
# All Llamas of a recipe are one tiny shape; vLLM measures itself on a GPU.
TINY_LEFT_OUT = (
    "loop/vllm",
    *(
        f"{group}/llama_{size}"
        for group in ("estimate", "step")
        for size in ("1b", "3b", "8b_kept")
    ),
)


def chosen_parts(names: Sequence[str], tiny: bool) -> list[Part]:
    """Return the parts of these names or groups, all for none, in the order in which they run.

    Those that they need are among them.
    """
    every = [part for part in PARTS.values() if not (tiny and part.name in TINY_LEFT_OUT)]
    wanted = {part.name for part in every if not names or {part.name, part.group} & set(names)}
    # A part stands behind what it needs.
    for part in reversed(every):
        if part.name in wanted and part.needs:
            wanted.add(part.needs)
    return [part for part in every if part.name in wanted]


def missing(part: Part, settings: GpuSettings) -> str | None:
    """Return why a part cannot run on this installation; None where it can."""
    if part.name == "vllm" and settings.device == "cpu":
        return "vLLM is measured on a GPU here; benchmarks/engines.py has it on a CPU"
    needed = () if settings.tiny else part.modules
    absent = [name for name in needed if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


@dataclass(frozen=True)
class Outcome:
    """What came of a part.

    `status` is "ok", "out of memory", "no time left", "timed out", "differs: …", "failed: …" or
    "skipped: …".
    """

    status: str
    seconds: float
    figures: Mapping[str, Any]

    @property
    def done(self) -> bool:
        """Return whether it need not run again."""
        return self.status in (OK, MEMORY) or self.status.startswith("differs")

    @property
    def wrong(self) -> bool:
        """Return whether something is to be mended: not for want of time, memory or a library."""
        return self.status.startswith(("failed", "differs", "timed out"))


class Outcomes:
    """The outcomes of parts in a folder, one JSON file each, whole or not there at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / PARTS_FOLDER
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, name: str) -> Outcome | None:
        """Return what came of a part; None where it has not ended."""
        path = self._path(name)
        return Outcome(**json.loads(path.read_text("utf-8"))) if path.is_file() else None

    def put(self, name: str, outcome: Outcome) -> None:
        """Keep what came of a part."""
        with atomic_write(self._path(name)) as file:
            file.write(json.dumps(vars(outcome), indent=1) + "\n")

    def _path(self, name: str) -> Path:
        return self.folder / f"{name.replace('/', '-')}.json"


def part_command(part: Part, folder: Path, settings: GpuSettings) -> list[str]:
    """Return the command of a part; its last line is one JSON object."""
    if part.group == "loop":
        return [sys.executable, *_loop_command(part.name.partition("/")[2], folder, settings)]
    where = folder / PEERS_FOLDER if part.worker == PEERS_WORKER else folder
    return [sys.executable, "-m", part.worker, str(where), part.argument or part.name]


def _loop_command(engine: str, folder: Path, settings: GpuSettings) -> list[str]:
    command = [str(ROOT / "benchmarks" / "loop.py"), "--json", "--seed", str(settings.seed)]
    if not settings.tiny:
        runs = {"vllm": ["vllm:256"], "transformers": ["transformers:64"]}[engine]
        return [*command, "--questions", "256", "--dtype", "bfloat16", "--runs", *runs]
    components = [f"--{name}={folder / 'tiny' / name}" for name in ("ras", "t2t")]
    few = ["--questions", "2", "--entities", "60", "--max-answer-tokens", "4", "--top-k", "1"]
    plain = ["--dtype", "float32", "--retriever", "bm25", "--encoder", "hash", "--threads", "1"]
    none = ["--extraction", "all", "--runs", f"{engine}:2"]
    return [*command, *components, *few, *plain, *none]


def published_tflops(name: str) -> float | None:
    """Return a GPU's published dense bfloat16 peak in TFLOP/s; None for one that is not known."""
    if SLICE in name.split():
        return None
    words = f" {name} ".replace("-", " ")
    return next((peak for key, peak in PUBLISHED_TFLOPS.items() if f" {key} " in words), None)


def utilisation(flops: float, seconds: float, tflops: float) -> float:
    """Return the share of a peak that so many operations in so many seconds are."""
    return flops / (seconds * tflops * 1e12)
