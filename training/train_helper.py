"""Trains a helper: a small adapter for one job, on prompts and labels that a builder made.

accelerate launch training/train_helper.py --config configs/helper_smollm2.yaml [key=value ...]
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

from transformers import PreTrainedModel

from models.files.backbone import load_tokenizer
from models.formats.records import HelperTask, InstructionSample
from models.helper import InstructionTuned, InstructionTunedConfig, build_instruction_tuned
from training.fit.sketch import Outline
from training.recipe.samples import Collator, SampleSet, read_samples
from training.recipe.settings import ConfigError, T2TSettings
from training.run.runner import Recipe, lora_targets, run_command
from training.run.start_from import check_same_shapes
from training.run.validation import encode_passages
from training.run.validation_helper import score_helper
from training.run.validation_passages import passage_validator
from training.saving.checkpoints import resume_folder


def main() -> None:
    """Run the command."""
    run_command("train_helper.py", str(__doc__), T2TSettings, prepare, OUTLINE)


def prepare(settings: T2TSettings) -> Recipe:
    """Read and encode the data, build the helper or load the one to go on from."""
    resume = resume_folder(settings.train.resume, settings.output_dir)
    tokenizer = load_tokenizer(settings.model.backbone, settings.model.revision)
    train_records, bad = _read(settings, settings.data.train, settings.data.max_train_samples)
    dev_records, _ = _read(settings, settings.data.dev, settings.data.max_dev_samples)
    config = model_config(settings, only_task([*train_records, *dev_records]))
    processor = config.processor(tokenizer)
    train = encode_passages(settings, processor.encode_sample, train_records, bad)
    dev = encode_passages(settings, processor.encode_sample, dev_records) if dev_records else None
    module = load_module(settings, config, resume)
    collate = Collator(int(tokenizer.pad_token_id))
    validate = (
        passage_validator(
            settings, module, processor, collate, dev, attrgetter("prompt"), score_helper
        )
        if dev
        else None
    )
    return Recipe(settings, module, tokenizer, train, collate, validate, resume)


def only_task(records: Sequence[InstructionSample]) -> HelperTask:
    """The task that all records are for.

    Raises:
        ConfigError: samples of several tasks, with one sample of each.
    """
    first = {record.task: record.id for record in reversed(records)}
    if len(first) > 1:
        listed = ", ".join(f"{task} ({sample_id})" for task, sample_id in sorted(first.items()))
        raise ConfigError(
            f"data.train and data.dev hold samples of {len(first)} tasks: {listed}. A helper has "
            "one: build a set for each"
        )
    return next(iter(first))


def model_config(settings: T2TSettings, task: HelperTask) -> InstructionTunedConfig:
    """The recipe's helper in the words of models/."""
    model = settings.model
    return InstructionTunedConfig(
        backbone=model.backbone,
        task=task,
        backbone_revision=model.revision,
        lora_rank=model.lora.rank,
        lora_alpha=model.lora.alpha,
        lora_dropout=model.lora.dropout,
        lora_targets=lora_targets(model.lora.targets),
        max_input_tokens=model.max_input_tokens,
        max_output_tokens=model.max_output_tokens,
    )


def load_module(
    settings: T2TSettings, config: InstructionTunedConfig, resume: Path | None
) -> InstructionTuned:
    """The recipe's helper: with a checkpoint's weights, another helper's, or untrained.

    Raises:
        ConfigError: a backbone or a rank that no adapter can be made for.
    """
    model = settings.model
    dtype = model.dtype.value
    if resume:
        return InstructionTuned.from_pretrained(resume, dtype=dtype, is_trainable=True)
    if not model.start_from:
        return _build_module(config, dtype)
    module = InstructionTuned.from_pretrained(model.start_from, dtype=dtype, is_trainable=True)
    # A helper may begin where one of another task ended.
    check_same_shapes(model.start_from, replace(module.settings, task=config.task), config)
    # The rest, dropout and revision too, is what the component was loaded with.
    module.settings = replace(
        module.settings,
        task=config.task,
        max_input_tokens=config.max_input_tokens,
        max_output_tokens=config.max_output_tokens,
    )
    return module.train()


def _build_module(
    config: InstructionTunedConfig, dtype: str, backbone: PreTrainedModel | None = None
) -> InstructionTuned:
    try:
        return build_instruction_tuned(config, dtype, backbone)
    except ValueError as error:
        raise ConfigError(f"model: {error}") from error


def _build(settings: T2TSettings, backbone: PreTrainedModel) -> InstructionTuned:
    # All tasks train the same adapter.
    config = model_config(settings, "decompose")
    return _build_module(config, settings.model.dtype.value, backbone)


def _samples(settings: T2TSettings) -> SampleSet[InstructionSample]:
    tokenizer = load_tokenizer(settings.model.backbone, settings.model.revision)
    records, bad = _read(settings, settings.data.train, settings.data.max_train_samples)
    processor = model_config(settings, only_task(records)).processor(tokenizer)
    return encode_passages(settings, processor.encode_sample, records, bad)


def _read(settings: T2TSettings, path: str, limit: int) -> tuple[list[InstructionSample], int]:
    if not path:
        return [], 0
    data = settings.data
    return read_samples(path, InstructionSample, limit, settings.train.seed, data.skip_bad_records)


OUTLINE = Outline(_build, _samples)

if __name__ == "__main__":
    main()
