"""Recipes: every one parses, every key is commented, and what is wrong is named."""

import re
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file

from training.recipe.settings import (
    ConfigError,
    RasSettings,
    Schedule,
    T2TSettings,
    TriRagSettings,
    expected_type,
    known_keys,
    load_config,
)
from training.retriever.settings import RetrieverSettings

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "configs").glob("*.yaml"))
REQUIRED = ["output_dir=out", "data.train=train.jsonl"]


RECIPES: dict[str, type[T2TSettings] | type[RetrieverSettings]] = {
    "ras": RasSettings,
    "tri_rag": TriRagSettings,
    "t2t": T2TSettings,
    "helper": T2TSettings,
    "span_reader": T2TSettings,
    "retriever": RetrieverSettings,
}


def component(path: Path) -> str:
    return next(name for name in RECIPES if path.name.startswith(name))


def settings_type(path: Path) -> type[T2TSettings] | type[RetrieverSettings]:
    return RECIPES[component(path)]


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text("output_dir: out\ndata: {train: train.jsonl}\ntrain: {batch_size: 4}\n")
    return path


def test_all_recipes_are_there() -> None:
    names = {path.stem for path in CONFIGS}
    assert names >= {
        *("t2t_tiny", "t2t_smollm2", "t2t_smollm2_webnlg", "t2t_flan_t5_large", "t2t_llama3_2_3b"),
        *("tri_rag_tiny", "tri_rag_smollm2", "tri_rag_llama3_8b", "tri_rag_qwen3_8b"),
        *("tri_rag_deepseek_7b", "ras_tiny", "ras_smollm2", "ras_llama2_7b", "ras_llama3_8b"),
        *("helper_tiny", "helper_smollm2", "retriever_minilm", "span_reader_minilm"),
    }


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_recipe_parses_and_says_how_to_launch_it(path: Path) -> None:
    backbone = [] if component(path) == "retriever" else ["model.backbone=folder"]
    load_config(settings_type(path), path, [*REQUIRED, *backbone])
    header = path.read_text().split("\n\n")[0]
    assert f"configs/{path.name}" in header
    assert "accelerate launch" in header
    assert f"training/train_{component(path)}.py " in header


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_key_of_a_recipe_is_commented_with_its_type(path: Path) -> None:
    keys: list[str] = []
    parents: list[str] = []
    for line in path.read_text().splitlines():
        if not (match := re.match(r"( *)(\w+):(.*?)  # (.+)", line)):
            assert not line.strip() or line.startswith("#"), f"no comment: {line}"
            continue
        indent, name, value, comment = match.groups()
        parents = [*parents[: len(indent) // 2], name]
        if value:
            keys.append(".".join(parents))
            kind = re.escape(expected_type(settings_type(path), keys[-1]))
            assert re.match(rf"{kind}, (required|default .+): ", comment), line
    assert keys == known_keys(settings_type(path))


LAUNCH_CONFIGS = sorted((CONFIGS[0].parent / "accelerate").glob("*.yaml"))


@pytest.mark.parametrize("path", LAUNCH_CONFIGS, ids=lambda path: path.stem)
def test_launch_configuration_is_read_by_accelerate(path: Path) -> None:
    header = path.read_text().split("\n\n")[0]
    assert "# Launch:" in header and "--config configs/" in header
    assert f"configs/accelerate/{path.name}" in path.read_text()
    launched = load_config_from_file(str(path))
    assert launched.mixed_precision == "no"
    # To accelerate, DeepSpeed never runs on a CPU.
    is_cpu = path.stem.startswith("cpu_") and "zero" not in path.stem
    assert launched.use_cpu == is_cpu and (launched.num_processes > 1) == ("one" not in path.stem)
    if "fsdp2" in path.stem:
        assert launched.fsdp_config["fsdp_version"] == 2
    if "zero" in path.stem:
        assert launched.deepspeed_config["zero_stage"] == int(path.stem[-1])
        assert not re.findall(r"^ *\w+:(?!.*  # ).*$", path.read_text(), re.MULTILINE)
    for recipe in re.findall(r"--config (configs/\w+\.yaml)", header):
        assert (path.parents[2] / recipe).is_file()


def test_overrides_win_over_the_file(recipe: Path) -> None:
    overrides = ["train.batch_size=2", "train.schedule=linear", "model.lora.targets=[q_proj]"]
    settings = load_config(T2TSettings, recipe, overrides)
    assert settings.train.batch_size == 2
    assert settings.train.schedule is Schedule.linear
    assert settings.model.lora.targets == ["q_proj"]
    assert load_config(T2TSettings, recipe).train.batch_size == 4


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("train.foo=1", ["train.foo", "train.batch_size"]),
        ("train.learnin_rate=1", ["'train.learnin_rate', the nearest is 'train.learning_rate'"]),
        ("lora.rank=1", ["'lora', the nearest is 'model.lora'"]),
        ("model.rank=1", ["'model.rank', the nearest is 'model.lora.rank'"]),
        ("modle.backbone=x", ["'modle', the nearest is 'model'"]),
        ("model.max_source_tokens=9", ["it is 'model.max_input_tokens' now"]),
        ("model.max_target_tokens=9", ["it is 'model.max_output_tokens' now"]),
        ("train.batch_size=many", ["train.batch_size", "int"]),
        ("train.schedule=steep", ["train.schedule", "linear|cosine|constant"]),
        ("train=3", ["group of keys"]),
        ("train.seed", ["key=value"]),
    ],
)
def test_wrong_override_is_named(recipe: Path, override: str, said: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(T2TSettings, recipe, [override])
    assert all(part in str(error.value) for part in [override, *said])


def test_wrong_key_in_file_names_the_file(recipe: Path) -> None:
    recipe.write_text("train: {learning_rate: fast}\n")
    with pytest.raises(ConfigError, match=r"recipe\.yaml: key 'train\.learning_rate' .* float"):
        load_config(T2TSettings, recipe)
    recipe.write_text("model: {max_source_tokens: 512}\n")
    with pytest.raises(ConfigError, match=r"recipe\.yaml: .* it is 'model\.max_input_tokens' now"):
        load_config(T2TSettings, recipe)
    recipe.write_text("train: [1, 2\n")
    with pytest.raises(ConfigError, match=r"recipe\.yaml: not valid YAML"):
        load_config(T2TSettings, recipe)


def test_missing_required_values_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text("")
    with pytest.raises(ConfigError, match=r"data\.train \(str\), output_dir \(str\)"):
        load_config(T2TSettings, path)
