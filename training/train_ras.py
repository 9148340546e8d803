"""Trains a GraphLLM to plan and to answer over a question's graph (RAS §3.4, App. D.2).

accelerate launch training/train_ras.py --config configs/ras_smollm2.yaml [key=value ...]
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from accelerate import Accelerator, PartialState
from filelock import FileLock
from transformers import PreTrainedModel

from models.files.backbone import load_tokenizer
from models.files.sentence_encoder import (
    HASH,
    HASH_DIMENSION,
    MINILM,
    MINILM_DIMENSION,
    SentenceEncoder,
    load_sentence_encoder,
)
from models.files.text_table import TextTable
from models.formats.planning import parse_plan
from models.formats.records import RasSample, RecordError
from models.graph_llm import GraphLLM, GraphLLMConfig
from models.parts.graph import encode_subgraphs, graph_texts
from models.parts.graph_encoder import GraphEncoderConfig
from models.processors.ras import EncodedSample, RasProcessor
from training.fit.sketch import Outline
from training.recipe.samples import (
    Collator,
    SampleSet,
    TrainingSample,
    choose,
    encode_samples,
    read_samples,
)
from training.recipe.settings import ModelSettings, RasSettings
from training.run.runner import Recipe, Validator, lora_targets, run_command
from training.run.start_from import check_same_shapes
from training.run.validation import validation_loss
from training.run.validation_ras import EncodedRecord, generate_labels, score_ras
from training.saving.checkpoints import resume_folder

logger = logging.getLogger(__name__)
Features = npt.NDArray[np.floating]


def main() -> None:
    """Run the command."""
    run_command("train_ras.py", str(__doc__), RasSettings, prepare, OUTLINE)


def prepare(settings: RasSettings) -> Recipe:
    """Read and encode the data, build the model or load the one to go on from."""
    resume = resume_folder(settings.train.resume, settings.output_dir)
    tokenizer = load_tokenizer(settings.model.backbone, settings.model.revision)
    records, bad = _read(settings, settings.data.train, settings.data.max_train_samples)
    dev_records, dev_bad = _read(settings, settings.data.dev, settings.data.max_dev_samples)
    encoder = load_sentence_encoder(settings.graph.encoder) if settings.graph.enabled else None
    config = model_config(settings, encoder.dimension if encoder else 0)
    processor = config.processor(tokenizer)
    kept, encoded, cut = _encode(settings, processor, records)
    dev_kept, dev_encoded, dev_cut = _encode(settings, processor, dev_records)
    table = _text_table(settings, encoder, [*encoded, *dev_encoded]) if encoder else None
    train = SampleSet(kept, to_samples(encoded, table), cut, bad)
    dev = SampleSet(dev_kept, to_samples(dev_encoded, table), dev_cut, dev_bad)
    features = table.features if table is not None else None
    collate = Collator(int(tokenizer.pad_token_id), features)
    module = load_module(config, settings.model, resume)
    validate = _validator(settings, module, processor, collate, dev) if dev_kept else None
    return Recipe(settings, module, tokenizer, train, collate, validate, resume)


def model_config(settings: RasSettings, feature_dim: int) -> GraphLLMConfig:
    """The recipe's model in the words of models/.

    Args:
        feature_dim: width of the sentence encoder's features.
    """
    model, graph = settings.model, settings.graph
    sizes = GraphEncoderConfig(
        input_dim=feature_dim,
        hidden_dim=graph.hidden_dim,
        num_layers=graph.num_layers,
        num_heads=graph.num_heads,
        dropout=graph.dropout,
        projector_dim=graph.projector_dim,
        kind=graph.kind.value,
    )
    return GraphLLMConfig(
        backbone=model.backbone,
        backbone_revision=model.revision,
        lora_rank=model.lora.rank,
        lora_alpha=model.lora.alpha,
        lora_dropout=model.lora.dropout,
        lora_targets=lora_targets(model.lora.targets),
        graph=sizes if graph.enabled else None,
        encoder=graph.encoder,
        compare_dates=graph.compare_dates,
        max_input_tokens=model.max_input_tokens,
        max_output_tokens=model.max_output_tokens,
    )


def load_module(config: GraphLLMConfig, model: ModelSettings, resume: Path | None) -> GraphLLM:
    """The recipe's model: with a checkpoint's weights, another component's, or untrained."""
    dtype = model.dtype.value
    if resume:
        return GraphLLM.from_pretrained(resume, dtype=dtype, is_trainable=True)
    if not model.start_from:
        return GraphLLM.from_config(config, dtype=dtype)
    module = GraphLLM.from_pretrained(model.start_from, dtype=dtype, is_trainable=True).train()
    check_same_shapes(model.start_from, module.settings, config)
    # The rest, dropout and revision too, is what the component was loaded with.
    module.settings = replace(
        module.settings,
        compare_dates=config.compare_dates,
        max_input_tokens=config.max_input_tokens,
        max_output_tokens=config.max_output_tokens,
    )
    return module


def to_samples(encoded: Sequence[EncodedSample], table: TextTable | None) -> list[TrainingSample]:
    """Ids as arrays, and graphs as rows of the table of text features."""
    return [
        TrainingSample(
            sample_id=item.sample_id,
            input_ids=np.asarray(item.input_ids, dtype=np.int32),
            labels_start=item.labels_start,
            graphs=encode_subgraphs(item.subgraphs, table.rows) if table is not None else None,
        )
        for item in encoded
    ]


def check_plan_labels(records: Sequence[RasSample], path: str) -> None:
    """Refuse planner samples whose label no parser could read back.

    Raises:
        RecordError: names the sample.
    """
    for record in records:
        if record.task == "plan" and parse_plan(record.label).plan is None:
            raise RecordError(
                f"{path}: sample {record.id!r}",
                "label",
                f"is no plan: {record.label!r}",
                "Write '[SUBQ] text', '[SUFFICIENT]' or '[NO_RETRIEVAL]'",
            )


def _build(settings: RasSettings, backbone: PreTrainedModel) -> GraphLLM:
    config = model_config(settings, _feature_dim(settings))
    # The tokenizer, which would say, is not needed for sizes.
    return GraphLLM.from_config(replace(config, graph_position=1), backbone)


def _feature_dim(settings: RasSettings) -> int:
    graph = settings.graph
    if not graph.enabled:
        return 0
    known = {MINILM: MINILM_DIMENSION, HASH: HASH_DIMENSION}
    return known.get(graph.encoder) or load_sentence_encoder(graph.encoder).dimension


def _samples(settings: RasSettings) -> SampleSet[RasSample]:
    tokenizer = load_tokenizer(settings.model.backbone, settings.model.revision)
    records, bad = _read(settings, settings.data.train, settings.data.max_train_samples)
    processor = model_config(settings, _feature_dim(settings)).processor(tokenizer)
    kept, encoded, cut = _encode(settings, processor, records)
    return SampleSet(kept, to_samples(encoded, None), cut, bad)


def _read(settings: RasSettings, path: str, limit: int) -> tuple[list[RasSample], int]:
    if not path:
        return [], 0
    data = settings.data
    records, bad = read_samples(path, RasSample, limit, settings.train.seed, data.skip_bad_records)
    check_plan_labels(records, path)
    return records, bad


def _encode(
    settings: RasSettings, processor: RasProcessor, records: Sequence[RasSample]
) -> tuple[list[RasSample], list[EncodedSample], list[str]]:
    kept, encoded, cut = encode_samples(
        records,
        processor.encode_sample,
        settings.data.skip_cut_labels,
        show_progress=PartialState().is_main_process,
    )
    shortened = sum(item.cut_triples > 0 for item in encoded)
    if shortened:
        logger.warning(
            "%d of %d histories are longer than model.max_input_tokens=%d and lost triples of "
            "their oldest steps",
            shortened,
            len(encoded),
            settings.model.max_input_tokens,
        )
    return kept, encoded, cut


def _text_table(
    settings: RasSettings, encoder: SentenceEncoder, encoded: Sequence[EncodedSample]
) -> TextTable:
    """Features of every node and predicate, each distinct text embedded once."""
    texts = graph_texts(subgraph for item in encoded for subgraph in item.subgraphs)
    folder = Path(settings.output_dir) / "text_features"
    # A lock, no barrier: where one process fails before it, no other waits for it for ever.
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        return TextTable.build(folder, texts, encoder)


def _validator(
    settings: RasSettings,
    module: GraphLLM,
    processor: RasProcessor,
    collate: Collator,
    dev: SampleSet[RasSample],
) -> Validator:
    positions = choose(len(dev), settings.validation.samples, settings.train.seed)
    chosen = [EncodedRecord(dev.records[i], dev.samples[i]) for i in positions]
    batch_size = settings.validation.batch_size

    def validate(accelerator: Accelerator) -> dict[str, float]:
        loss = validation_loss(module, dev.samples, collate, batch_size, accelerator)
        figures = {"loss": loss}
        if chosen:
            outputs = generate_labels(
                module, processor, chosen, collate.graph_features, batch_size, accelerator
            )
            figures.update(score_ras(outputs, [item.record for item in chosen]))
        return figures

    return validate


OUTLINE = Outline(_build, _samples)

if __name__ == "__main__":
    main()
