"""Triples as graphs, and many graphs as one batch (RAS eq. 5 and 6)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.formats.triples import Triple

INVERSE_PREFIX = "inverse_"
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Subgraph:
    """The graph of one subquery's triples, with texts still as text.

    `nodes`: N distinct subjects and objects; `edges`: E predicates, first those of the triples,
    then as many inverse ones; `edge_index`: [2, E] positions in `nodes`, source row first.
    """

    nodes: tuple[str, ...]
    edges: tuple[str, ...]
    edge_index: IntArray


def build_subgraph(triples: Iterable[Triple]) -> Subgraph:
    """Graph of the distinct triples; nodes and edges in the order in which they first appear.

    Every triple gives an edge subject -> object and one back, `inverse_` + predicate.
    """
    distinct = list(dict.fromkeys(triples))
    positions: dict[str, int] = {}
    for triple in distinct:
        positions.setdefault(triple.subject, len(positions))
        positions.setdefault(triple.object, len(positions))
    ends = [[positions[triple.subject], positions[triple.object]] for triple in distinct]
    forward = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    predicates = tuple(triple.predicate for triple in distinct)
    return Subgraph(
        nodes=tuple(positions),
        edges=predicates + tuple(INVERSE_PREFIX + predicate for predicate in predicates),
        edge_index=np.concatenate([forward, forward[::-1]], axis=1),
    )


def graph_texts(subgraphs: Iterable[Subgraph]) -> list[str]:
    """Every text that the graphs need features of, each once, in the order of first appearance."""
    texts: dict[str, None] = {}
    for subgraph in subgraphs:
        texts.update(dict.fromkeys(subgraph.nodes))
        texts.update(dict.fromkeys(subgraph.edges))
    return list(texts)


@dataclass(frozen=True, eq=False)
class EncodedGraphs:
    """All sub-graphs of one sample, texts replaced by their rows in a table of features.

    `node_rows` [N], `edge_rows` [E], `edge_index` [2, E] counted over the sample's nodes,
    `node_counts` [G] nodes a sub-graph. Sub-graphs without triples are left out.
    """

    node_rows: IntArray
    edge_rows: IntArray
    edge_index: IntArray
    node_counts: IntArray


def encode_subgraphs(
    subgraphs: Sequence[Subgraph], rows: Callable[[list[str]], npt.NDArray[np.integer]]
) -> EncodedGraphs:
    """Put a sample's sub-graphs side by side; `rows` gives the table's row of each text."""
    kept = [subgraph for subgraph in subgraphs if subgraph.nodes]
    node_counts = np.array([len(subgraph.nodes) for subgraph in kept], dtype=np.int64)
    edge_counts = np.array([len(subgraph.edges) for subgraph in kept], dtype=np.int64)
    edge_index = np.concatenate([np.zeros((2, 0), np.int64), *(s.edge_index for s in kept)], axis=1)
    nodes = [text for subgraph in kept for text in subgraph.nodes]
    edges = [text for subgraph in kept for text in subgraph.edges]
    text_rows = np.asarray(rows(nodes + edges) if nodes else [], dtype=np.int64)
    return EncodedGraphs(
        node_rows=text_rows[: len(nodes)],
        edge_rows=text_rows[len(nodes) :],
        edge_index=edge_index + np.repeat(_starts(node_counts), edge_counts),
        node_counts=node_counts,
    )


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """All sub-graphs of all samples as one graph without edges between them.

    `node_features` [N, d]; `predicate_features` [P, d], each predicate of the batch once;
    `edge_predicates` [E] the predicate of each edge; `edge_index` [2, E]; `node_to_subgraph` [N],
    `subgraph_to_sample` [G], both ascending. A sample may have no sub-graph.
    """

    node_features: Tensor
    predicate_features: Tensor
    edge_predicates: Tensor
    edge_index: Tensor
    node_to_subgraph: Tensor
    subgraph_to_sample: Tensor
    batch_size: int

    @property
    def edge_features(self) -> Tensor:
        """Features of each edge, [E, d]."""
        return self.predicate_features[self.edge_predicates]

    def to(
        self,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
    ) -> "GraphBatch":
        """The batch on `device`, its features in `dtype`; indices stay int64."""
        moved: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                target = dtype if value.is_floating_point() else None
                moved[field.name] = value.to(device, target, non_blocking=non_blocking)
        return replace(self, **moved)

    def pin_memory(self) -> "GraphBatch":
        """The batch in page-locked memory; DataLoader calls this."""
        tensors: dict[str, Any] = {
            field.name: value.pin_memory()
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return replace(self, **tensors)


def collate_graphs(samples: Sequence[EncodedGraphs], features: FloatArray) -> GraphBatch:
    """Join the graphs of a batch; `features` [texts, d] may be memory-mapped.

    One gather reads the batch's nodes and distinct predicates from the table, each row once.
    """
    node_counts = np.concatenate([sample.node_counts for sample in samples])
    nodes_of_sample = np.array([len(sample.node_rows) for sample in samples], dtype=np.int64)
    edges_of_sample = np.array([len(sample.edge_rows) for sample in samples], dtype=np.int64)
    subgraphs_of_sample = np.array([len(sample.node_counts) for sample in samples], dtype=np.int64)
    edge_index = np.concatenate([sample.edge_index for sample in samples], axis=1)
    node_rows = np.concatenate([sample.node_rows for sample in samples])
    predicate_rows, edge_predicates = np.unique(
        np.concatenate([sample.edge_rows for sample in samples]), return_inverse=True
    )
    gathered = _gather(features, np.concatenate([node_rows, predicate_rows]))
    return GraphBatch(
        node_features=gathered[: len(node_rows)],
        predicate_features=gathered[len(node_rows) :],
        edge_predicates=torch.from_numpy(edge_predicates),
        edge_index=torch.from_numpy(
            edge_index + np.repeat(_starts(nodes_of_sample), edges_of_sample)
        ),
        node_to_subgraph=torch.from_numpy(np.repeat(np.arange(len(node_counts)), node_counts)),
        subgraph_to_sample=torch.from_numpy(
            np.repeat(np.arange(len(samples)), subgraphs_of_sample)
        ),
        batch_size=len(samples),
    )


def _starts(counts: IntArray) -> IntArray:
    """Position of each group's first element when groups of these sizes stand in a row."""
    return np.cumsum(counts) - counts


def _gather(features: FloatArray, rows: IntArray) -> Tensor:
    """Rows of the table as float32; reading in ascending order suits a memory-mapped file."""
    distinct, positions = np.unique(rows, return_inverse=True)
    values = np.asarray(features[distinct], dtype=np.float32)
    return torch.from_numpy(values)[torch.from_numpy(positions)]
