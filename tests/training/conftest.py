"""Tiny data and backbone that every training test shares."""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from models.formats.planning import HistoryStep
from models.formats.records import (
    ConditionSample,
    InstructionSample,
    RasSample,
    TriplesSample,
    write_records,
)
from models.formats.triples import Triple
from tests import processes
from tests.tiny import tiny_backbone
from training.recipe.settings import T2TSettings, load_config

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
Settings = Callable[..., T2TSettings]


@pytest.fixture(scope="session")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny random language model."""
    return tiny_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="session")
def triples_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight text-to-triples samples of different lengths."""
    path = tmp_path_factory.mktemp("data") / "triples.jsonl"
    samples = [
        TriplesSample(f"t{i}", f"Ada{'a' * i} is {i}.", [Triple(f"Ada{i}", "age", str(i))])
        for i in range(8)
    ]
    write_records(path, samples)
    return path


@pytest.fixture(scope="session")
def conditions_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six passages, of which every other gives two condition triplets."""
    path = tmp_path_factory.mktemp("data") / "conditions.jsonl"
    samples = []
    for i in range(6):
        text = f"Ada{'a' * i} is {i}. She lives in City{i}."
        samples.append(ConditionSample(f"c{i}/0", text, f"Ada{i}; age", text, f"Ada{i} is {i}."))
        if i % 2:
            claim = f"Ada{i} lives in City{i}."
            samples.append(ConditionSample(f"c{i}/1", text, f"Ada{i}; residence", "", claim))
    write_records(path, samples)
    return path


@pytest.fixture(scope="session")
def helper_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six decompositions of different lengths."""
    path = tmp_path_factory.mktemp("data") / "decompose.jsonl"
    samples = [
        InstructionSample(
            f"q{i}/decompose/0",
            "decompose",
            f"Question: Who directed Film{'m' * i}?\nTriplets:\n",
            f"Film{'m' * i} | director | ?",
        )
        for i in range(6)
    ]
    write_records(path, samples)
    return path


@pytest.fixture(scope="session")
def ras_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plans and answers of four questions, with and without a history."""
    path = tmp_path_factory.mktemp("data") / "ras.jsonl"
    samples: list[RasSample] = []
    for i in range(4):
        question = f"Where is Ada{i}?"
        history = [HistoryStep(f"Find Ada{i}", (Triple(f"Ada{i}", "lives in", f"City{i}"),))]
        samples += [
            RasSample(f"q{i}/plan/0", "plan", question, [], f"[SUBQ] Find Ada{i}"),
            RasSample(f"q{i}/plan/1", "plan", question, history, "[SUFFICIENT]"),
            RasSample(f"q{i}/answer", "answer", question, history, f"City{i}"),
        ]
    write_records(path, samples)
    return path


@pytest.fixture(scope="session")
def run_script() -> Run:
    """Run a training script as a user does, from another folder.

    launch: what a fresh interpreter runs it by.
    """

    def run(
        script: str, *arguments: str, cwd: Path, launch: Sequence[str] = ()
    ) -> "subprocess.CompletedProcess[str]":
        program = ROOT / "training" / script
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        if launch:
            return processes.fresh(*launch, program, *arguments, cwd=cwd, env=environment)
        return processes.run(program, *arguments, cwd=cwd, env=environment)

    return run


@pytest.fixture
def settings(triples_file: Path, backbone: Path, tmp_path: Path) -> Settings:
    """Makes recipes that log and save after each step, in the test's own folder."""

    def make(*overrides: str) -> T2TSettings:
        given = [
            f"output_dir={tmp_path / 'out'}",
            f"data.train={triples_file}",
            f"model.backbone={backbone}",
            "model.lora.dropout=0.2",
            "train.tensorboard=false",
            "train.logging_steps=1",
            "train.save_steps=1",
            "train.save_total_limit=0",
            "train.max_steps=0",
            *overrides,
        ]
        return load_config(T2TSettings, ROOT / "configs/t2t_tiny.yaml", given)

    return make
