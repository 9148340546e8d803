"""Shipped components are half the size, load like any other, and say what they were made from."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from models.checkpoint import CheckpointError, verify_component
from models.condition_extractor import ConditionExtractor, build_condition_extractor
from models.condition_extractor_config import ConditionExtractorConfig
from models.deep_prompt import DeepPrompt
from models.text_to_triples import TextToTriples, TextToTriplesConfig, build_text_to_triples
from tests.tiny import tiny_backbone
from training.ship import ship

ROOT = Path(__file__).resolve().parents[2]
CARD = {"sources": [{"name": "world", "licence": "none"}], "seed": 3, "options": {"out": "/x"}}


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    backbone = tiny_backbone(tmp_path / "backbone")
    config = TextToTriplesConfig(backbone=str(backbone), lora_rank=4)
    build_text_to_triples(config, "float32").save_pretrained(tmp_path / "run")
    (tmp_path / "run" / "metrics.json").write_text(
        '{"eval_loss": 0.5, "settings": {"output_dir": "/x", "data": {}, "train": {"seed": 1}}}'
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "card.json").write_text(json.dumps(CARD))
    return tmp_path


def test_weights_are_bfloat16_and_load(trained: Path) -> None:
    manifest = ship(trained / "run", trained / "data", trained / "shipped")
    verify_component(trained / "shipped")
    weights = load_file(trained / "shipped" / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    assert (
        TextToTriples.from_pretrained(trained / "shipped", dtype="float32").settings.lora_rank == 4
    )
    assert manifest["metrics"] == {"eval_loss": 0.5, "settings": {"train": {"seed": 1}}}
    assert manifest["data"] == {"sources": CARD["sources"], "seed": 3}
    assert set(manifest["versions"]) >= {"torch", "peft"}


def test_a_soft_prompt_ships_without_an_adapter(trained: Path) -> None:
    config = ConditionExtractorConfig(backbone=str(trained / "backbone"), num_prompt_tokens=3)
    extractor = build_condition_extractor(config, "float32")
    extractor.save_pretrained(trained / "prompt")
    shutil.copyfile(trained / "run" / "metrics.json", trained / "prompt" / "metrics.json")
    ship(trained / "prompt", trained / "data", trained / "shipped")
    read = ConditionExtractor.from_pretrained(trained / "shipped", dtype="float32")
    assert isinstance(read.prompt, DeepPrompt) and isinstance(extractor.prompt, DeepPrompt)
    expected = extractor.prompt.embeddings.to(torch.bfloat16).float()
    assert torch.equal(read.prompt.embeddings, expected)


def test_command_line_and_missing_card(trained: Path) -> None:
    command = [sys.executable, "training/ship.py", "--component", str(trained / "run")]
    command += ["--out", str(trained / "shipped"), "--json", "--data"]
    done = subprocess.run(
        [*command, str(trained / "data")], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "adapter_model.safetensors" in json.loads(done.stdout.splitlines()[-1])["files"]
    failed = subprocess.run(
        [*command, str(trained / "nowhere")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert failed.returncode == 1
    assert "card.json" in failed.stderr


def test_truncated_component_is_refused(trained: Path) -> None:
    weights = trained / "run" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match=r"adapter_model\.safetensors"):
        ship(trained / "run", trained / "data", trained / "shipped")
    assert not (trained / "shipped").exists()
