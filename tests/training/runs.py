"""Tiny trainings in this process and as commands, and what two of them are compared by."""

import json
import os
from pathlib import Path
from typing import Any

import torch

from tests import processes
from tests.training.conftest import ROOT
from training.loop.preemption import StopRequest
from training.recipe.settings import T2TSettings
from training.run.arguments import training_arguments
from training.run.prepare import prepare
from training.run.run_folder import read_history
from training.run.runner import run_training
from training.train_t2t import RECIPE

FIGURES = ("loss", "learning_rate", "grad_norm", "eval_loss", "train_loss", "step")


def train(settings: T2TSettings, stop: StopRequest | None = None) -> dict[str, Any]:
    """Train text-to-triples in this process."""
    args = training_arguments(settings)
    torch.manual_seed(settings.train.seed)
    return run_training(prepare(RECIPE, settings), args, stop)


def course(run: Path) -> list[dict[str, Any]]:
    """What a run logged, without what depends on the clock."""
    entries = [{k: v for k, v in e.items() if k in FIGURES} for e in read_history(run)]
    return [entry for entry in entries if len(entry) > 1]


def weights(run: Path) -> dict[str, str]:
    """Hash of each weight file of a finished run."""
    files = json.loads((run / "manifest.json").read_text())["files"]
    return {name: entry["sha256"] for name, entry in files.items() if "safetensors" in name}


def steps_logged(run: Path) -> int:
    """Lines of a run's history so far."""
    history = run / "history.jsonl"
    return len(history.read_text().splitlines()) if history.is_file() else 0


def start(script: str | Path, *arguments: str, **environment: str) -> processes.Process:
    """Start a training script, or another one by its path, as a user does."""
    program = ROOT / "training" / script
    return processes.begin(program, *arguments, env={**os.environ, **environment})
