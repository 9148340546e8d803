"""Builds of small fixtures are what they were, byte for byte: every file and its card.

The hashes in build_pins.json are those of the builders on whole lists, before they became
streaming, but for four cards, which now also count what limits, caps and sampling leave out. A
change that is meant to alter a build renews them: `python tests/data_gen/test_build_pins.py` writes
the file anew.
"""

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

# Run by path to renew the pins, it finds the packages all the same.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from data_gen import build_conditions, build_subq, build_triples
from tests.data_gen.build_inputs import conditions_cases, subq_cases, triples_cases, write_inputs

PINS = Path(__file__).with_name("build_pins.json")
Cases = Callable[[dict[str, Path]], dict[str, list[str]]]
BUILDERS: dict[str, tuple[ModuleType, Cases]] = {
    "build_subq": (build_subq, subq_cases),
    "build_triples": (build_triples, triples_cases),
    "build_conditions": (build_conditions, conditions_cases),
}


def hashes(folder: Path) -> dict[str, str]:
    """The first digits of the sha256 of each file."""
    files = sorted(folder.iterdir())
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files}


@pytest.mark.parametrize("case", json.loads(PINS.read_text(encoding="utf-8")))
def test_a_build_is_what_it_was(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Cards name broken records by the path that was given, so the paths are relative.
    monkeypatch.chdir(tmp_path)
    builder, name = case.split(" ")
    module, cases = BUILDERS[builder]
    module.main([*cases(write_inputs(Path()))[name], "--out", "out"])
    assert hashes(Path("out")) == json.loads(PINS.read_text(encoding="utf-8"))[case]


def renew() -> None:
    """Write the pins of the code as it is."""
    pins = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        paths = write_inputs(Path())
        for builder, (module, cases) in BUILDERS.items():
            for name, arguments in cases(paths).items():
                module.main([*arguments, "--out", f"out/{builder}_{name}"])
                pins[f"{builder} {name}"] = hashes(Path(f"out/{builder}_{name}"))
    PINS.write_text(json.dumps(pins, indent=1), encoding="utf-8")


if __name__ == "__main__":
    renew()
