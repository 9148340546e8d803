"""The engine that `auto` takes: vLLM on a GPU, or where a setting of its own is asked for."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from inference.engines.contract import EngineOptions, UnsupportedRequestError
from inference.opening import engine as opening

Chosen = Callable[[EngineOptions], Any]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Chosen:
    """The name of the engine that would be opened, with vLLM installed."""
    monkeypatch.setattr(opening, "vllm_is_installed", lambda: True)
    monkeypatch.setattr(opening, "_vllm", lambda *given: "vllm")
    monkeypatch.setattr(opening, "_transformers", lambda *given: "transformers")
    return opening.build_engine


def on(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """A machine with this device."""
    monkeypatch.setattr("models.files.backbone.default_device", lambda: device)


def test_a_gpu_has_vllm_and_a_cpu_transformers(
    chosen: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, "cuda")
    assert chosen(EngineOptions()) == "vllm"
    on(monkeypatch, "cpu")
    assert chosen(EngineOptions()) == "transformers"
    assert chosen(EngineOptions(kind="vllm")) == "vllm"


@pytest.mark.parametrize(
    "setting", [{"compile": True}, {"compile": False}, {"prompt_lookup_tokens": 4}]
)
def test_what_only_vllm_can_do_is_not_ignored(
    chosen: Chosen, monkeypatch: pytest.MonkeyPatch, setting: dict[str, Any]
) -> None:
    on(monkeypatch, "cpu")
    assert chosen(replace(EngineOptions(), **setting)) == "vllm"


def test_what_vllm_does_not_serve_runs_on_transformers(
    chosen: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise UnsupportedRequestError("an encoder-decoder backbone")

    on(monkeypatch, "cuda")
    monkeypatch.setattr(opening, "_vllm", refuse)
    assert chosen(EngineOptions()) == "transformers"


def test_without_vllm_a_gpu_has_transformers(
    chosen: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, "cuda")
    monkeypatch.setattr(opening, "vllm_is_installed", lambda: False)
    assert chosen(EngineOptions()) == "transformers"
