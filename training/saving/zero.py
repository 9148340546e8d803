"""ZeRO-2 and ZeRO-3 of DeepSpeed: what they need to train, and to save, as one process does.

ZeRO-2 splits gradients and optimizer state over the processes, ZeRO-3 the parameters too, frozen
ones included. DeepSpeed's own checkpoints are not used: see training/saving/zero_state.py.
"""

import importlib.util
import math
import warnings
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import AutocastKwargs, DistributedType
from accelerate.utils.deepspeed import DeepSpeedEngineWrapper
from peft.tuners.lora.layer import Linear
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from models.kernels.cpu_lora import CpuLoraLinear
from training.recipe.agreement import summed
from training.saving.sharding import LaunchError

ZERO_ASKED = "ACCELERATE_USE_DEEPSPEED"
STAGES = (2, 3)
# DeepSpeed takes a buffer of this many numbers for gradients; ours are seldom that many.
LARGEST_BUCKET = 500_000_000
# Times the model's width: smaller parameters stay whole, as transformers would set it.
PERSISTENT_WIDTHS = 10


class Bfloat16Autocast(AutocastKwargs):
    """Autocast to bfloat16 outside of the engine, which has its own."""

    def to_kwargs(self) -> dict[str, Any]:
        """Arguments of torch.autocast."""
        return {"dtype": torch.bfloat16}


class SteppedLater(DeepSpeedEngineWrapper):
    """Backward without the step that accelerate takes in it: the step's guard comes in between."""

    def __init__(self, accelerator: Accelerator) -> None:
        super().__init__(accelerator.deepspeed_engine_wrapped.engine)
        self.accelerator = accelerator

    def backward(self, loss: torch.Tensor, sync_gradients: bool = True, **kwargs: Any) -> None:
        """Add to the gradients; after a step's last micro-batch they are those of all processes."""
        self.engine.set_gradient_accumulation_boundary(is_boundary=sync_gradients)
        self.engine.backward(loss, **kwargs)

    def get_global_grad_norm(self) -> float:
        """Norm of the gradient before clipping; DeepSpeed's own hides what is not finite."""
        gradients = self.engine.optimizer.averaged_gradients
        mine = sum(
            float(part.detach().double().square().sum())
            for group in gradients.values()
            for part in group or []
        )
        return math.sqrt(summed(self.accelerator, [mine])[0])


class EngineStep(TrainerCallback):
    """Clips and steps where Trainer steps its optimizer, which is empty under DeepSpeed."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """The step has been looked at."""
        if self.accelerator.deepspeed_engine_wrapped is not None:
            self.accelerator.deepspeed_engine_wrapped.engine.step()


def check_installed() -> None:
    """Look for DeepSpeed before anything asks for it.

    Raises:
        LaunchError: says how to install it.
    """
    if importlib.util.find_spec("deepspeed") is None:
        raise LaunchError(
            "DeepSpeed was asked for and is not installed: pip install -e '.[deepspeed]', or "
            "launch with configs/accelerate/fsdp2.yaml"
        )


def load_whole() -> None:
    """Have models loaded whole until the engine splits what is trained.

    transformers would split all that it loads from here on: the backbone, before adapters and
    soft prompts are made for it, and the sentence encoder, which no engine runs.
    """
    unset_hf_deepspeed_config()
    # DeepSpeed calls older names of torch.distributed, once or more a step.
    warnings.filterwarnings("ignore", r"`torch\.distributed\.\w+` is deprecated", FutureWarning)


def configure(accelerator: Accelerator, module: nn.Module, autocast: bool) -> None:
    """Fill in what a launch configuration leaves open, and refuse what is not supported.

    Trained parameters stay in float32 whatever is cast, as without DeepSpeed. ZeRO-2 leaves the
    model whole, so that it is put on its device here.

    Args:
        module: what is trained, still whole.
        autocast: compute in bfloat16 over float32 weights.

    Raises:
        LaunchError: another stage, offloading, or DeepSpeed's own mixed precision.
    """
    plugin: Any = accelerator.state.deepspeed_plugin
    _check_plugin(plugin)
    if plugin.zero_stage == 3:
        make_ready(module)
    else:
        module.to(accelerator.device)
    config = plugin.deepspeed_config
    # It otherwise warns that Trainer counts the micro-batches of a step itself.
    accelerator.gradient_accumulation_steps = config["gradient_accumulation_steps"]
    trained = [p.numel() for p in module.parameters() if p.requires_grad]
    zero = config["zero_optimization"]
    zero["reduce_bucket_size"] = min(sum(trained), max([LARGEST_BUCKET, *trained]))
    width = getattr(getattr(module, "config", None), "hidden_size", 0)
    zero["stage3_param_persistence_threshold"] = PERSISTENT_WIDTHS * width
    if autocast:
        # No module's weights travel in bfloat16: gradients are summed in float32.
        config["torch_autocast"] = {
            "enabled": True,
            "dtype": "bfloat16",
            "lower_precision_safe_modules": [],
        }
        accelerator.native_amp = True
        accelerator.autocast_handler = Bfloat16Autocast()


def _check_plugin(plugin: Any) -> None:
    if plugin.zero_stage not in STAGES:
        raise LaunchError(
            f"ZeRO stage {plugin.zero_stage} is not supported: launch with "
            "configs/accelerate/zero2.yaml, zero3.yaml or, to split nothing, multi_gpu.yaml"
        )
    offloaded = {plugin.offload_optimizer_device, plugin.offload_param_device} - {"none", None}
    if offloaded:
        raise LaunchError(
            f"offloading to {', '.join(sorted(offloaded))} is not supported: its optimizer is "
            "another one. Set offload_optimizer_device and offload_param_device to none"
        )
    for dtype in ("bf16", "fp16"):
        if plugin.deepspeed_config.get(dtype, {}).get("enabled") is True:
            raise LaunchError(
                f"DeepSpeed's {dtype} would train adapters in half precision: set mixed_precision "
                "to 'no'; the recipe decides (model.dtype, train.autocast_bf16)"
            )


def make_ready(module: nn.Module) -> None:
    """Let every weight be read through the module that ZeRO-3 makes it whole for."""
    for part in module.modules():
        if type(part) is CpuLoraLinear:
            # It reads its layers' weights without calling them.
            part.__class__ = Linear  # type: ignore[assignment]


def lend_output_weights(module: nn.Module) -> None:
    """Have ZeRO-3 make the LM head whole for the whole forward pass: the loss reads its weights."""
    from deepspeed.runtime.zero import register_external_parameter

    backbone: Any = getattr(module, "backbone", module)
    head = backbone.get_output_embeddings()
    if head is not None:
        for parameter in head.parameters():
            register_external_parameter(module, parameter)


def take_over(accelerator: Accelerator, module: nn.Module) -> None:
    """Once the engine is made: step later, and check that what was asked for runs.

    Raises:
        LaunchError: no engine, another stage or number of processes, or whole parameters.
    """
    wrapped = accelerator.deepspeed_engine_wrapped
    asked = accelerator.state.deepspeed_plugin.zero_stage
    remedy = f"Launch with configs/accelerate/zero{asked}.yaml and look at its header"
    if wrapped is None:
        raise LaunchError(f"DeepSpeed was asked for, but runs nothing. {remedy}")
    stage = wrapped.engine.zero_optimization_stage()
    if stage != asked:
        raise LaunchError(f"ZeRO stage {asked} was asked for, but {stage} runs. {remedy}")
    processes = wrapped.engine.dp_world_size
    if processes != accelerator.num_processes:
        raise LaunchError(
            f"ZeRO splits over {processes} processes, but {accelerator.num_processes} run. {remedy}"
        )
    if stage == 3 and processes > 1 and not is_split(module):
        raise LaunchError(f"ZeRO-3 was asked for, but every parameter is whole. {remedy}")
    if stage == 3:
        lend_output_weights(module)
    accelerator.deepspeed_engine_wrapped = SteppedLater(accelerator)


def is_split(module: nn.Module) -> bool:
    """Whether ZeRO-3 has split a parameter of this module."""
    parameters: list[Any] = list(module.parameters())
    return any(hasattr(p, "ds_id") and p.ds_tensor.numel() < p.ds_numel for p in parameters)


def runs(accelerator: Accelerator) -> bool:
    """Whether DeepSpeed splits the state of this training."""
    return accelerator.distributed_type == DistributedType.DEEPSPEED
