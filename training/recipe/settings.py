"""A training recipe: one typed field a YAML key, read from a file and from key=value overrides."""

# `setting` returns a dataclass field, made anew for each class that uses it.
# ruff: noqa: RUF009

import typing
from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import yaml
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from common.errors import UserError
from common.names import did_you_mean
from models.condition_extractor import Adaptation
from training.recipe.fields import setting
from training.recipe.objective import ObjectiveSettings

Settings = TypeVar("Settings")
# Groups of keys that only one script's recipes have.
GROUP_OF = {"graph": "train_ras.py", "prompt": "train_tri_rag.py"}


class Dtype(Enum):
    """How the frozen weights are kept; what is trained is always float32."""

    native = "native"
    bfloat16 = "bfloat16"
    float32 = "float32"


class Schedule(Enum):
    """Learning rate after warm-up."""

    linear = "linear"
    cosine = "cosine"
    constant = "constant"


class GraphKind(Enum):
    """Message passing layer of the graph encoder (RAS Table 8)."""

    graph_transformer = "graph_transformer"
    gcn = "gcn"
    gat = "gat"


@dataclass
class DataSettings:
    """Where the samples are and how many of them are used."""

    train: str = setting(MISSING, "training samples, JSON Lines")
    dev: str = setting("", "validation samples, JSON Lines; empty: no validation")
    max_train_samples: int = setting(0, "train on the first N after shuffling by seed; 0: all")
    max_dev_samples: int = setting(0, "measure the loss on the first N after shuffling; 0: all")
    skip_cut_labels: bool = setting(False, "skip and count samples whose label does not fit")
    skip_bad_records: bool = setting(False, "skip and count records that break their contract")


@dataclass
class LoraSettings:
    """The adapter; rank 0 trains all weights of the backbone instead."""

    rank: int = setting(16, "rank of the update; 0: full fine-tuning")
    alpha: int = setting(32, "scale of the update is alpha / rank")
    dropout: float = setting(0.05, "dropout on the adapter's input")
    targets: list[str] = setting(["all-linear"], "module names, or all-linear")


@dataclass
class ModelSettings:
    """The backbone and the lengths it is trained with."""

    backbone: str = setting("smollm2", "smollm2, a Hugging Face id or a folder")
    revision: str | None = setting(None, "revision of a Hugging Face id")
    start_from: str = setting("", "component folder whose weights to go on from; empty: untrained")
    dtype: Dtype = setting(
        Dtype.native,
        "frozen weights; native: bfloat16 where the machine computes in it, else float32",
    )
    max_input_tokens: int = setting(512, "longest prompt")
    max_output_tokens: int = setting(256, "longest label")
    lora: LoraSettings = field(default_factory=LoraSettings)


@dataclass
class GraphSettings:
    """Graph encoder and projector (RAS App. D.2, Table 8)."""

    enabled: bool = setting(True, "false trains the language model alone, on the same text")
    encoder: str = setting("minilm", "sentence encoder of nodes and edges")
    kind: GraphKind = setting(GraphKind.graph_transformer, "layer of the graph encoder")
    hidden_dim: int = setting(1024, "width of the graph encoder")
    num_layers: int = setting(3, "number of graph layers")
    num_heads: int = setting(8, "attention heads of a graph layer")
    dropout: float = setting(0.1, "dropout between graph layers")
    projector_dim: int = setting(2048, "inner width of the two-layer projector")
    compare_dates: bool = setting(True, "add derived comparison triples to the history")
    instructions: bool = setting(
        True,
        "prompts begin with the paper's instructions; false: with the task's name, 90 tokens less",
    )


class Initialisation(Enum):
    """What a layer-wise soft prompt starts from."""

    random = "random"
    vocabulary = "vocabulary"
    instruction = "instruction"


@dataclass
class PromptSettings:
    """What is learned for a frozen backbone (Tri-RAG §III-B, Table IV); LoRA: see model.lora."""

    adaptation: Adaptation = setting(
        Adaptation.soft_prompt, "what is learned; pretrained: nothing, examples in the prompt"
    )
    num_tokens: int = setting(32, "prompt tokens of a layer")
    layers: str = setting("all", "all, even, odd, last, or indices such as 0,5,-1")
    initialisation: Initialisation = setting(
        Initialisation.instruction, "what a soft prompt starts from"
    )
    instruction: str = setting("", "text to start from; empty: the component's own instruction")

    def layer_choice(self) -> list[int] | str:
        """Return the word in `layers`, or its indices.

        Raises:
            ConfigError: it is neither.
        """
        if self.layers.isalpha():
            return self.layers
        try:
            return [int(part) for part in self.layers.split(",")]
        except ValueError:
            raise ConfigError(
                f"prompt.layers={self.layers!r}: write all, even, odd, last, or indices such as "
                "0,5,-1"
            ) from None


@dataclass
class TrainSettings:
    """The optimisation and its bookkeeping."""

    batch_size: int = setting(8, "samples a device and micro-batch")
    gradient_accumulation_steps: int = setting(1, "micro-batches before an optimizer step")
    learning_rate: float = setting(5e-4, "peak learning rate")
    graph_learning_rate: float | None = setting(None, "peak rate of the graph encoder; null: same")
    schedule: Schedule = setting(Schedule.cosine, "decay after warm-up")
    warmup_ratio: float = setting(0.05, "share of the training spent warming up")
    weight_decay: float = setting(0.01, "AdamW weight decay, not on biases and norms")
    max_grad_norm: float = setting(1.0, "gradients are clipped to this norm; 0: no clipping")
    num_train_epochs: float = setting(1.0, "passes over the training samples; 0: only validate")
    max_steps: int = setting(0, "optimizer steps, in place of epochs; 0: by epochs")
    max_train_minutes: float = setting(0.0, "wall-clock budget the decay is fitted to; 0: none")
    group_by_length: bool = setting(True, "batches of samples of about the same length")
    gradient_checkpointing: bool = setting(False, "less memory, about a third more time")
    autocast_bf16: bool = setting(False, "bfloat16 autocast over float32 weights")
    num_workers: int = setting(0, "processes that collate batches")
    num_processes: int = setting(0, "refuse to start with another number of processes; 0: any")
    seed: int = setting(0, "seed of weights, order and dropout")
    logging_steps: int = setting(10, "steps between logged losses")
    eval_steps: int = setting(0, "steps between validations; 0: at the end, or each epoch")
    save_steps: int = setting(0, "steps between checkpoints; 0: one after each epoch")
    background_saves: bool = setting(False, "write checkpoints in a thread while steps go on")
    early_stopping_patience: int = setting(
        0, "validations without a lower loss before the training stops with the best; 0: never"
    )
    save_total_limit: int = setting(2, "checkpoints kept beside the last component")
    tensorboard: bool = setting(True, "write OUTPUT_DIR/tensorboard")
    loss_spike_factor: float = setting(
        0.0, "stop where a loss is this many times the median of the last 50; 0: never"
    )
    stop_signal: str = setting("USR1", "besides TERM: save, and exit with code 75; empty: none")
    slurm_requeue: bool = setting(False, "after stop_signal, put the SLURM job back in the queue")
    resume: str = setting("", "checkpoint folder, last for the newest, auto for last or anew")


@dataclass
class ValidationSettings:
    """Generation on a sample of the validation set."""

    samples: int = setting(64, "samples to generate for; 0: loss only")
    batch_size: int = setting(16, "samples generated at once, sorted by length")


@dataclass
class T2TSettings:
    """A text-to-triples recipe (RAS App. D.1)."""

    output_dir: str = setting(MISSING, "the component, its checkpoints and logs go here")
    data: DataSettings = field(default_factory=DataSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)


@dataclass
class TriRagSettings(T2TSettings):
    """A condition extractor's recipe (Tri-RAG §IV-A3)."""

    prompt: PromptSettings = field(default_factory=PromptSettings)


@dataclass
class RasSettings(T2TSettings):
    """A planner and answerer recipe (RAS App. D.2)."""

    graph: GraphSettings = field(default_factory=GraphSettings)


class ConfigError(UserError, ValueError):
    """A recipe that cannot be used; the message names file or override, key and expected type."""


def load_config(
    settings_type: type[Settings],
    path: str | Path,
    overrides: Sequence[str] = (),
    open_keys: Sequence[str] = (),
) -> Settings:
    """Read a recipe.

    Args:
        settings_type: dataclass with the recipe's keys, types and defaults.
        path: YAML file.
        overrides: ``key=value`` with dots between levels; they win over the file.
        open_keys: required texts that may be left out, and are then empty.

    Raises:
        ConfigError: unreadable file, unknown key, value of another type, or a required value
            that neither the file nor an override gives.
    """
    config = OmegaConf.structured(settings_type)
    config = _merged(settings_type, config, _read_yaml(Path(path)), str(path))
    for override in overrides:
        config = _merged(settings_type, config, _read_override(override), f"override {override!r}")
    for key in OmegaConf.missing_keys(config) & set(open_keys):
        OmegaConf.update(config, key, "")
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        wanted = ", ".join(f"{key} ({expected_type(settings_type, key)})" for key in missing)
        raise ConfigError(
            f"{path}: no value for {wanted}. Add it to the file or to the command: {missing[0]}=..."
        )
    return typing.cast(Settings, OmegaConf.to_object(config))


def expected_type(settings_type: type, dotted_key: str) -> str:
    """Type of a key in words, such as ``int`` or ``linear|cosine|constant``.

    Raises:
        KeyError: the settings have no such key.
    """
    kind: Any = settings_type
    for name in dotted_key.split("."):
        kind = typing.get_type_hints(kind)[name] if is_dataclass(kind) else None
        if kind is None:
            raise KeyError(dotted_key)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(member.name for member in kind)
    if is_dataclass(kind):
        return "a group of keys"
    if typing.get_origin(kind) is None:
        return str(kind.__name__)
    return str(kind).replace("None", "null").replace(" | ", " or ")


def known_keys(settings_type: type, prefix: str = "") -> list[str]:
    """Every dotted key of the settings, leaves only, in declaration order."""
    keys: list[str] = []
    for name, kind in typing.get_type_hints(settings_type).items():
        if isinstance(kind, type) and is_dataclass(kind):
            keys.extend(known_keys(kind, f"{prefix}{name}."))
        else:
            keys.append(prefix + name)
    return keys


def _read_yaml(path: Path) -> Any:
    try:
        return OmegaConf.create(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from error


def _read_override(override: str) -> DictConfig:
    if "=" not in override:
        raise ConfigError(f"override {override!r}: write it as key=value, such as train.seed=1")
    try:
        return OmegaConf.from_dotlist([override])
    except (OmegaConfBaseException, yaml.YAMLError) as error:
        raise ConfigError(f"override {override!r}: {error}") from error


def _merged(settings_type: type, config: DictConfig, layer: Any, where: str) -> DictConfig:
    if not isinstance(layer, DictConfig):
        raise ConfigError(f"{where}: a recipe is a mapping of keys, not a list or a single value")
    try:
        return typing.cast(DictConfig, OmegaConf.unsafe_merge(config, layer))
    except ConfigKeyError as error:
        key = str(error.full_key)
        group = key.rpartition(".")[0]
        known = known_keys(settings_type)
        here = [name for name in known if name.startswith(group)]
        groups = {name.rpartition(".")[0] for name in known} - {""}
        if isinstance(layer, DictConfig) and (script := _script_of(layer)) and not group:
            raise ConfigError(f"{where}: is a recipe for {script}") from error
        raise ConfigError(
            f"{where}: unknown key {key!r}, {did_you_mean(key, [*known, *groups])}. "
            f"Known here: {', '.join(here)}"
        ) from error
    except OmegaConfBaseException as error:
        key = str(error.full_key or "").partition("[")[0]
        problem = str(error).splitlines()[0]
        raise ConfigError(_type_problem(settings_type, where, key, problem)) from error


def _script_of(layer: DictConfig) -> str:
    """The script that a whole recipe is for, where its groups of keys tell."""
    # Not `in layer`: a key whose value is still to be given does not count there.
    keys = list(layer.keys())
    if "output_dir" not in keys:
        return ""
    return next((script for group, script in GROUP_OF.items() if group in keys), "")


def _type_problem(settings_type: type, where: str, key: str, problem: str) -> str:
    # OmegaConf names no key when a value stands where a group of keys belongs.
    if not key:
        return f"{where}: a single value stands where a group of keys belongs: {problem}"
    return f"{where}: key {key!r} must be {expected_type(settings_type, key)}: {problem}"
