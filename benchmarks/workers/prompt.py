"""One part of the comparison in a process of its own; its last line is one JSON object.

deep_prompt.py starts it: python -m benchmarks.workers.prompt FOLDER {parity,CONTESTANT}
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.processes import peak_bytes
from benchmarks.workers.prompt_contestants import CONTESTANTS, Literal, Ours, PromptSettings, build
from benchmarks.workers.step import LEARNING_RATE
from common.commands import command_parser
from common.tables import emit_json

PARITY_LENGTH = 24


def random_ids(settings: PromptSettings, vocabulary: int) -> torch.Tensor:
    """Return texts [B, T] of random tokens, the same for the same seed."""
    torch.manual_seed(settings.seed)
    return torch.randint(10, vocabulary, (settings.batch_size, settings.length))


def parity(settings: PromptSettings) -> dict[str, float]:
    """Return the difference of loss and, relative to its norm, of gradient to the literal form.

    In float64, as far as the backbone's own float32 islands allow.
    """
    short = replace(settings, dtype="float32", length=PARITY_LENGTH, batch_size=2)
    losses, gradients = [], []
    for step in (Ours(short), Literal(short)):
        step.backbone.double()
        step.module.double()
        ids = random_ids(short, step.backbone.config.get_text_config().vocab_size)
        loss = step.loss(ids)
        loss.backward()
        losses.append(float(loss.detach()))
        [gradient] = [p.grad for p in step.module.parameters()]
        assert gradient is not None
        gradients.append(gradient)
    return {
        "loss": abs(losses[0] - losses[1]),
        "gradient": float((gradients[0] - gradients[1]).norm() / gradients[1].norm()),
    }


def measure(name: str, settings: PromptSettings) -> dict[str, Any]:
    """Return the seconds of each optimizer step after a warm-up step, and the peak memory."""
    step = build(name, settings)
    parameters = [p for p in step.module.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE)
    ids = random_ids(settings, step.backbone.config.get_text_config().vocab_size)
    seconds = []
    for _ in range(settings.steps + 1):
        start = time.perf_counter()
        loss = step.loss(ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
    return {
        "seconds": seconds[1:],
        "loss": float(loss.detach()),
        "trainable_parameters": sum(p.numel() for p in parameters),
        "peak_rss_bytes": peak_bytes(),
    }


def main() -> None:
    """Run the command."""
    parser = command_parser(__doc__)
    parser.add_argument("folder", type=Path, help="folder with settings.json")
    parser.add_argument("part", choices=["parity", *CONTESTANTS])
    arguments = parser.parse_args()
    settings = PromptSettings.read(arguments.folder)
    torch.set_num_threads(settings.threads)
    part = arguments.part
    emit_json(dict(parity(settings)) if part == "parity" else measure(part, settings))


if __name__ == "__main__":
    main()
