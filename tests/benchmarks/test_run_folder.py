"""A benchmark goes on in the folder of one with the same settings, and in no other."""

from pathlib import Path

import pytest

from benchmarks.harness.run_folder import RunFolderError, claim


def test_the_same_settings_go_on_and_new_names_are_added(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "out"
    claim(folder, {"seed": 0, "values": ["a=1"]})
    claim(folder, {"seed": 0, "step": "--fast"})
    with pytest.raises(RunFolderError, match=r"another step \(--fast, not --slow\)"):
        claim(folder, {"seed": 0, "step": "--slow"})
    with pytest.raises(RunFolderError, match=r"values \(\['a=1'\], not \[\]\)"):
        claim(folder, {"values": []})


def test_a_setting_that_was_none_is_one(tmp_path: Path) -> None:
    claim(tmp_path, {"limit": None})
    with pytest.raises(RunFolderError, match=r"limit \(None, not 3\)"):
        claim(tmp_path, {"limit": 3})
