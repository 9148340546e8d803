"""Memory of weights, gradients and optimizer on each process, by the form of the launch.

What ZeRO's stages split is in Rajbhandari et al. 2020, §5; FSDP2 splits as stage 3 does.
"""

from dataclasses import dataclass
from enum import Enum

from torch import nn

# AdamW keeps two moments of each trained weight, in the weight's type.
MOMENTS = 2
FLOAT32_BYTES = 4
# DeepSpeed's defaults, in numbers: reduce_bucket_size and stage3_max_live_parameters.
ZERO_BUCKET, ZERO_LIVE = 500_000_000, 1_000_000_000
# FSDP2 gathers a layer while the one before it still runs.
LAYERS_GATHERED = 2


class Launch(Enum):
    """How processes share a model."""

    one = "one"
    ddp = "ddp"
    zero2 = "zero2"
    zero3 = "zero3"
    fsdp2 = "fsdp2"


@dataclass(frozen=True)
class Parameters:
    """Numbers and bytes of a module's parameters.

    Attributes:
        layer_bytes: of the largest layer that FSDP2 gathers at a time; 0: it gathers the model.
        outer_bytes: of what belongs to no such layer.
    """

    total: int
    trained: int
    total_bytes: int
    trained_bytes: int
    trained_tensors: int
    layer_bytes: int
    outer_bytes: int

    @property
    def checkpoint_bytes(self) -> int:
        """A `checkpoint-N`: what trains and its optimizer state."""
        return (1 + MOMENTS) * self.trained_bytes


@dataclass(frozen=True)
class StateMemory:
    """Bytes on each process that do not hang on the batch.

    Attributes:
        weights: those kept between steps.
        gradients: of what trains.
        optimizer: AdamW's moments; under ZeRO the float32 copy that it steps on, too.
        buffers: weights gathered from other processes, gradients on their way to them.
    """

    weights: int
    gradients: int
    optimizer: int
    buffers: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.gradients + self.optimizer + self.buffers


def count_parameters(module: nn.Module) -> Parameters:
    """Count a module's parameters, on any device."""
    # It brings accelerate, which a command's --help does without.
    from training.saving.sharding import layer_classes

    parameters = list(module.parameters())
    trained = [p for p in parameters if p.requires_grad]
    classes = layer_classes(module)
    layers = [_bytes(part) for part in module.modules() if type(part).__name__ in classes]
    total = _bytes(module)
    return Parameters(
        total=sum(p.numel() for p in parameters),
        trained=sum(p.numel() for p in trained),
        total_bytes=total,
        trained_bytes=sum(p.numel() * p.element_size() for p in trained),
        trained_tensors=len(trained),
        layer_bytes=max(layers, default=0),
        outer_bytes=total - sum(layers),
    )


def state_memory(parameters: Parameters, launch: Launch, processes: int) -> StateMemory:
    """Weights, gradients and optimizer state on each of so many processes."""
    trained, total = parameters.trained_bytes, parameters.total_bytes
    moments = MOMENTS * trained + FLOAT32_BYTES * parameters.trained_tensors
    if launch is Launch.one:
        return StateMemory(total, trained, moments, 0)
    if launch is Launch.ddp:
        # DDP sends gradients in buckets of its own.
        return StateMemory(total, trained, moments, trained)
    if launch is Launch.fsdp2:
        gathered = min(total, LAYERS_GATHERED * parameters.layer_bytes + parameters.outer_bytes)
        buffers = gathered if parameters.layer_bytes else total
        weights, gradients = _share(total, processes), _share(trained, processes)
        return StateMemory(weights, gradients, _share(moments, processes), buffers)
    bucket = min(trained, ZERO_BUCKET * FLOAT32_BYTES)
    copy = FLOAT32_BYTES * parameters.trained
    optimizer = _share(moments + copy, processes)
    gradients = _share(trained, processes)
    if launch is Launch.zero2:
        return StateMemory(total, gradients, optimizer, bucket)
    live = int(total * min(1.0, ZERO_LIVE / max(parameters.total, 1)))
    return StateMemory(_share(total, processes), gradients, optimizer, live + bucket)


def largest_batch(room: float, batch_size: int, activations: int, activations_of_one: int) -> int:
    """Return the largest micro-batch whose activations fit into so many bytes; 0: none does.

    Activations are taken as a constant and a share for each sample, from those of `batch_size`
    samples and of one.
    """
    if batch_size > 1:
        each = (activations - activations_of_one) / (batch_size - 1)
    else:
        each = activations_of_one
    return max(0, int((room - (activations_of_one - each)) // each))


def _share(size: int, processes: int) -> int:
    return -(-size // processes)


def _bytes(module: nn.Module) -> int:
    return sum(p.numel() * p.element_size() for p in module.parameters())
