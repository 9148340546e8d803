"""Trains a text-to-triples model (RAS App. D.1).

accelerate launch training/train_t2t.py --config configs/t2t_smollm2.yaml [key=value ...]
"""

from dataclasses import replace
from operator import attrgetter
from pathlib import Path

from transformers import PreTrainedModel

from models.files.backbone import load_tokenizer
from models.formats.records import TriplesSample
from models.text_to_triples import (
    TextToTriples,
    TextToTriplesConfig,
    build_text_to_triples,
)
from training.fit.sketch import Outline, backbone_config
from training.recipe.samples import Collator, SampleSet, read_samples
from training.recipe.settings import T2TSettings
from training.run.runner import Recipe, lora_targets, run_command
from training.run.start_from import check_same_shapes
from training.run.validation import encode_passages
from training.run.validation_passages import passage_validator, score_t2t
from training.saving.checkpoints import resume_folder


def main() -> None:
    """Run the command."""
    run_command("train_t2t.py", str(__doc__), T2TSettings, prepare, OUTLINE)


def prepare(settings: T2TSettings) -> Recipe:
    """Read and encode the data, build the model or load the one to go on from."""
    resume = resume_folder(settings.train.resume, settings.output_dir)
    tokenizer = load_tokenizer(settings.model.backbone, settings.model.revision)
    train_records, bad = _read(settings, settings.data.train, settings.data.max_train_samples)
    dev_records, _ = _read(settings, settings.data.dev, settings.data.max_dev_samples)
    module = load_module(settings, resume)
    processor = model_config(settings).processor(tokenizer, module.is_encoder_decoder)
    collate = Collator(int(tokenizer.pad_token_id))
    train = encode_passages(settings, processor.encode_sample, train_records, bad)
    dev = encode_passages(settings, processor.encode_sample, dev_records) if dev_records else None
    validate = (
        passage_validator(settings, module, processor, collate, dev, attrgetter("text"), score_t2t)
        if dev
        else None
    )
    return Recipe(settings, module, tokenizer, train, collate, validate, resume)


def model_config(settings: T2TSettings) -> TextToTriplesConfig:
    """The recipe's model in the words of models/."""
    model = settings.model
    return TextToTriplesConfig(
        backbone=model.backbone,
        backbone_revision=model.revision,
        lora_rank=model.lora.rank,
        lora_alpha=model.lora.alpha,
        lora_dropout=model.lora.dropout,
        lora_targets=lora_targets(model.lora.targets),
        max_source_tokens=model.max_input_tokens,
        max_target_tokens=model.max_output_tokens,
    )


def load_module(settings: T2TSettings, resume: Path | None) -> TextToTriples:
    """The recipe's model: with a checkpoint's weights, another component's, or untrained."""
    model = settings.model
    dtype = model.dtype.value if model.lora.rank else "auto"
    if resume:
        return TextToTriples.from_pretrained(resume, dtype=dtype, is_trainable=True)
    config = model_config(settings)
    if not model.start_from:
        return build_text_to_triples(config, model.dtype.value)
    module = TextToTriples.from_pretrained(model.start_from, dtype=dtype, is_trainable=True)
    check_same_shapes(model.start_from, module.settings, config)
    # The rest, dropout and revision too, is what the component was loaded with.
    module.settings = replace(
        module.settings,
        max_source_tokens=config.max_source_tokens,
        max_target_tokens=config.max_target_tokens,
    )
    return module.train()


def _build(settings: T2TSettings, backbone: PreTrainedModel) -> TextToTriples:
    dtype = settings.model.dtype.value
    return build_text_to_triples(model_config(settings), dtype, backbone)


def _samples(settings: T2TSettings) -> SampleSet[TriplesSample]:
    model = settings.model
    tokenizer = load_tokenizer(model.backbone, model.revision)
    is_encoder_decoder = backbone_config(model.backbone, model.revision).is_encoder_decoder
    processor = model_config(settings).processor(tokenizer, is_encoder_decoder)
    records, bad = _read(settings, settings.data.train, settings.data.max_train_samples)
    return encode_passages(settings, processor.encode_sample, records, bad)


def _read(settings: T2TSettings, path: str, limit: int) -> tuple[list[TriplesSample], int]:
    if not path:
        return [], 0
    data = settings.data
    return read_samples(path, TriplesSample, limit, settings.train.seed, data.skip_bad_records)


OUTLINE = Outline(_build, _samples)

if __name__ == "__main__":
    main()
