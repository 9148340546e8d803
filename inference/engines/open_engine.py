"""An engine by its name, for commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from inference.engines.contract import Engine
from inference.engines.errors import UnsupportedRequestError

ENGINE_KINDS = ("transformers", "openai")
EngineKind = Literal["transformers", "openai"]


def build_engine(
    kind: EngineKind | str,
    backbone: str | None = None,
    adapters: Mapping[str, str | Path] | None = None,
    dtype: str = "auto",
    device: str | None = None,
    max_batch_size: int = 32,
    max_batch_tokens: int = 16384,
    merge_adapters: bool = False,
    base_url: str | None = None,
    api_key: str | None = None,
) -> Engine:
    """Open an engine; what the other kind takes is ignored.

    Args:
        kind: "transformers" or "openai".
        backbone: of the transformers engine (None: its adapters'), or the endpoint's model name.
        adapters: component folders by name; transformers alone.
        dtype, device, max_batch_size, max_batch_tokens, merge_adapters: of the transformers
            engine; max_batch_size also bounds the requests in flight to an endpoint.
        base_url, api_key: of the endpoint; None: `OPENAI_BASE_URL`, `OPENAI_API_KEY`.

    Raises ValueError for an unknown kind, EngineError for a combination that cannot work.
    """
    # Each engine is imported where it is chosen: the endpoint's client needs no torch.
    if kind == "transformers":
        from inference.engines.transformers import TransformersEngine

        return TransformersEngine(
            backbone,
            adapters,
            dtype,
            device,
            max_batch_size,
            max_batch_tokens,
            merge_adapters=merge_adapters,
        )
    if kind == "openai":
        from inference.engines.openai import OpenAIEngine

        if adapters:
            raise UnsupportedRequestError(
                f"an API endpoint runs no adapters ({', '.join(adapters)}); "
                "use the transformers engine"
            )
        if not backbone:
            raise UnsupportedRequestError("name the endpoint's model as the backbone")
        return OpenAIEngine(backbone, base_url, api_key, max_concurrency=max_batch_size)
    raise ValueError(f"unknown engine {kind!r}; choose one of {', '.join(ENGINE_KINDS)}")
