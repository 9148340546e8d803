"""The environment that vLLM's processes are started in, and what is left of it here."""

import os

import pytest
import torch

from inference.engines.vllm.process import VLLMSettings, preload_restored, set_environment


@pytest.mark.parametrize("before", [None, "/usr/lib/own.so"])
def test_what_vllm_preloads_is_not_left_to_later_processes(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    if before is not None:
        monkeypatch.setenv("LD_PRELOAD", before)
    with pytest.raises(KeyError), preload_restored():
        os.environ["LD_PRELOAD"] = "/venv/libgomp.so"
        raise KeyError
    assert os.environ.get("LD_PRELOAD") == before


@pytest.mark.parametrize(
    ("file", "own", "disabled"),
    [
        ("/home/a b/torch/__init__.py", None, "1"),
        ("/home/a b/torch/__init__.py", "0", "0"),
        ("/home/ab/torch/__init__.py", None, None),
    ],
)
def test_nothing_is_compiled_where_the_path_of_torch_holds_a_space(
    file: str, own: str | None, disabled: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "__file__", file)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    kept = {} if own is None else {"TORCH_COMPILE_DISABLE": own}
    monkeypatch.setattr(os, "environ", kept)
    set_environment(VLLMSettings())
    assert kept.get("TORCH_COMPILE_DISABLE") == disabled
