"""A retriever's recipe: one typed field a YAML key."""

# `setting` returns a dataclass field, made anew for each class that uses it.
# ruff: noqa: RUF009

from dataclasses import dataclass, field

from omegaconf import MISSING

from training.recipe.fields import setting
from training.recipe.settings import Schedule


@dataclass
class RetrieverData:
    """Where the samples are and how many of them are used."""

    train: str = setting(MISSING, "training samples, JSON Lines")
    dev: str = setting("", "validation samples, JSON Lines; empty: no validation")
    max_train_samples: int = setting(0, "train on the first N after shuffling by seed; 0: all")
    max_dev_samples: int = setting(0, "measure recall on the first N after shuffling; 0: all")
    skip_bad_records: bool = setting(False, "skip and count records that break their contract")


@dataclass
class RetrieverModel:
    """The sentence encoder that is trained, all of its weights."""

    encoder: str = setting("minilm", "minilm, a folder or a Hugging Face id")
    max_tokens: int = setting(128, "longest text in training; the encoder keeps its own limit")


@dataclass
class RetrieverTrain:
    """The optimisation and its bookkeeping."""

    batch_size: int = setting(32, "samples a device and step: each has the others' passages too")
    negatives: int = setting(1, "passages of each sample's own that are to be told apart; 0: none")
    scale: float = setting(20.0, "factor on cosine similarities in the loss")
    learning_rate: float = setting(2e-5, "peak learning rate")
    schedule: Schedule = setting(Schedule.linear, "decay after warm-up")
    warmup_ratio: float = setting(0.1, "share of the training spent warming up")
    weight_decay: float = setting(0.01, "AdamW weight decay, not on biases and norms")
    max_grad_norm: float = setting(1.0, "gradients are clipped to this norm; 0: no clipping")
    num_train_epochs: float = setting(1.0, "passes over the training samples")
    max_steps: int = setting(0, "optimizer steps, in place of epochs; 0: by epochs")
    max_train_minutes: float = setting(0.0, "wall-clock budget the decay is fitted to; 0: none")
    autocast_bf16: bool = setting(False, "bfloat16 autocast over float32 weights")
    num_processes: int = setting(0, "refuse to start with another number of processes; 0: any")
    seed: int = setting(0, "seed of order and dropout")
    logging_steps: int = setting(10, "steps between logged losses")
    eval_steps: int = setting(0, "steps between validations; 0: before and after alone")
    save_steps: int = setting(0, "steps between checkpoints; 0: one after each epoch")
    save_total_limit: int = setting(2, "checkpoints kept beside the last encoder")
    stop_signal: str = setting("USR1", "besides TERM: save, and exit with code 75; empty: none")
    resume: str = setting("", "checkpoint folder, last for the newest, auto for last or anew")


@dataclass
class RetrieverSettings:
    """A retriever's recipe."""

    output_dir: str = setting(MISSING, "the encoder, its checkpoints and logs go here")
    data: RetrieverData = field(default_factory=RetrieverData)
    model: RetrieverModel = field(default_factory=RetrieverModel)
    train: RetrieverTrain = field(default_factory=RetrieverTrain)
