"""One part of the comparison in a process of its own; its last line is one JSON object.

train_step.py starts it: python -m benchmarks.workers.step FOLDER {prepare,parity,CONTESTANT}
"""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.processes import peak_bytes
from benchmarks.harness.settings import (
    CONTESTANTS,
    Contestant,
    Forward,
    StepModel,
    StepSettings,
    device_peak,
    on_device,
    synchronize,
)
from benchmarks.harness.workload import (
    Workload,
    model_config,
    read_workload,
    summary,
    write_workload,
)
from common.commands import command_parser
from common.tables import emit_json
from models.files.backbone import load_backbone
from models.parts.adapters import add_lora
from training.recipe.collator import Collator

LEARNING_RATE = 1e-4


class BareLanguageModelStep:
    """The backbone alone: transformers and PEFT on the same token ids, without a graph."""

    def __init__(self, workload: Workload, settings: StepSettings, dtype: str) -> None:
        config = model_config(settings, workload.features.shape[1])
        self.module = (
            add_lora(
                load_backbone(settings.backbone, dtype),
                config.lora_rank,
                config.lora_alpha,
                config.lora_dropout,
                config.lora_targets,
                settings.backbone,
            )
            .to(settings.device)
            .train()
        )
        self.device = settings.device
        self.workload = workload
        self.collate = Collator(int(workload.tokenizer.pad_token_id))

    def forward(self, batch: Sequence[int]) -> Forward:
        """Return the loss as transformers computes it, over the logits of every position."""
        inputs = self.collate([self.workload.samples[index] for index in batch])
        del inputs["sample_ids"]
        inputs = on_device(inputs, self.device)
        return Forward(self.module(**inputs).loss, inputs["input_ids"].numel())


class CompiledLanguageModelStep(BareLanguageModelStep):
    """The same by torch.compile, for batches of any size and length; compiled before it is used."""

    def __init__(self, workload: Workload, settings: StepSettings, dtype: str) -> None:
        super().__init__(workload, settings, dtype)
        self.module.compile(dynamic=True)
        # Twice: what a second shape has compiled again is no part of a step either.
        for batch in 2 * workload.batches(settings, grouped=True):
            self.forward(batch).loss.backward()
        self.module.zero_grad(set_to_none=True)


def build_step(contestant: Contestant, workload: Workload, settings: StepSettings) -> StepModel:
    """Return the contestant's model; only its own libraries are imported, as memory is measured."""
    if contestant.kind == "pyg":
        from benchmarks.peers.pyg import GRetrieverStep

        return GRetrieverStep(workload, settings)
    if contestant.kind == "per_sample_loop":
        from benchmarks.peers.per_sample_loop import PerSampleLoopStep

        return PerSampleLoopStep(workload, settings)
    if contestant.kind == "bare_lm":
        return BareLanguageModelStep(workload, settings, contestant.dtype)
    if contestant.kind == "compiled_lm":
        return CompiledLanguageModelStep(workload, settings, contestant.dtype)
    from benchmarks.workers.parity import GraphLLMStep

    with_graph = contestant.kind == "graph_llm"
    return GraphLLMStep(workload, settings, contestant.dtype, with_graph)


def measure(contestant: Contestant, workload: Workload, settings: StepSettings) -> dict[str, Any]:
    """Return the seconds of each optimizer step after a warm-up step, and the peak memory."""
    step = build_step(contestant, workload, settings)
    parameters = [p for p in step.module.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE)
    batches = workload.batches(settings, contestant.grouped)
    seconds, padded, losses = [], [], []
    for batch in [batches[0], *batches]:
        synchronize(settings.device)
        start = time.perf_counter()
        result = step.forward(batch)
        result.loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        synchronize(settings.device)
        seconds.append(time.perf_counter() - start)
        padded.append(result.padded_tokens)
        losses.append(float(result.loss.detach()))
    real = sum(workload.lengths[index] for batch in batches for index in batch)
    return {
        "seconds": seconds[1:],
        "padded_tokens": padded[1:],
        "real_token_share": real / sum(padded[1:]),
        "losses": losses[1:],
        "trainable_parameters": sum(p.numel() for p in parameters),
        "peak_rss_bytes": peak_bytes(),
        **device_peak(settings.device),
    }


def run(part: str, folder: Path) -> dict[str, Any]:
    """Do one part and return its figures."""
    settings = StepSettings.read(folder)
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    if part == "prepare":
        return {"workload": summary(write_workload(folder, settings))}
    workload = read_workload(folder, settings)
    if part == "parity":
        from benchmarks.workers.parity import check_parity

        parity = check_parity(workload, settings)
        return {**asdict(parity), "max_abs_diff": parity.max_abs_diff}
    return measure(CONTESTANTS[part], workload, settings)


def main() -> None:
    """Run the command."""
    parser = command_parser(__doc__)
    parser.add_argument("folder", type=Path, help="folder with settings.json and the samples")
    parser.add_argument("part", choices=["prepare", "parity", *CONTESTANTS])
    arguments = parser.parse_args()
    emit_json(run(arguments.part, arguments.folder))


if __name__ == "__main__":
    main()
