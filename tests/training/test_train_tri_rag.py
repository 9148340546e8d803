"""What the Tri-RAG recipe refuses, before anything is lost."""

from pathlib import Path

import pytest

from models.condition_extractor import ConditionExtractor
from models.parts.deep_prompt import DeepPrompt
from tests.training.conftest import ROOT
from training.recipe.settings import ConfigError, TriRagSettings, load_config
from training.run.arguments import training_arguments
from training.run.prepare import Prepared, prepare
from training.train_tri_rag import RECIPE


def recipe(conditions: Path, backbone: Path, out: Path, *changes: str) -> Prepared:
    overrides = [
        *(f"data.train={conditions}", f"data.dev={conditions}", f"model.backbone={backbone}"),
        *(f"output_dir={out}", *changes),
    ]
    config = ROOT / "configs" / "tri_rag_tiny.yaml"
    settings = load_config(TriRagSettings, config, overrides)
    training_arguments(settings)
    return prepare(RECIPE, settings)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["prompt.num_tokens=5000"], "5000 prompt tokens do not fit the context"),
        (["prompt.layers=7"], r"layers \[7\] do not exist: the backbone has 2"),
        (["prompt.layers=some"], "give all, even, odd, last"),
        (["prompt.layers=1;2"], "indices such as 0,5,-1"),
        (["prompt.adaptation=pretrained"], "train.num_train_epochs=0"),
        (["train.early_stopping_patience=1", "data.dev=''"], "give data.dev"),
    ],
)
def test_what_cannot_be_is_refused(
    changes: list[str], said: str, conditions_file: Path, backbone: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said):
        recipe(conditions_file, backbone, tmp_path, *changes)


def test_a_passage_is_one_sample_with_all_its_triplets(
    conditions_file: Path, backbone: Path, tmp_path: Path
) -> None:
    made = recipe(conditions_file, backbone, tmp_path, "data.max_dev_samples=2")
    assert [len(passage.triplets) for passage in made.train.records] == [1, 2] * 3


def test_layers_and_start_are_those_of_the_recipe(
    conditions_file: Path, backbone: Path, tmp_path: Path
) -> None:
    first = recipe(conditions_file, backbone, tmp_path, "prompt.layers=-1")
    assert isinstance(first.module, ConditionExtractor)
    assert isinstance(first.module.prompt, DeepPrompt) and first.module.prompt.layers == (1,)
    first.module.save_pretrained(tmp_path / "first")
    start = f"model.start_from={tmp_path / 'first'}"
    again = recipe(conditions_file, backbone, tmp_path, start, "prompt.layers=-1")
    assert isinstance(again.module, ConditionExtractor) and again.module.prompt is not None
    assert again.module.prompt.embeddings.equal(first.module.prompt.embeddings)
    with pytest.raises(ConfigError, match="prompt_layers is"):
        recipe(conditions_file, backbone, tmp_path, start)
