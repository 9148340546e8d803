"""The extractive reader's recipe: what it trains on, what it refuses, its figures, its resume."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from models.formats.reading import reading_prompt
from models.formats.records import InstructionSample, write_records
from models.span_reader import SpanReader
from tests.tiny import tiny_encoder
from tests.training.conftest import ROOT
from tests.training.runs import course, weights
from training.loop.preemption import StopRequest
from training.recipe.settings import ConfigError, T2TSettings, load_config
from training.run.arguments import training_arguments
from training.run.prepare import prepare
from training.run.runner import run_training
from training.train_span_reader import RECIPE

NAMES = ("ana lis", "bo kern", "cy moe", "dee fox", "eli ray", "flo hay", "gus orr", "hal poe")
FACT = "(S> Dawn| P> director| O> Ana Lis)"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny random encoder."""
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def samples_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Passages that name a maker; every fourth is asked for what it does not tell."""
    path = tmp_path_factory.mktemp("data") / "read.jsonl"
    samples = []
    for number in range(32):
        name = NAMES[number % len(NAMES)]
        tells = number % 4 > 0
        asked = "who made it?" if tells else "when was it made?"
        prompt = reading_prompt(asked, f"film {number}: it was made by {name} in a town.")
        label = name if tells else "nothing"
        samples.append(InstructionSample(f"q{number}/read/0", "read", prompt, label))
    write_records(path, samples)
    return path


def recipe(data: Path, encoder: Path, out: Path, *changes: str) -> T2TSettings:
    given = [
        f"data.train={data}", f"model.backbone={encoder}", f"output_dir={out}",
        "model.dtype=float32", "model.max_input_tokens=128", "model.lora.rank=8",
        "train.batch_size=8", "train.tensorboard=false", *changes,
    ]  # fmt: skip
    return load_config(T2TSettings, ROOT / "configs" / "span_reader_minilm.yaml", given)


def train(settings: T2TSettings) -> dict[str, Any]:
    torch.manual_seed(settings.train.seed)
    return run_training(prepare(RECIPE, settings), training_arguments(settings), StopRequest())


def test_it_learns_to_point_and_to_refuse(
    samples_file: Path, encoder: Path, tmp_path: Path
) -> None:
    changes = (f"data.dev={samples_file}", "train.num_train_epochs=60", "train.learning_rate=0.005")
    figures = train(recipe(samples_file, encoder, tmp_path / "run", *changes))
    assert figures["eval_exact_match"] > 0.9 and figures["eval_refused"] == 1.0
    assert figures["eval_loss"] < 0.3
    reader = SpanReader.from_pretrained(tmp_path / "run")
    assert reader.settings.max_input_tokens == 128


def test_facts_are_no_answer(encoder: Path, tmp_path: Path) -> None:
    prompt = reading_prompt("Where was the director of Dawn born?", "Dawn: a film by Ana Lis.")
    samples = [InstructionSample("q/read/0", "read", prompt, FACT)]
    write_records(tmp_path / "read.jsonl", samples)
    made = prepare(RECIPE, recipe(tmp_path / "read.jsonl", encoder, tmp_path / "run"))
    assert made.train[0].spans.tolist() == [[0, 0]]  # type: ignore[attr-defined]
    assert made.train.records[0].label == "nothing"


def test_another_task_is_refused_by_name(encoder: Path, tmp_path: Path) -> None:
    write_records(tmp_path / "t.jsonl", [InstructionSample("e/topic/0", "topic", "p", "a | b")])
    with pytest.raises(ConfigError, match=r"t.jsonl: sample 'e/topic/0' is of the task 'topic'"):
        prepare(RECIPE, recipe(tmp_path / "t.jsonl", encoder, tmp_path / "run"))


def test_resumed_it_is_the_same_training(samples_file: Path, encoder: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(recipe(samples_file, encoder, whole, "train.num_train_epochs=2", "train.logging_steps=1"))
    changes = ("train.num_train_epochs=2", "train.logging_steps=1", "train.save_steps=5")
    first = recipe(samples_file, encoder, parts, *changes)
    train(first)
    for name in ("config.json", "adapter_model.safetensors", "manifest.json", "metrics.json"):
        (parts / name).unlink()
    train(recipe(samples_file, encoder, parts, *changes, f"train.resume={parts}/checkpoint-5"))
    assert weights(parts) == weights(whole)
    assert course(parts)[-3:] == course(whole)[-3:]


def test_the_first_sample_shows_its_answer(
    samples_file: Path, encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(recipe(samples_file, encoder, tmp_path / "run", "train.max_steps=1", "train.seed=3"))
    shown = capsys.readouterr().out
    assert ("⟦" in shown and "who made it" in shown) or "when was it made" in shown
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["steps"] == 1
