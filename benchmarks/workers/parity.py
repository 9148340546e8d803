"""Our training step, and its parity with the per-sample loop."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.harness.settings import Forward, StepSettings, on_device
from benchmarks.harness.workload import Workload, model_config
from benchmarks.peers.per_sample_loop import PerSampleLoopStep
from models.graph_llm import GraphLLM
from models.parts.loss import IGNORE_INDEX
from training.recipe.collator import Batch, Collator

TOLERANCE = 1e-4
PARITY_SAMPLES = 3


class GraphLLMStep:
    """GraphLLM on collated batches; `graph=False` leaves the graph encoder out, ids stay."""

    def __init__(
        self, workload: Workload, settings: StepSettings, dtype: str, graph: bool = True
    ) -> None:
        config = model_config(settings, workload.features.shape[1], graph)
        self.module = GraphLLM.from_config(config, dtype=dtype).to(settings.device).train()
        self.device = settings.device
        self.workload = workload
        self.collate = Collator(
            int(workload.tokenizer.pad_token_id), workload.features if graph else None
        )

    def batch(self, indices: Sequence[int]) -> Batch:
        """Return the batch as the trainer hands it to the model."""
        batch = self.collate([self.workload.samples[index] for index in indices])
        del batch["sample_ids"]
        return on_device(batch, self.device)

    def forward(self, batch: Sequence[int]) -> Forward:
        """Collate and compute the loss of the label tokens."""
        inputs = self.batch(batch)
        output = self.module(**inputs)
        return Forward(output.loss, inputs["input_ids"].numel())


@dataclass(frozen=True)
class Outcome:
    """Loss, logits [L, vocabulary] that predict label tokens, and all gradients by name."""

    loss: Tensor
    logits: Tensor
    gradients: dict[str, Tensor]


@dataclass(frozen=True)
class Parity:
    """Largest absolute differences; `scaled` divides each by its reference's largest value
    where that is above one."""

    loss: float
    logits: float
    gradients: float
    scaled: float

    @property
    def max_abs_diff(self) -> float:
        """The largest of the three."""
        return max(self.loss, self.logits, self.gradients)


def check_parity(workload: Workload, settings: StepSettings) -> Parity:
    """Compare the two in float32 on the shortest samples.

    Raises AssertionError when a difference is above 1e-4, relative to what it compares where that
    is larger than one.
    """
    shortest = sorted(range(len(workload.samples)), key=lambda i: workload.lengths[i])
    batch = shortest[:PARITY_SAMPLES]
    ours = GraphLLMStep(workload, settings, "float32")
    stir_adapters(ours.module, settings.seed)
    ours.module.eval()
    loop = PerSampleLoopStep(workload, settings, ours.module)
    parity = compare(our_outcome(ours, batch), loop_outcome(loop, batch))
    # Written so that a NaN fails as well.
    if not parity.scaled <= TOLERANCE:
        raise AssertionError(f"our step and the per-sample loop disagree: {parity}")
    return parity


def stir_adapters(module: nn.Module, seed: int) -> None:
    """Give LoRA's B, which starts at zero, values: A has no gradient without them."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "lora_B" in name:
                parameter.copy_(0.02 * torch.randn(parameter.shape, generator=generator))


def our_outcome(step: GraphLLMStep, batch: Sequence[int]) -> Outcome:
    """Return what our step gives."""
    output = step.module(**step.batch(batch))
    return Outcome(
        output.loss.detach(), output.logits.detach(), _gradients(step.module, output.loss)
    )


def loop_outcome(step: PerSampleLoopStep, batch: Sequence[int]) -> Outcome:
    """Return what the loop gives, its logits picked where they predict a label."""
    output, labels = step.output(batch)
    assert output.loss is not None and output.logits is not None
    predicts = labels[:, 1:] != IGNORE_INDEX
    logits = output.logits[:, :-1][predicts].detach()
    return Outcome(output.loss.detach(), logits, _gradients(step.module, output.loss))


def compare(ours: Outcome, loop: Outcome) -> Parity:
    """Return the differences between two outcomes of the same parameters."""
    pairs = [(ours.gradients[name], loop.gradients[name]) for name in loop.gradients]
    loss, logits = (ours.loss, loop.loss), (ours.logits, loop.logits)
    return Parity(
        loss=_difference(*loss),
        logits=_difference(*logits),
        gradients=max(_difference(*pair) for pair in pairs),
        scaled=max(_difference(*pair) / _scale(pair[1]) for pair in [loss, logits, *pairs]),
    )


def _gradients(module: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    """Return the gradients of what trains; zero where the loss does not reach."""
    module.zero_grad()
    loss.backward()
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    }


def _difference(ours: Tensor, reference: Tensor) -> float:
    return float((ours - reference).abs().max())


def _scale(reference: Tensor) -> float:
    return max(1.0, float(reference.abs().max()))
