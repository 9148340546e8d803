"""The forms in which processes share a training, on CPUs; see configs/accelerate/cpu_*.yaml."""

import importlib.util

ONE = "one"
# As many threads as the others have processes: the same cores, which is like for like.
ONE_THREADED = "one_all_threads"
DDP = {"ACCELERATE_USE_CPU": "true"}
FSDP2 = {
    **DDP,
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
}
ZERO2 = {
    "DS_ACCELERATOR": "cpu",
    "ACCELERATE_USE_DEEPSPEED": "true",
    "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2",
}
ZERO3 = {**ZERO2, "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}
# Environment of several processes by form; one process needs none.
FORMS: dict[str, dict[str, str]] = {"ddp": DDP, "fsdp2": FSDP2, "zero2": ZERO2, "zero3": ZERO3}


def is_installed(form: str) -> bool:
    """Whether the libraries of a form are there: DeepSpeed is an extra."""
    return not form.startswith("zero") or importlib.util.find_spec("deepspeed") is not None
