"""A tiny backbone and components on it."""

from pathlib import Path

import pytest

from tests.components import ras_component, stirred_backbone, t2t_component


@pytest.fixture(scope="session")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a tiny random language model."""
    return str(stirred_backbone(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def ras(backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RAS component on the tiny backbone."""
    folder = tmp_path_factory.mktemp("components") / "ras"
    return ras_component(folder, Path(backbone), max_input_tokens=2000, stirred=0.2)


@pytest.fixture(scope="session")
def t2t(backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text-to-triples component on the tiny backbone, with short outputs."""
    folder = tmp_path_factory.mktemp("components") / "t2t"
    return t2t_component(folder, Path(backbone), max_output_tokens=16)
