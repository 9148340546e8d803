"""Trains a condition extractor on a frozen backbone (Tri-RAG §III-B, Algorithm 1).

accelerate launch training/train_tri_rag.py --config configs/tri_rag_smollm2.yaml [key=value ...]
"""

from dataclasses import replace
from operator import attrgetter
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from models.condition_extractor import (
    Adaptation,
    ConditionExtractor,
    ConditionExtractorConfig,
    build_condition_extractor,
)
from models.files.backbone import load_tokenizer
from models.formats.prompts import CONDITIONS_FEW_SHOT_INSTRUCTION
from models.formats.records import ConditionSample
from models.parts.deep_prompt import (
    DeepPrompt,
    UnsupportedBackboneError,
    initialise_from_text,
    initialise_from_vocabulary,
)
from models.processors.passages import ConditionedPassage, by_passage
from training.fit.sketch import Outline
from training.recipe.samples import Collator, SampleSet, choose, read_samples
from training.recipe.settings import ConfigError, Initialisation, TriRagSettings
from training.run.runner import Recipe, lora_targets, run_command
from training.run.start_from import check_same_shapes
from training.run.validation import encode_passages
from training.run.validation_passages import passage_validator, score_tri_rag
from training.saving.checkpoints import resume_folder


def main() -> None:
    """Run the command."""
    run_command("train_tri_rag.py", str(__doc__), TriRagSettings, prepare, OUTLINE)


def prepare(settings: TriRagSettings) -> Recipe:
    """Read and encode the data, build the extractor or load the one to go on from."""
    check_can_learn(settings)
    resume = resume_folder(settings.train.resume, settings.output_dir)
    tokenizer = load_tokenizer(settings.model.backbone, settings.model.revision)
    train_records, bad = _read(settings, settings.data.train, settings.data.max_train_samples)
    dev_records, _ = _read(settings, settings.data.dev, settings.data.max_dev_samples)
    config = model_config(settings)
    processor = config.processor(tokenizer)
    train = encode_passages(settings, processor.encode_sample, train_records, bad)
    dev = encode_passages(settings, processor.encode_sample, dev_records) if dev_records else None
    module = load_module(settings, config, tokenizer, resume)
    collate = Collator(int(tokenizer.pad_token_id))
    validate = (
        passage_validator(
            settings, module, processor, collate, dev, attrgetter("text"), score_tri_rag
        )
        if dev
        else None
    )
    return Recipe(settings, module, tokenizer, train, collate, validate, resume)


def check_can_learn(settings: TriRagSettings) -> None:
    """Refuse to train an adaptation that has nothing to learn; it can be measured.

    Raises:
        ConfigError: says how to measure it.
    """
    trains = settings.train.num_train_epochs > 0 or settings.train.max_steps > 0
    if settings.prompt.adaptation is Adaptation.pretrained and trains:
        raise ConfigError(
            "prompt.adaptation=pretrained learns nothing: set train.num_train_epochs=0 to measure "
            "it on data.dev, or choose soft_prompt, prefix_tuning or lora"
        )


def model_config(settings: TriRagSettings) -> ConditionExtractorConfig:
    """The recipe's extractor in the words of models/.

    Raises:
        ConfigError: layers that are neither a word nor indices.
    """
    model, prompt = settings.model, settings.prompt
    return ConditionExtractorConfig(
        backbone=model.backbone,
        backbone_revision=model.revision,
        adaptation=prompt.adaptation.value,
        num_prompt_tokens=prompt.num_tokens,
        prompt_layers=_layers(prompt.layers),
        lora_rank=model.lora.rank,
        lora_alpha=model.lora.alpha,
        lora_dropout=model.lora.dropout,
        lora_targets=lora_targets(model.lora.targets),
        max_source_tokens=model.max_input_tokens,
        max_target_tokens=model.max_output_tokens,
    )


def load_module(
    settings: TriRagSettings,
    config: ConditionExtractorConfig,
    tokenizer: PreTrainedTokenizerBase,
    resume: Path | None,
) -> ConditionExtractor:
    """The recipe's extractor: with a checkpoint's weights, another component's, or untrained.

    Raises:
        ConfigError: a backbone or layers that layer-wise soft prompts cannot be made for.
    """
    model = settings.model
    dtype = model.dtype.value
    if resume:
        return ConditionExtractor.from_pretrained(resume, dtype=dtype, is_trainable=True)
    if model.start_from:
        folder = model.start_from
        module = ConditionExtractor.from_pretrained(folder, dtype=dtype, is_trainable=True)
        check_same_shapes(folder, module.settings, config)
        module.settings = replace(
            module.settings,
            max_source_tokens=config.max_source_tokens,
            max_target_tokens=config.max_target_tokens,
        )
        return module.train()
    module = _build_module(config, dtype)
    _initialise(module, settings, tokenizer)
    return module


def _build_module(
    config: ConditionExtractorConfig, dtype: str, backbone: PreTrainedModel | None = None
) -> ConditionExtractor:
    try:
        return build_condition_extractor(config, dtype, backbone)
    except (UnsupportedBackboneError, ValueError) as error:
        raise ConfigError(f"prompt: {error}") from error


def _build(settings: TriRagSettings, backbone: PreTrainedModel) -> ConditionExtractor:
    check_can_learn(settings)
    return _build_module(model_config(settings), settings.model.dtype.value, backbone)


def _samples(settings: TriRagSettings) -> SampleSet[ConditionedPassage]:
    tokenizer = load_tokenizer(settings.model.backbone, settings.model.revision)
    processor = model_config(settings).processor(tokenizer)
    records, bad = _read(settings, settings.data.train, settings.data.max_train_samples)
    return encode_passages(settings, processor.encode_sample, records, bad)


def _initialise(
    module: ConditionExtractor, settings: TriRagSettings, tokenizer: PreTrainedTokenizerBase
) -> None:
    if not isinstance(module.prompt, DeepPrompt):
        return
    if settings.prompt.initialisation is Initialisation.vocabulary:
        initialise_from_vocabulary(module.prompt, module.backbone)
    elif settings.prompt.initialisation is Initialisation.instruction:
        text = settings.prompt.instruction or CONDITIONS_FEW_SHOT_INSTRUCTION
        initialise_from_text(module.prompt, module.backbone, tokenizer, text)


def _layers(text: str) -> list[int] | str:
    if text.isalpha():
        return text
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"prompt.layers={text!r}: write all, even, odd, last, or indices such as 0,5,-1"
        ) from None


def _read(settings: TriRagSettings, path: str, limit: int) -> tuple[list[ConditionedPassage], int]:
    """Passages with all their triplets; the limit counts passages, not records."""
    if not path:
        return [], 0
    seed = settings.train.seed
    records, bad = read_samples(path, ConditionSample, 0, seed, settings.data.skip_bad_records)
    passages = by_passage(records)
    return [passages[i] for i in choose(len(passages), limit or len(passages), seed)], bad


OUTLINE = Outline(_build, _samples)

if __name__ == "__main__":
    main()
