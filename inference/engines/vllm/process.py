"""vLLM's engine in a process of its own: how it is configured, started and watched."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inference.engines.contract import EngineError, LogprobsOf, UnsupportedRequestError
from models.files.backbone import default_device, resolve_dtype

CONNECTOR = "SoftPrefixConnector"
CONNECTOR_MODULE = "inference.engines.vllm.soft_prefix_connector"
CPU_WORKER = "inference.engines.vllm.cpu_worker.MendedCPUWorker"
# What vLLM has kernels for.
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
# Least and most tokens that have to stand alike for what follows them to be drafted.
PROMPT_LOOKUP_MIN, PROMPT_LOOKUP_MAX = 1, 3
# Tokens of a cache's block on a CPU, and so the least beginning that two prompts can share. vLLM's
# own choice there is 128; a loop's prompts share fewer (`benchmarks/profile_loop.py`).
CPU_BLOCK_SIZE = 32
# How a soft prompt is named: in a request's kv_transfer_params, and its folder in the connector's
# configuration.
REQUEST_KEY = "soft_prefix"
FOLDER_OPTION = "folder"
DECODER_PROJECTIONS = (
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
)


@dataclass(frozen=True)
class VLLMSettings:
    """Settings of vLLM; None is decided by the components that the engine starts with.

    max_model_len: most tokens of prompt and output; None: the backbone's context.
    max_num_seqs, max_num_batched_tokens: most requests and tokens of a step; None: vLLM's choice.
    gpu_memory_utilization: share of a GPU that vLLM may use. kv_cache_gib: of keys and values, on
        a CPU. num_blocks: of the cache, in place of what fits.
    tensor_parallel_size: GPUs of one engine.
    enforce_eager: run without compiling; None: on a CPU, where compiling takes a minute.
    prompt_lookup_tokens: draft tokens of each request in a step, from what followed the same tokens
        earlier in prompt and output, checked all at once (prompt-lookup decoding); 0: none. Greedy
        outputs stay as they are; with a temperature the same seed may draw others.
    graphs, soft_prompts, max_lora_rank, lora_target_modules: what later components may bring.
        Never the token embeddings: where prompts with graph tokens and without share a step, vLLM
        takes one's adapter for another's there. max_loras: adapters in one step.
    logprobs_of: see `EngineOptions`; vLLM knows one for all requests.
    max_restarts: of a dead or stuck process. stall_seconds: without a token before it counts as
        stuck.
    """

    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float = 0.9
    kv_cache_gib: int = 2
    num_blocks: int | None = None
    tensor_parallel_size: int = 1
    enforce_eager: bool | None = None
    enable_prefix_caching: bool = True
    prompt_lookup_tokens: int = 0
    graphs: bool | None = None
    soft_prompts: bool | None = None
    max_lora_rank: int | None = None
    lora_target_modules: tuple[str, ...] = DECODER_PROJECTIONS
    max_loras: int = 4
    max_restarts: int = 2
    stall_seconds: float = 300.0
    logprobs_of: LogprobsOf = "model"


def lora_rank_for(rank: int) -> int:
    """Return the least rank that vLLM serves at or above `rank`. Raises UnsupportedRequestError."""
    for known in LORA_RANKS:
        if rank <= known:
            return known
    raise UnsupportedRequestError(f"LoRA rank {rank}: vLLM serves at most {LORA_RANKS[-1]}")


def prefix_path(folder: Path, name: str) -> Path:
    """Return where the prefix of a name lies."""
    return folder / name / "prefix.safetensors"


class Progress:
    """The time of the engine's last step, the number of times that it put a request off, and its
    draft tokens and those of them that were accepted.
    """

    def __init__(self) -> None:
        self.last_step: float | None = None
        self.preemptions = 0
        self.draft_tokens = 0
        self.accepted_tokens = 0

    def seconds_since(self) -> float | None:
        """Since the last step; None before the first."""
        return None if self.last_step is None else time.monotonic() - self.last_step


class VLLMProcess:
    """A running vLLM engine as its supervisor sees it."""

    def __init__(self, engine: Any, progress: Progress) -> None:
        """engine: vLLM's AsyncLLM."""
        self.engine = engine
        self.progress = progress

    def alive(self) -> bool:
        """Return whether the engine's process can still answer."""
        return not self.engine.errored

    def kill(self) -> None:
        """End its process; vLLM's monitor then fails what was running."""
        for process in self.engine.engine_core.resources.engine_manager.processes:
            os.kill(process.pid, signal.SIGKILL)

    def release(self) -> None:
        """End its process in order; may run in another thread than the engine's event loop."""
        handler = self.engine.output_handler
        if handler is not None and not handler.get_loop().is_closed():
            # First, or it takes the end for a death.
            handler.get_loop().call_soon_threadsafe(handler.cancel)
        self.engine.shutdown()

    def seconds_since_progress(self) -> float | None:
        """Since the last step."""
        return self.progress.seconds_since()


def start_vllm(model: str, dtype: str, settings: VLLMSettings, prefix_folder: Path) -> VLLMProcess:
    """Start vLLM's asynchronous engine; returns once it is ready.

    Args:
        model: a folder or a Hugging Face id. dtype: as of the engine.
        settings: with graphs, soft_prompts and max_lora_rank decided.
        prefix_folder: of the soft prompts' files.

    Raises EngineError with vLLM's reason.
    """
    set_environment(settings)
    from vllm.config import KVTransferConfig
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    options: dict[str, Any] = {}
    if settings.max_lora_rank:
        options |= {
            "enable_lora": True,
            "max_lora_rank": lora_rank_for(settings.max_lora_rank),
            "max_loras": settings.max_loras,
            "lora_target_modules": list(settings.lora_target_modules),
        }
    if settings.prompt_lookup_tokens:
        options["speculative_config"] = {
            "method": "ngram",
            "num_speculative_tokens": settings.prompt_lookup_tokens,
            "prompt_lookup_min": PROMPT_LOOKUP_MIN,
            "prompt_lookup_max": PROMPT_LOOKUP_MAX,
        }
    if _on_cpu():
        options |= {"worker_cls": CPU_WORKER, "block_size": CPU_BLOCK_SIZE}
    if settings.soft_prompts:
        options["kv_transfer_config"] = KVTransferConfig(
            kv_connector=CONNECTOR,
            kv_connector_module_path=CONNECTOR_MODULE,
            kv_role="kv_both",
            kv_connector_extra_config={FOLDER_OPTION: str(prefix_folder)},
        )
    arguments = AsyncEngineArgs(
        model=model,
        dtype=resolve_dtype(dtype),
        max_model_len=settings.max_model_len,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        gpu_memory_utilization=settings.gpu_memory_utilization,
        num_gpu_blocks_override=settings.num_blocks,
        tensor_parallel_size=settings.tensor_parallel_size,
        enforce_eager=_on_cpu() if settings.enforce_eager is None else settings.enforce_eager,
        enable_prefix_caching=settings.enable_prefix_caching,
        enable_prompt_embeds=bool(settings.graphs),
        logprobs_mode="raw_logprobs" if settings.logprobs_of == "model" else "processed_logprobs",
        # The same library and dialect as the transformers engine's masks.
        structured_outputs_config={"backend": "guidance", "disable_any_whitespace": True},
        disable_log_stats=True,
        **options,
    )
    progress = Progress()
    try:
        with main_module_hidden(), preload_restored():
            engine = AsyncLLM.from_engine_args(arguments, stat_loggers=[_progress_logger(progress)])
    except Exception as error:
        raise EngineError(f"vLLM did not start on {model}: {error}") from error
    return VLLMProcess(engine, progress)


def _on_cpu() -> bool:
    return default_device() == "cpu"


def set_environment(settings: VLLMSettings) -> None:
    """Set the environment variables of vLLM; a user's own values stay."""
    defaults = {
        # A fork of a process that has run torch may hang.
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if _on_cpu():
        # By default one core stays idle.
        defaults |= {
            "VLLM_CPU_KVCACHE_SPACE": str(settings.kv_cache_gib),
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        }
    if _on_cpu() and " " in torch.__file__:
        # Its commands for the C++ compiler name this path without quotes, and the engine would die
        # of the first request that compiles something, such as one for log-probabilities.
        defaults["TORCH_COMPILE_DISABLE"] = "1"
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


@contextmanager
def main_module_hidden() -> Iterator[None]:
    """Keep spawned processes from importing the command that runs here.

    It would take them seconds and memory, and numba, which comes along, breaks vLLM's start on a
    CPU. The file's name is taken away and not set to None: `inspect.getmodule`, which vLLM calls
    when it looks at a model's class for the first time on a machine, raises on a module whose file
    is None.
    """
    main = vars(sys.modules["__main__"])
    saved = {name: main[name] for name in ("__file__", "__spec__") if name in main}
    main.pop("__file__", None)
    main["__spec__"] = None
    try:
        yield
    finally:
        del main["__spec__"]
        for name, value in saved.items():
            main[name] = value


@contextmanager
def preload_restored() -> Iterator[None]:
    """Keep LD_PRELOAD, which vLLM sets for its own processes, from all that start later."""
    before = os.environ.get("LD_PRELOAD")
    try:
        yield
    finally:
        os.environ.pop("LD_PRELOAD", None)
        if before is not None:
            os.environ["LD_PRELOAD"] = before


def _progress_logger(progress: Progress) -> Any:
    """vLLM's hook for statistics, which it calls after every step."""
    from vllm.v1.metrics.loggers import StatLoggerBase

    class ProgressLogger(StatLoggerBase):
        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            progress.last_step = time.monotonic()

        def record(
            self, scheduler_stats: Any, iteration_stats: Any, *args: Any, **kwargs: Any
        ) -> None:
            progress.last_step = time.monotonic()
            progress.preemptions += getattr(iteration_stats, "num_preempted_reqs", 0)
            drafts = getattr(scheduler_stats, "spec_decoding_stats", None)
            if drafts is not None:
                progress.draft_tokens += drafts.num_draft_tokens
                progress.accepted_tokens += drafts.num_accepted_tokens

        def log_engine_initialized(self) -> None:
            pass

    return ProgressLogger
