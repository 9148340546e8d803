"""An adapter of a lower rank is the nearest one to the update that it had."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from models.files.checkpoint import (
    component_fingerprint,
    component_provenance,
    verify_component,
)
from models.parts.adapters import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from models.text_to_triples import TextToTriples, TextToTriplesConfig
from tests.components import ras_component, stir, tri_rag_component
from tests.run_main import run_main
from tests.tiny import tiny_backbone
from training.lower_rank import RankError, lower_rank, lower_update, main

SIZES = st.integers(1, 12)


@pytest.fixture
def component(tmp_path: Path) -> Path:
    backbone = tiny_backbone(tmp_path / "backbone")
    model = TextToTriples.from_config(TextToTriplesConfig(str(backbone), lora_rank=8))
    stir(model, 0.3, only="lora_")
    model.save_pretrained(tmp_path / "component")
    (tmp_path / "component" / "metrics.json").write_text('{"eval_loss": 1.0, "steps": 7}')
    return tmp_path / "component"


def updates(folder: Path) -> dict[str, torch.Tensor]:
    """Return what each module's adapter adds to its weights."""
    weights = load_file(folder / ADAPTER_WEIGHTS)
    described = json.loads((folder / ADAPTER_CONFIG).read_text())
    scale = described["lora_alpha"] / described["r"]
    return {
        name.removesuffix(".lora_A.weight"): scale * weights[name.replace("lora_A", "lora_B")] @ a
        for name, a in weights.items()
        if "lora_A" in name
    }


@settings(max_examples=40, deadline=None)
@given(SIZES, SIZES, SIZES, st.integers(1, 12), st.integers(0, 99))
def test_no_update_of_that_rank_is_nearer(
    inside: int, outside: int, had: int, rank: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    down = torch.randn(had, inside, generator=generator)
    up = torch.randn(outside, had, generator=generator)
    lower_down, lower_up, kept = lower_update(down, up, rank)
    whole = (up @ down).double()
    left, values, right = torch.linalg.svd(whole, full_matrices=False)
    nearest = left[:, :rank] * values[:rank] @ right[:rank]
    torch.testing.assert_close((lower_up @ lower_down).double(), nearest, atol=1e-4, rtol=1e-4)
    assert kept == pytest.approx(float(nearest.square().sum() / whole.square().sum()), abs=1e-5)


def test_peft_finds_the_same_update(component: Path, tmp_path: Path) -> None:
    lower_rank(component, 3, tmp_path / "lower")
    model = TextToTriples.from_pretrained(component, dtype="float32").model
    # Of one adapter alone PEFT takes no such combination.
    model.load_adapter(str(component), "again")
    model.base_model.add_weighted_adapter(
        ["default", "again"], [0.5, 0.5], "svd", combination_type="svd", svd_rank=3
    )
    found = updates(tmp_path / "lower")
    assert found
    for name, update in found.items():
        delta = model.get_submodule(name).get_delta_weight("svd")
        torch.testing.assert_close(update, delta, atol=1e-5, rtol=1e-3)


def test_what_is_written_is_a_component_of_that_rank(component: Path, tmp_path: Path) -> None:
    kept = lower_rank(component, 4, tmp_path / "lower")
    verify_component(tmp_path / "lower")
    assert all(0 < share < 1 for share in kept.values())
    lower = TextToTriples.from_pretrained(tmp_path / "lower", dtype="float32")
    assert lower.settings.lora_rank == 4
    metrics = json.loads((tmp_path / "lower" / "metrics.json").read_text())
    assert metrics == {
        "steps": 7,
        "lowered": {
            "component": "component",
            "fingerprint": component_fingerprint(component),
            "rank": 8,
            "figures": {"eval_loss": 1.0},
        },
    }
    size = (tmp_path / "lower" / ADAPTER_WEIGHTS).stat().st_size
    assert size < 0.7 * (component / ADAPTER_WEIGHTS).stat().st_size
    for name, before in updates(component).items():
        after = updates(tmp_path / "lower")[name]
        assert (before - after).norm() < before.norm()


def test_what_it_was_trained_on_stays_in_the_manifest(component: Path, tmp_path: Path) -> None:
    made_of = {"data": {"subsets": [{"subset": "a", "licence": "MIT"}]}, "metrics": {"steps": 7}}
    manifest = component / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | made_of))
    lower_rank(component, 4, tmp_path / "lower")
    found = component_provenance(tmp_path / "lower")
    assert found["data"] == made_of["data"]
    assert found["metrics"] == json.loads((tmp_path / "lower" / "metrics.json").read_text())


def test_other_weights_stay(tmp_path: Path) -> None:
    tiny_backbone(tmp_path / "backbone")
    ras = ras_component(tmp_path / "ras", tmp_path / "backbone")
    lower_rank(ras, 1, tmp_path / "lower")
    graphs = "graph_encoder.safetensors"
    assert (tmp_path / "lower" / graphs).read_bytes() == (ras / graphs).read_bytes()


@pytest.mark.parametrize("rank", [0, 8, 9])
def test_a_rank_that_is_not_lower_is_refused(component: Path, rank: int, tmp_path: Path) -> None:
    with pytest.raises(RankError, match="rank 8: give --rank from 1 to 7"):
        lower_rank(component, rank, tmp_path / "lower")
    assert not (tmp_path / "lower").exists()


def test_a_component_without_an_adapter_is_refused(component: Path, tmp_path: Path) -> None:
    (component / ADAPTER_WEIGHTS).unlink()
    (component / "manifest.json").unlink(missing_ok=True)
    with pytest.raises(RankError, match="only the rank of an adapter"):
        lower_rank(component, 2, tmp_path / "lower")


@pytest.mark.parametrize("adaptation", ["soft_prompt", "prefix_tuning"])
def test_a_prompt_has_no_rank(adaptation: str, tmp_path: Path) -> None:
    tiny_backbone(tmp_path / "backbone")
    prompt = tri_rag_component(tmp_path / "prompt", tmp_path / "backbone", adaptation)
    with pytest.raises(RankError, match="only the rank of an adapter"):
        lower_rank(prompt, 2, tmp_path / "lower")
    assert not (tmp_path / "lower").exists()


def test_the_command(
    component: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run_main(monkeypatch, main, "--component", component, "--rank", "2", "--out", tmp_path / "low",
             "--json")  # fmt: skip
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["rank"] == 2 and told["kept"]
