"""What a training recipe may say: one typed field a YAML key, with its meaning beside it."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from omegaconf import MISSING

from models.condition_extractor_config import Adaptation


class Dtype(Enum):
    """How the frozen weights are kept; what is trained is always float32."""

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


def setting(default: Any, help_text: str) -> Any:
    """A dataclass field whose meaning is kept for comments and errors."""
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata={"help": help_text})
    return field(default=default, metadata={"help": help_text})


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
    dtype: Dtype = setting(Dtype.bfloat16, "frozen weights are kept in this type")
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


@dataclass
class TriRagSettings(T2TSettings):
    """A condition extractor's recipe (Tri-RAG §IV-A3)."""

    prompt: PromptSettings = field(default_factory=PromptSettings)


@dataclass
class RasSettings(T2TSettings):
    """A planner and answerer recipe (RAS App. D.2)."""

    graph: GraphSettings = field(default_factory=GraphSettings)
