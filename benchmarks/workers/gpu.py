"""One part of benchmarks/gpu.py in a process of its own; its last line is one JSON object.

gpu.py starts it: python -m benchmarks.workers.gpu FOLDER PART
"""

import importlib.util
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.gpu import PEERS_FOLDER, GpuSettings
from benchmarks.harness.settings import StepSettings
from benchmarks.workers.gpu_device import install
from common.commands import command_parser
from common.tables import emit_json
from models.files.backbone import MINILM, MINILM_MODULE, SMOLLM2, SMOLLM2_MODULE

# Prompts of one token a byte are never shorter than this.
LEAST_BYTES = 900
TINY_GRAPH = {"graph_width": 16, "graph_heads": 2, "projector_width": 32}


def backbone(folder: Path, settings: GpuSettings) -> dict[str, Any]:
    """Return the backbone of peers and loop, and write what is random of it.

    Where the package with SmolLM2 is not installed a random model of its shape reads one token a
    byte. A step takes as long whatever the weights are.
    """
    peers = folder / PEERS_FOLDER
    peers.mkdir(exist_ok=True)
    common = {"threads": settings.threads, "device": settings.device, "seed": settings.seed}
    encoder = MINILM if importlib.util.find_spec(MINILM_MODULE) else "hash"
    if settings.tiny:
        name = write_tiny_components(folder / "tiny")
        small = {"batches": 1, "batch_size": 2, "min_tokens": LEAST_BYTES, "max_tokens": 1000}
        step = StepSettings(name, "hash", **small, **TINY_GRAPH, **common)  # type: ignore[arg-type]
    elif importlib.util.find_spec(SMOLLM2_MODULE):
        step = StepSettings(SMOLLM2, encoder, batches=8, batch_size=8, **common)  # type: ignore[arg-type]
    else:
        name = write_random_backbone(folder / "random_smollm2")
        sizes = {"min_tokens": LEAST_BYTES, "max_tokens": 2 * LEAST_BYTES}
        step = StepSettings(name, encoder, 8, 8, **sizes, **common)  # type: ignore[arg-type]
    step.write(peers)
    return {"backbone": Path(step.backbone).name, "random": step.backbone != SMOLLM2}


def write_random_backbone(folder: Path) -> str:
    """Write a random model of SmolLM2's shape with a tokenizer of bytes; returns its name."""
    from transformers import LlamaForCausalLM

    from benchmarks.harness.forms import write_model
    from training.fit.sketch import backbone_config

    write_model(folder, 64, 1, seed=0)
    model = LlamaForCausalLM(backbone_config(SMOLLM2))  # type: ignore[arg-type]
    model.save_pretrained(folder)
    return str(folder)


def write_tiny_components(folder: Path) -> str:
    """Write a tiny random backbone and untrained components on it; returns the backbone's name."""
    from benchmarks.harness.forms import write_model
    from models.graph_llm import GraphLLM, GraphLLMConfig
    from models.parts.graph_encoder import GraphEncoderConfig
    from models.text_to_triples import TextToTriples, TextToTriplesConfig

    name = str(folder / "backbone")
    write_model(folder / "backbone", 64, 1, seed=0)
    sizes = {"max_input_tokens": 1800, "max_output_tokens": 4}
    graph = GraphEncoderConfig(32, 16, 1, 2, projector_dim=32)
    config = GraphLLMConfig(name, graph=graph, encoder="hash", **sizes)  # type: ignore[arg-type]
    GraphLLM.from_config(config).save_pretrained(folder / "ras")
    own = TextToTriplesConfig(name, lora_rank=4, **sizes)  # type: ignore[arg-type]
    TextToTriples.from_config(own).save_pretrained(folder / "t2t")
    return name


def run(part: str, folder: Path) -> dict[str, Any]:
    """Do one part and return its figures; a `status` among them is the part's."""
    settings = GpuSettings.read(folder)
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    return _work(part.partition("/")[0])(folder, settings, part.partition("/")[2])


def _work(group: str) -> Callable[[Path, GpuSettings, str], dict[str, Any]]:
    """Return what does a group of parts; each imports what is its own."""
    if group == "parity":
        from benchmarks.workers.gpu_parity import parity

        return parity
    if group == "attention":
        from benchmarks.workers.gpu_attention import attention

        return attention
    if group in ("estimate", "step"):
        from benchmarks.workers import gpu_step

        return gpu_step.estimate if group == "estimate" else gpu_step.step
    if group == "vllm":
        from benchmarks.workers.gpu_engine import vllm

        return vllm
    plain = {"install": install, "backbone": backbone}[group]
    return lambda folder, settings, _: plain(folder, settings)


def main() -> None:
    """Run the command."""
    parser = command_parser(__doc__)
    parser.add_argument("folder", type=Path, help="folder with settings.json")
    parser.add_argument("part", help="a part of benchmarks/gpu.py that has no worker of its own")
    arguments = parser.parse_args()
    with redirect_stdout(sys.stderr):
        figures = run(arguments.part, arguments.folder)
    emit_json(figures)


if __name__ == "__main__":
    main()
