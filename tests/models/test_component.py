"""A component's config.json: what it may hold, and what is said of a key that nobody knows."""

import json
from pathlib import Path
from typing import Any

import pytest

from models.component import ComponentConfig
from models.condition_extractor import ConditionExtractorConfig
from models.files.checkpoint import NotACheckpointError, read_component_config, verify_component
from models.graph_llm import GraphLLMConfig
from models.helper import HelperConfig
from models.span_reader import SpanReaderConfig
from models.text_to_triples import TextToTriplesConfig
from tests.components import helper_component, ras_component, t2t_component
from tests.tiny import tiny_backbone

ROOT = Path(__file__).resolve().parents[2]
KINDS: tuple[type[ComponentConfig], ...] = (
    ConditionExtractorConfig,
    GraphLLMConfig,
    HelperConfig,
    TextToTriplesConfig,
    SpanReaderConfig,
)
SHIPPED = sorted(path.parent for path in (ROOT / "checkpoints").glob("*/config.json"))


@pytest.fixture
def backbone(tmp_path: Path) -> Path:
    return tiny_backbone(tmp_path / "tiny")


def change(folder: Path, **entries: Any) -> Path:
    """Write entries into config.json, None for those that go, as a hand would."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **entries}
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    (folder / "manifest.json").unlink(missing_ok=True)
    return folder


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)
def test_what_ships_is_whole_and_in_todays_words(folder: Path) -> None:
    verify_component(folder)
    stored = read_component_config(folder)
    [kind] = [kind for kind in KINDS if kind.component == stored["component"]]
    backbone = "minilm" if kind is SpanReaderConfig else "smollm2"
    assert kind.read(folder).backbone == backbone


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"max_source_tokens": 9}, "'max_source_tokens', it is 'max_input_tokens' now"),
        ({"max_target_tokens": 9}, "'max_target_tokens', it is 'max_output_tokens' now"),
        ({"lora_rnk": 9}, "'lora_rnk', the nearest is 'lora_rank'.*Known here: backbone, "),
        ({"backbone": None}, "no 'backbone'"),
    ],
)
def test_keys_that_nobody_knows_are_refused_with_the_right_one(
    backbone: Path, tmp_path: Path, entries: dict[str, Any], said: str
) -> None:
    folder = change(t2t_component(tmp_path / "t2t", backbone), **entries)
    with pytest.raises(NotACheckpointError, match=rf"t2t/config\.json: .*{said}"):
        TextToTriplesConfig.read(folder)


def test_keys_of_the_graph_are_looked_at_too(backbone: Path, tmp_path: Path) -> None:
    folder = ras_component(tmp_path / "ras", backbone)
    graph = read_component_config(folder)["graph"]
    change(folder, graph={**graph, "hiden_dim": 8})
    with pytest.raises(NotACheckpointError, match="'hiden_dim', the nearest is 'hidden_dim'"):
        GraphLLMConfig.read(folder)


def test_a_task_that_no_helper_has_is_refused_with_the_nearest(
    backbone: Path, tmp_path: Path
) -> None:
    folder = change(helper_component(tmp_path / "helper", backbone), task="decomposed")
    with pytest.raises(NotACheckpointError, match=r"'decomposed' is .*nearest is 'decompose'"):
        HelperConfig.read(folder)


def test_a_newer_format_is_refused_whatever_is_asked_for(backbone: Path, tmp_path: Path) -> None:
    folder = change(t2t_component(tmp_path / "t2t", backbone), format_version=99, tokens=3)
    with pytest.raises(NotACheckpointError, match="format 99"):
        read_component_config(folder)
