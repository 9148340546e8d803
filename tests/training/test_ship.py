"""Shipped components are half the size, load like any other, and say what they were made from."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from models.condition_extractor import (
    ConditionExtractor,
    ConditionExtractorConfig,
)
from models.files.checkpoint import CheckpointError, verify_component
from models.parts.deep_prompt import DeepPrompt
from models.span_reader import SpanReader, SpanReaderConfig
from models.text_to_triples import TextToTriples, TextToTriplesConfig
from tests.components import whole_component
from tests.processes import fresh, run
from tests.tiny import tiny_backbone, tiny_encoder
from training.ship import ship

ROOT = Path(__file__).resolve().parents[2]
SOURCE = {"name": "world", "file": "w", "sha256": "ab", "licence": "ours", "records": 7}
CARD = {"sources": [SOURCE], "seed": 3, "options": {"out": "/x"}}


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    backbone = tiny_backbone(tmp_path / "backbone")
    config = TextToTriplesConfig(backbone=str(backbone), lora_rank=4)
    TextToTriples.from_config(config, dtype="float32").save_pretrained(tmp_path / "run")
    (tmp_path / "run" / "metrics.json").write_text(
        '{"eval_loss": 0.5, "settings": {"output_dir": "/x", "data": {}, "train": {"seed": 1}}}'
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "card.json").write_text(json.dumps(CARD))
    return tmp_path


def test_weights_are_bfloat16_and_load(trained: Path) -> None:
    manifest = ship(trained / "run", [trained / "data"], trained / "shipped")
    verify_component(trained / "shipped")
    weights = load_file(trained / "shipped" / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    assert (
        TextToTriples.from_pretrained(trained / "shipped", dtype="float32").settings.lora_rank == 4
    )
    assert manifest["metrics"] == {"eval_loss": 0.5, "settings": {"train": {"seed": 1}}}
    subset = {"subset": "world", "file": "w", "sha256": "ab", "records": 7, "licence": "ours"}
    assert manifest["data"] == {"subsets": [subset], "seed": 3}
    assert set(manifest["versions"]) >= {"torch", "peft"}


def test_a_model_that_trained_whole_is_shipped_with_its_weights(trained: Path) -> None:
    whole = whole_component(trained / "whole", trained / "backbone")
    ship(whole, [trained / "data"], trained / "shipped")
    verify_component(trained / "shipped")
    weights = load_file(trained / "shipped" / "model" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    before, after = (
        dict(TextToTriples.from_pretrained(f, dtype="float32").named_parameters())
        for f in (whole, trained / "shipped")
    )
    assert before.keys() == after.keys()
    for name, parameter in before.items():
        torch.testing.assert_close(after[name], parameter, rtol=0.01, atol=0.01)


def test_what_has_no_weights_is_not_shipped(trained: Path) -> None:
    folder = trained / "run"
    for path in folder.glob("*.safetensors"):
        path.unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = {n: e for n, e in manifest["files"].items() if "safetensors" not in n}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="has no weights"):
        ship(folder, [trained / "data"], trained / "shipped")
    assert not (trained / "shipped").exists()


def test_the_data_of_several_tasks_are_named_once_each(trained: Path) -> None:
    other = {**SOURCE, "name": "musique", "sha256": "cd"}
    (trained / "more").mkdir()
    card = {"sources": [SOURCE, other], "seed": 4, "splits": {"train": 5, "dev": 1}}
    (trained / "more" / "card.json").write_text(json.dumps(card))
    folders = [trained / "data", trained / "more", trained / "more"]
    data = ship(trained / "run", folders, trained / "shipped")["data"]
    assert [row["subset"] for row in data["subsets"]] == ["world", "musique"]
    assert data["splits"] == {"train": 10, "dev": 2} and "seed" not in data


def test_what_went_on_from_a_component_by_outcomes_names_the_data_of_both(trained: Path) -> None:
    before = trained / "before"
    ship(trained / "run", [trained / "data"], before)
    rollout = trained / "rollout"
    rollout.mkdir()
    (rollout / "trajectories.jsonl").write_text("{}\n{}\n")
    (rollout / "results.json").write_text('{"dataset": "questions", "trajectories": 2}')
    licences = {"questions_trajectories": "CC BY-SA 4.0"}
    data = ship(trained / "run", [before, rollout], trained / "shipped", licences)["data"]
    world, drawn = data["subsets"]
    assert world["subset"] == "world" and data["seed"] == 3
    assert data["splits"] == {"train": 2}
    assert (drawn["subset"], drawn["records"], drawn["licence"]) == (
        "questions_trajectories", 2, "CC BY-SA 4.0"
    )  # fmt: skip
    assert len(drawn["sha256"]) == 64
    # What learned from outcomes, and names no rollout, is not shipped.
    metrics = trained / "run" / "metrics.json"
    metrics.write_text('{"settings": {"objective": {"kind": "best_of"}}}')
    with pytest.raises(CheckpointError, match=r"kind=best_of: name with --data the folder of each"):
        ship(trained / "run", [before], trained / "again", licences)
    assert not (trained / "again").exists()
    ship(trained / "run", [before, rollout], trained / "again", licences)
    # Nor an average of it with another.
    plain = '{"settings": {"objective": {"kind": "imitation"}}}'
    averaged = [{"objectives": ["best_of"]}, {"objectives": ["imitation"]}]
    metrics.write_text(f'{{"averaged": {json.dumps(averaged)}, "last_part": {plain}}}')
    with pytest.raises(CheckpointError, match=r"kind=best_of: name with --data"):
        ship(trained / "run", [before], trained / "mean", licences)


def test_a_component_that_does_not_say_what_it_was_made_from_is_no_data(trained: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"run.card\.json"):
        ship(trained / "run", [trained / "run"], trained / "shipped")
    assert not (trained / "shipped").exists()


def test_a_soft_prompt_ships_without_an_adapter(trained: Path) -> None:
    config = ConditionExtractorConfig(backbone=str(trained / "backbone"), num_prompt_tokens=3)
    extractor = ConditionExtractor.from_config(config, dtype="float32")
    extractor.save_pretrained(trained / "prompt")
    shutil.copyfile(trained / "run" / "metrics.json", trained / "prompt" / "metrics.json")
    ship(trained / "prompt", [trained / "data"], trained / "shipped")
    read = ConditionExtractor.from_pretrained(trained / "shipped", dtype="float32")
    assert isinstance(read.prompt, DeepPrompt) and isinstance(extractor.prompt, DeepPrompt)
    expected = extractor.prompt.embeddings.to(torch.bfloat16).float()
    assert torch.equal(read.prompt.embeddings, expected)


def test_an_extractive_reader_ships_with_a_margin_of_its_own(trained: Path) -> None:
    config = SpanReaderConfig(str(tiny_encoder(trained / "encoder")), lora_rank=2)
    SpanReader.from_config(config, dtype="float32").save_pretrained(trained / "span")
    shutil.copyfile(trained / "run" / "metrics.json", trained / "span" / "metrics.json")
    ship(trained / "span", [trained / "data"], trained / "shipped", least_margin=-1.5)
    assert SpanReader.from_pretrained(trained / "shipped").settings.least_margin == -1.5
    with pytest.raises(CheckpointError, match=r"--least-margin: .*run is no extractive reader"):
        ship(trained / "run", [trained / "data"], trained / "other", least_margin=1.0)


def test_command_line_and_missing_card(trained: Path) -> None:
    command = ["training/ship.py", "--component", trained / "run"]
    command += ["--out", trained / "shipped", "--json", "--data"]
    done = fresh(*command, trained / "data", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "adapter_model.safetensors" in json.loads(done.stdout.splitlines()[-1])["files"]
    failed = run(ROOT / command[0], *command[1:], trained / "nowhere")
    assert failed.returncode == 1
    assert "card.json" in failed.stderr


def test_truncated_component_is_refused(trained: Path) -> None:
    weights = trained / "run" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match=r"adapter_model\.safetensors"):
        ship(trained / "run", [trained / "data"], trained / "shipped")
    assert not (trained / "shipped").exists()


def test_licences_are_named_and_non_commercial_data_is_refused(trained: Path) -> None:
    parts = [
        {"subset": "a", "licence": "MIT", "records": 2},
        {"subset": "b", "licence": "CC BY-NC-SA 4.0", "records": 1},
    ]
    mixed = {**SOURCE, "name": "contract", "licence": "MIT; CC BY-NC-SA 4.0", "subsets": parts}
    card = trained / "data" / "card.json"
    arguments = (trained / "run", [trained / "data"], trained / "shipped")
    card.write_text(json.dumps({"sources": [mixed]}))
    with pytest.raises(CheckpointError, match="trained on b, whose licence CC BY-NC-SA"):
        ship(*arguments)
    assert not (trained / "shipped").exists()
    rows = ship(*arguments, allow_non_commercial=True)["data"]["subsets"]
    assert [(row["subset"], row["records"], row["licence"]) for row in rows] == [
        ("a", 2, "MIT"), ("b", 1, "CC BY-NC-SA 4.0")
    ]  # fmt: skip
    card.write_text(json.dumps({"sources": [{**SOURCE, "licence": "unknown"}]}))
    assert ship(*arguments)["data"]["subsets"][0]["licence"] == "not stated"
    stated = ship(*arguments, licences={"world": "ours"})
    assert stated["data"]["subsets"][0]["licence"] == "ours"
    with pytest.raises(CheckpointError, match="such are world"):
        ship(*arguments, licences={"elsewhere": "MIT"})
    with pytest.raises(CheckpointError, match="forbids commercial"):
        ship(*arguments, licences={"world": "CC BY-NC 4.0"})
