"""Samples padded to batches, with everything but the label masked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from models.parts.graph import EncodedGraphs, GraphBatch, collate_graphs
from models.parts.loss import IGNORE_INDEX
from training.recipe.samples import TrainingSample

Batch = dict[str, Any]


class Collator:
    """Pads samples on the right and masks everything but the label.

    Args:
        pad_token_id: fills `input_ids` after the end.
        graph_features: [texts, d] table that the samples' graphs point into; None: no graphs.
    """

    def __init__(
        self, pad_token_id: int, graph_features: npt.NDArray[np.floating] | None = None
    ) -> None:
        self.pad_token_id = pad_token_id
        self.graph_features = graph_features

    def __call__(self, samples: Sequence[TrainingSample]) -> Batch:
        """Batch with `input_ids`, `attention_mask`, `labels` [B, T], `sample_ids` and `graph`."""
        input_ids, mask = pad_right([s.input_ids for s in samples], self.pad_token_id)
        batch: Batch = {
            "sample_ids": [sample.sample_id for sample in samples],
            "input_ids": torch.from_numpy(input_ids),
            "attention_mask": torch.from_numpy(mask.astype(np.int64)),
            "labels": torch.from_numpy(_labels(samples, input_ids, mask)),
        }
        if (graph := self.graphs(samples)) is not None:
            batch["graph"] = graph
        return batch

    def graphs(self, samples: Sequence[TrainingSample]) -> GraphBatch | None:
        """Return the graphs of a batch alone; None where the samples have none."""
        if self.graph_features is None:
            return None
        graphs: list[EncodedGraphs] = [s.graphs for s in samples if s.graphs is not None]
        return collate_graphs(graphs, self.graph_features)


def pad_right(
    rows: Sequence[npt.NDArray[np.integer]], value: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Stack rows of different lengths; the mask is true where a row has a token."""
    lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
    mask = np.arange(lengths.max()) < lengths[:, None]
    padded = np.full(mask.shape, value, dtype=np.int64)
    padded[mask] = np.concatenate(rows)
    return padded, mask


def _labels(
    samples: Sequence[TrainingSample],
    input_ids: npt.NDArray[np.int64],
    mask: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64]:
    targets = [sample.label_ids for sample in samples if sample.label_ids is not None]
    if targets:
        return pad_right(targets, IGNORE_INDEX)[0]
    starts = np.fromiter((s.labels_start for s in samples), dtype=np.int64, count=len(samples))
    is_label = mask & (np.arange(input_ids.shape[1]) >= starts[:, None])
    return np.where(is_label, input_ids, IGNORE_INDEX)
