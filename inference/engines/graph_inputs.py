"""The graphs of a batch of requests, ready for one call of the graph encoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from inference.engines.contract import SubgraphInput
from models.graph import (
    GraphBatch,
    Subgraph,
    build_subgraph,
    collate_graphs,
    encode_subgraphs,
    graph_texts,
)
from models.text_table import TextFeatures


def to_subgraphs(given: Sequence[SubgraphInput] | None) -> list[Subgraph]:
    """A request's sub-graphs, those given as triples built as in training."""
    return [
        subgraph if isinstance(subgraph, Subgraph) else build_subgraph(subgraph)
        for subgraph in given or ()
    ]


def collate_requests(samples: Sequence[Sequence[Subgraph]], features: TextFeatures) -> GraphBatch:
    """One batch of all requests' graphs; each distinct text is embedded once.

    A request without graphs stays in the batch as an empty sample.
    """
    texts = graph_texts(subgraph for sample in samples for subgraph in sample)
    rows = {text: row for row, text in enumerate(texts)}

    def rows_of(wanted: list[str]) -> npt.NDArray[np.int64]:
        return np.array([rows[text] for text in wanted], dtype=np.int64)

    encoded = [encode_subgraphs(sample, rows_of) for sample in samples]
    return collate_graphs(encoded, features.features(texts))
