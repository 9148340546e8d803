"""Random triples and their features for the tests of graphs."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from models.formats.triples import Triple
from models.parts.graph import (
    EncodedGraphs,
    FloatArray,
    GraphBatch,
    build_subgraph,
    collate_graphs,
    encode_subgraphs,
    graph_texts,
)

FEATURE_DIM = 16
NAMES = st.sampled_from([f"entity {i}" for i in range(8)])
TRIPLES = st.lists(st.builds(Triple, NAMES, st.sampled_from("pqr"), NAMES), max_size=9)
STEPS = st.lists(TRIPLES, max_size=4)
Steps = Sequence[Sequence[Triple]]


def encode_samples(samples: Sequence[Steps]) -> tuple[list[EncodedGraphs], FloatArray]:
    """Encode samples over a table that gives each text a vector of its own, whatever its row."""
    subgraphs = [[build_subgraph(triples) for triples in steps] for steps in samples]
    row_of = {text: row for row, text in enumerate(graph_texts(g for s in subgraphs for g in s))}
    vectors = [
        np.random.default_rng(list(text.encode())).standard_normal(FEATURE_DIM) for text in row_of
    ]
    features = np.array(vectors, dtype=np.float32).reshape(-1, FEATURE_DIM)

    def rows(texts: list[str]) -> np.ndarray:
        return np.array([row_of[text] for text in texts], dtype=np.int64)

    return [encode_subgraphs(steps, rows) for steps in subgraphs], features


def graph_batch(samples: Sequence[Steps]) -> GraphBatch:
    """The samples' graphs as one batch."""
    return collate_graphs(*encode_samples(samples))
