"""Samples with sub-graphs: their plans checked, their texts embedded, as arrays."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock

from models.files.sentence_encoder import (
    HASH,
    HASH_DIMENSION,
    MINILM,
    MINILM_DIMENSION,
    load_sentence_encoder,
)
from models.files.text_table import TextTable
from models.formats.planning import parse_plans
from models.formats.records import RasSample, RecordError
from models.parts.graph import encode_subgraphs, graph_texts
from models.processors.ras import EncodedSample
from training.recipe.samples import TrainingSample


def check_plan_labels(records: Sequence[RasSample], path: str) -> None:
    """Refuse planner samples whose label no parser could read back.

    Raises:
        RecordError: names the sample.
    """
    for record in (record for record in records if record.task == "plan"):
        parsed = parse_plans(record.label)
        if parsed.malformed or not parsed.plans:
            raise RecordError(
                f"{path}: sample {record.id!r}",
                "label",
                f"is no plan: {record.label!r}",
                "Write '[SUBQ] text', several of them a line each and [SUFFICIENT] behind them "
                "where they are enough, '[SUFFICIENT]' or '[NO_RETRIEVAL]'",
            )


def feature_width(encoder: str) -> int:
    """Return the width of a sentence encoder's features; one that is not known is loaded."""
    known = {MINILM: MINILM_DIMENSION, HASH: HASH_DIMENSION}
    return known.get(encoder) or load_sentence_encoder(encoder).dimension


def embed_texts(folder: Path, encoder: str, encoded: Sequence[EncodedSample]) -> TextTable:
    """Return the features of every node and predicate, each distinct text embedded once.

    folder: where the table is kept. encoder: the name of the sentence encoder.
    """
    loaded = load_sentence_encoder(encoder)
    texts = graph_texts(subgraph for item in encoded for subgraph in item.subgraphs)
    # A lock, no barrier: where one process fails before it, no other waits for it for ever.
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        return TextTable.build(folder, texts, loaded)


def graph_samples(
    encoded: Sequence[EncodedSample], table: TextTable | None
) -> list[TrainingSample]:
    """Return what a `RasProcessor` made of records as arrays; graphs as rows of a table of texts.

    table: None leaves the graphs out.
    """
    return [
        TrainingSample(
            sample_id=item.sample_id,
            input_ids=np.asarray(item.input_ids, dtype=np.int32),
            labels_start=item.labels_start,
            graphs=encode_subgraphs(item.subgraphs, table.rows) if table is not None else None,
        )
        for item in encoded
    ]
