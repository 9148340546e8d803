"""Component folders: whole or not at all, and refused with a reason when they are not sound."""

import errno
import json
import os
import stat
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from common.files import atomic_write
from models.files import checkpoint
from models.files.checkpoint import (
    BackboneMismatchError,
    CheckpointWriteError,
    NotACheckpointError,
    TruncatedCheckpointError,
    check_backbone,
    check_component,
    component_fingerprint,
    read_component_config,
    verify_component,
    write_component,
)

CONFIG = {"component": "ras", "backbone": "tiny", "backbone_id": "tiny#1"}


def write(folder: Path, value: float = 1.0) -> Path:
    def weights(target: Path) -> None:
        save_file({"weight": torch.full((4, 4), value)}, target / "weights.safetensors")

    write_component(folder, CONFIG, weights)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_round_trip(tmp_path: Path) -> None:
    folder = write(tmp_path / "ras")
    assert read_component_config(folder, "ras") == {**CONFIG, "format_version": 1}
    verify_component(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest["files"]) == {"config.json", "weights.safetensors"}


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_files_have_the_permissions_that_the_umask_leaves(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = write(tmp_path / "ras")
        with atomic_write(tmp_path / "log.txt") as handle:
            handle.write("a line")
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o666 & ~umask}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~umask


def test_writing_again_replaces_the_folder(tmp_path: Path) -> None:
    folder = write(tmp_path / "ras")
    first = component_fingerprint(folder)
    assert component_fingerprint(write(tmp_path / "copy")) == first
    write(folder, 2.0)
    assert component_fingerprint(folder) != first
    assert load_file(folder / "weights.safetensors")["weight"][0, 0] == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy", "ras"]


@pytest.mark.parametrize("keep", [0, 5, 60, -1])
def test_a_short_weight_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = write(tmp_path / "ras") / "weights.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    with pytest.raises(TruncatedCheckpointError, match=r"weights\.safetensors") as error:
        read_component_config(path.parent)
    assert str(len(whole[:keep])) in str(error.value)


def test_a_missing_weight_file_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "ras")
    (folder / "weights.safetensors").unlink()
    with pytest.raises(TruncatedCheckpointError, match=r"weights\.safetensors"):
        read_component_config(folder)


def test_an_altered_weight_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "ras") / "weights.safetensors"
    altered = bytearray(path.read_bytes())
    altered[-1] ^= 1
    path.write_bytes(altered)
    read_component_config(path.parent)
    with pytest.raises(TruncatedCheckpointError, match="sha256"):
        verify_component(path.parent)


def test_what_is_no_component_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotACheckpointError, match="no such folder"):
        read_component_config(tmp_path / "absent")
    with pytest.raises(NotACheckpointError, match=r"config\.json"):
        read_component_config(tmp_path)
    folder = write(tmp_path / "ras")
    with pytest.raises(NotACheckpointError, match="'ras', and 't2t'"):
        read_component_config(folder, "t2t")
    (folder / "config.json").write_text("[1]")
    with pytest.raises(NotACheckpointError, match="JSON object"):
        read_component_config(folder)
    (folder / "config.json").write_text('{"component": ')
    with pytest.raises(TruncatedCheckpointError, match=r"config\.json"):
        read_component_config(folder)


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(NotACheckpointError, match="format 99"):
        check_component({"component": "ras", "format_version": 99}, "ras")


def test_another_backbone_is_refused_by_both_names() -> None:
    check_backbone(CONFIG, "tiny#1")
    with pytest.raises(BackboneMismatchError, match=r"'tiny#1'.*'other#2'"):
        check_backbone(CONFIG, "other#2")


def test_a_full_disk_leaves_the_earlier_folder_whole(tmp_path: Path) -> None:
    folder = write(tmp_path / "ras")
    before = content(folder)

    def fails(target: Path) -> None:
        (target / "half").write_bytes(b"x")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(CheckpointWriteError, match=r"1,000 bytes are needed and .* were free"):
        write_component(folder, CONFIG, fails, needed_bytes=1000)
    assert content(folder) == before
    assert [p.name for p in tmp_path.iterdir()] == ["ras"]


def test_a_full_disk_under_safetensors_is_told_as_such(tmp_path: Path) -> None:
    def fails(_: Path) -> None:
        # What safetensors 0.8 raises on a file system without space.
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with pytest.raises(CheckpointWriteError, match="is full"):
        write_component(tmp_path / "ras", CONFIG, fails)
    assert not (tmp_path / "ras").exists()


def test_too_little_space_is_seen_before_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda _: usage(100, 90, 10))
    with pytest.raises(CheckpointWriteError, match="50 bytes are needed and 10 bytes were free"):
        write_component(tmp_path / "ras", CONFIG, lambda _: pytest.fail("wrote"), needed_bytes=50)


def test_other_errors_pass_through(tmp_path: Path) -> None:
    def fails(_: Path) -> None:
        raise PermissionError(errno.EACCES, "denied")

    with pytest.raises(PermissionError):
        write_component(tmp_path / "ras", CONFIG, fails)
