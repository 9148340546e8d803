"""How an engine is run, whichever it is."""

from dataclasses import dataclass

ENGINE_KINDS = ("auto", "vllm", "transformers", "openai")


@dataclass(frozen=True)
class EngineOptions:
    """What a command line says about its engine.

    kind: "auto" is vLLM where it is installed and serves the model, transformers otherwise.
    dtype: "auto" (as stored), "bfloat16", "float16" or "float32".
    max_batch_size: requests that run at once; to an endpoint, in flight.
    merge_adapters: of transformers: each adapter in a copy of the backbone.
    gpu_memory_utilization, tensor_parallel_size, max_model_len, compile: of vLLM, see VLLMSettings.
    constrain: hold plans, triples and condition triplets to their grammars.
    base_url, api_key: of an endpoint; None: `OPENAI_BASE_URL`, `OPENAI_API_KEY`.
    max_retries, timeout: of one request to an endpoint; the time-out in seconds.
    """

    kind: str = "auto"
    dtype: str = "bfloat16"
    max_batch_size: int = 64
    merge_adapters: bool = True
    gpu_memory_utilization: float = 0.9
    tensor_parallel_size: int = 1
    max_model_len: int | None = None
    compile: bool | None = None
    constrain: bool = False
    base_url: str | None = None
    api_key: str | None = None
    max_retries: int = 3
    timeout: float = 120.0
