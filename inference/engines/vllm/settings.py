"""The settings of vLLM and the names that an engine's processes share; this needs no vLLM."""

from dataclasses import dataclass
from pathlib import Path

from inference.engines.contract import UnsupportedRequestError

# What vLLM has kernels for.
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
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
    graphs, soft_prompts, max_lora_rank, lora_target_modules: what later components may bring.
        Never the token embeddings: where prompts with graph tokens and without share a step, vLLM
        takes one's adapter for another's there. max_loras: adapters in one step.
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
    graphs: bool | None = None
    soft_prompts: bool | None = None
    max_lora_rank: int | None = None
    lora_target_modules: tuple[str, ...] = DECODER_PROJECTIONS
    max_loras: int = 4
    max_restarts: int = 2
    stall_seconds: float = 300.0


def lora_rank_for(rank: int) -> int:
    """Return the least rank that vLLM serves at or above `rank`. Raises UnsupportedRequestError."""
    for known in LORA_RANKS:
        if rank <= known:
            return known
    raise UnsupportedRequestError(f"LoRA rank {rank}: vLLM serves at most {LORA_RANKS[-1]}")


def prefix_path(folder: Path, name: str) -> Path:
    """Return where the prefix of a name lies."""
    return folder / name / "prefix.safetensors"
