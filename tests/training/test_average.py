"""The mean of components is the mean of their weights, and nothing else can be averaged."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from models.files.checkpoint import verify_component
from models.text_to_triples import TextToTriples, TextToTriplesConfig
from tests.components import ras_component, stir, whole_component
from tests.tiny import tiny_backbone
from training.average import AverageError, average
from training.ship import shipped_metrics

ADAPTER = "adapter_model.safetensors"


def component(folder: Path, backbone: Path, scale: float, rank: int = 4) -> Path:
    """A text-to-triples component with an adapter of its own."""
    model = TextToTriples.from_config(TextToTriplesConfig(str(backbone), lora_rank=rank))
    stir(model, scale, only="lora_")
    model.save_pretrained(folder)
    kind = {"kind": "best_of" if scale > 0.3 else "imitation"}
    settings = {"output_dir": "/x", "model": {"start_from": "/y/z"}, "objective": kind}
    metrics = {"scale": scale, "settings": settings}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    backbone = tiny_backbone(tmp_path / "backbone")
    return [component(tmp_path / str(n), backbone, scale) for n, scale in enumerate((0.1, 0.5))]


@pytest.mark.parametrize("shares", [(1.0, 1.0), (3.0, 1.0)])
def test_every_tensor_is_the_weighted_mean(
    folders: list[Path], shares: tuple[float, float], tmp_path: Path
) -> None:
    average(folders, shares, tmp_path / "mean")
    verify_component(tmp_path / "mean")
    first, second, mean = (load_file(f / ADAPTER) for f in [*folders, tmp_path / "mean"])
    share = shares[0] / sum(shares)
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, share * first[name] + (1 - share) * second[name])
    assert TextToTriples.from_pretrained(tmp_path / "mean").settings.lora_rank == 4
    metrics = shipped_metrics(tmp_path / "mean")
    settings = {"model": {"start_from": "z"}, "objective": {"kind": "best_of"}}
    assert metrics["last_part"] == {"scale": 0.5, "settings": settings}
    # An average of averages knows too how each part learned.
    average([tmp_path / "mean", folders[0]], (1.0, 1.0), tmp_path / "again")
    kinds = [part["objectives"] for part in shipped_metrics(tmp_path / "again")["averaged"]]
    assert kinds == [["best_of", "imitation"], ["imitation"]]
    assert [part["weight"] for part in metrics["averaged"]] == list(shares)


def test_models_that_trained_whole_are_averaged_too(tmp_path: Path) -> None:
    folders = [tmp_path / str(n) for n in (0, 1)]
    for seed, folder in enumerate(folders):
        backbone = tiny_backbone(tmp_path / f"backbone{seed}" / "same", seed=seed)
        whole_component(folder, backbone)
    average(folders, [1.0, 1.0], tmp_path / "mean")
    first, second, mean = (
        TextToTriples.from_pretrained(f, dtype="float32") for f in (*folders, tmp_path / "mean")
    )
    others = dict(second.named_parameters())
    for name, parameter in first.named_parameters():
        expected = (parameter + others[name]) / 2
        torch.testing.assert_close(dict(mean.named_parameters())[name], expected)


def test_what_has_no_mean_is_refused(folders: list[Path], tmp_path: Path) -> None:
    backbone = tmp_path / "backbone"
    out = tmp_path / "mean"
    with pytest.raises(AverageError, match="two components or more"):
        average(folders[:1], [1.0], out)
    with pytest.raises(AverageError, match="a positive weight for each"):
        average(folders, [1.0, 0.0], out)
    with pytest.raises(AverageError, match="differ in 'component'"):
        average([folders[0], ras_component(tmp_path / "ras", backbone)], [1.0, 1.0], out)
    with pytest.raises(AverageError, match="not the same in all components"):
        average([folders[0], component(tmp_path / "wide", backbone, 0.1, 8)], [1.0, 1.0], out)
    assert not out.exists()
