"""What is looked at around DeepSpeed's engine, with a stand-in for the engine itself."""

import importlib.util
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import nn

from training.saving import zero, zero_state
from training.saving.sharding import LaunchError, whole_parameters


def plugin(stage: int = 2, **config: Any) -> SimpleNamespace:
    return SimpleNamespace(
        zero_stage=stage,
        offload_optimizer_device="none",
        offload_param_device="none",
        deepspeed_config={"zero_optimization": {}, "gradient_accumulation_steps": 2, **config},
    )


class Engine:
    """Counts its calls and holds gradients as ZeRO's optimizer does."""

    def __init__(self, stage: int = 2, processes: int = 1) -> None:
        self.stage = stage
        self.dp_world_size = processes
        self.calls: list[str] = []
        self.optimizer = SimpleNamespace(averaged_gradients={})

    def zero_optimization_stage(self) -> int:
        return self.stage

    def set_gradient_accumulation_boundary(self, is_boundary: bool) -> None:
        self.calls.append(f"boundary {is_boundary}")

    def backward(self, loss: torch.Tensor, **options: Any) -> None:
        self.calls.append(f"backward {options}")

    def step(self) -> None:
        self.calls.append("step")


def accelerator(engine: Engine | None, asked: SimpleNamespace, processes: int = 1) -> Any:
    wrapped = None if engine is None else SimpleNamespace(engine=engine)
    return SimpleNamespace(
        deepspeed_engine_wrapped=wrapped,
        state=SimpleNamespace(deepspeed_plugin=asked),
        num_processes=processes,
        device=torch.device("cpu"),
    )


def test_without_deepspeed_the_launch_ends_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LaunchError, match=r"pip install -e '\.\[deepspeed\]'"):
        zero.check_installed()


@pytest.mark.parametrize(
    ("stage", "given", "config", "said"),
    [
        (1, {}, {}, "stage 1 is not supported: launch with configs/accelerate/zero2.yaml"),
        (2, {"offload_optimizer_device": "cpu"}, {}, "offloading to cpu is not supported"),
        (3, {"offload_param_device": "nvme"}, {}, "offloading to nvme is not supported"),
        (2, {}, {"bf16": {"enabled": True}}, "bf16 would train adapters in half precision"),
        (3, {}, {"fp16": {"enabled": True}}, "fp16 would train adapters in half precision"),
    ],
)
def test_what_would_be_another_training_is_refused(
    stage: int, given: dict[str, str], config: dict[str, Any], said: str
) -> None:
    asked = plugin(stage, **config)
    vars(asked).update(given)
    with pytest.raises(LaunchError, match=said):
        zero.configure(accelerator(None, asked), nn.Linear(2, 2), autocast=False)


def test_the_gradients_buffer_is_as_large_as_they_are() -> None:
    asked = plugin(bf16={"enabled": False})
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    module[0].requires_grad_(False)
    zero.configure(accelerator(None, asked), module, autocast=True)
    assert asked.deepspeed_config["zero_optimization"]["reduce_bucket_size"] == 10
    # Weights of no module travel in bfloat16.
    assert asked.deepspeed_config["torch_autocast"]["lower_precision_safe_modules"] == []


@pytest.mark.parametrize(
    ("engine", "asked", "processes", "said"),
    [
        (None, 2, 1, "DeepSpeed was asked for, but runs nothing"),
        (Engine(stage=0), 2, 1, "stage 2 was asked for, but 0 runs"),
        (Engine(stage=2, processes=1), 2, 4, "splits over 1 processes, but 4 run"),
        (Engine(stage=3, processes=2), 3, 2, "ZeRO-3 was asked for, but every parameter is whole"),
    ],
)
def test_a_launch_that_became_another_is_refused(
    engine: Engine | None, asked: int, processes: int, said: str
) -> None:
    running = accelerator(engine, plugin(asked), processes)
    with pytest.raises(LaunchError, match=rf"{said}\. Launch with configs/accelerate/zero{asked}"):
        zero.take_over(running, nn.Linear(2, 2))


def test_the_engine_steps_where_the_trainer_does() -> None:
    engine = Engine()
    running = accelerator(engine, plugin())
    zero.take_over(running, nn.Linear(2, 2))
    wrapped = running.deepspeed_engine_wrapped
    wrapped.backward(torch.ones(()), sync_gradients=False, scale_wrt_gas=False)
    wrapped.backward(torch.ones(()), sync_gradients=True, scale_wrt_gas=False)
    assert "step" not in engine.calls
    passed = "backward {'scale_wrt_gas': False}"
    assert engine.calls == ["boundary False", passed, "boundary True", passed]
    none: Any = None
    zero.EngineStep(running).on_pre_optimizer_step(none, none, none)
    assert engine.calls[-1] == "step"


def test_a_gradient_that_is_not_finite_is_not_hidden() -> None:
    engine = Engine()
    wrapped = zero.SteppedLater(accelerator(engine, plugin()))
    parts = [torch.randn(5), torch.randn(3)]
    engine.optimizer.averaged_gradients = {0: parts, 1: None, 2: [torch.zeros(0)]}
    assert wrapped.get_global_grad_norm() == pytest.approx(float(torch.cat(parts).norm()))
    for value in (float("nan"), float("inf")):
        parts[1][0] = value
        assert not wrapped.get_global_grad_norm() < float("inf")


def test_what_is_not_split_is_whole() -> None:
    module = nn.Linear(2, 2)
    before = module.weight
    with whole_parameters(module):
        assert module.weight is before
    assert not zero.is_split(module)
    weights = {name: torch.full_like(p, 3.0) for name, p in module.named_parameters()}
    zero_state.load_parameters(module, weights)
    assert bool((module.weight == 3).all()) and bool((module.bias == 3).all())
    assert zero_state.zero_optimizer(torch.optim.AdamW(module.parameters())) is None


def test_the_state_of_a_part_goes_to_its_parameters_groups() -> None:
    """Before the first step a state is empty, and only the groups' settings are taken over."""
    flat = torch.zeros(4)
    inner = SimpleNamespace(
        state=defaultdict(dict), param_groups=[{"params": [flat], "lr": 1.0, "betas": (0.1, 0.2)}]
    )
    own = SimpleNamespace(
        optimizer=inner, bit16_groups=[[]], single_partition_of_fp32_groups=[flat]
    )
    zero_state.load_optimizer_state(own, [], {}, [{"lr": 0.5, "params": [7]}])
    assert inner.param_groups == [{"params": [flat], "lr": 0.5, "betas": (0.1, 0.2)}]
    assert zero_state.whole_optimizer_state(own, []) == {}
    assert not Accelerator(cpu=True).state.deepspeed_plugin
