"""Graphs from triples, and batches of graphs against a plain loop."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from models.formats.triples import Triple
from models.parts.graph import INVERSE_PREFIX, build_subgraph, collate_graphs
from tests.models.graphs import FEATURE_DIM, STEPS, TRIPLES, encode_samples, graph_batch


def test_nodes_edges_and_inverse_edges() -> None:
    graph = build_subgraph([Triple("a", "knows", "b"), Triple("b", "likes", "a")] * 2)
    assert graph.nodes == ("a", "b")
    assert graph.edges == ("knows", "likes", "inverse_knows", "inverse_likes")
    assert graph.edge_index.tolist() == [[0, 1, 1, 0], [1, 0, 0, 1]]


def test_no_triples_give_an_empty_graph() -> None:
    graph = build_subgraph([])
    assert graph.nodes == () and graph.edges == () and graph.edge_index.shape == (2, 0)


@given(TRIPLES)
def test_edges_spell_out_the_triples_and_their_inverses(triples: list[Triple]) -> None:
    graph = build_subgraph(triples)
    spelled = [
        (graph.nodes[source], predicate, graph.nodes[target])
        for predicate, (source, target) in zip(graph.edges, graph.edge_index.T, strict=True)
    ]
    distinct = list(dict.fromkeys(triples))
    forward = [(t.subject, t.predicate, t.object) for t in distinct]
    inverse = [(t.object, INVERSE_PREFIX + t.predicate, t.subject) for t in distinct]
    assert spelled == forward + inverse
    assert len(set(graph.nodes)) == len(graph.nodes)


@settings(deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=4))
def test_collation_equals_pyg_batch(samples: list[list[list[Triple]]]) -> None:
    encoded, features = encode_samples(samples)
    batch = collate_graphs(encoded, features)
    whole = [[build_subgraph(triples) for triples in steps if triples] for steps in samples]
    assert batch.batch_size == len(samples)
    assert batch.subgraph_to_sample.tolist() == [
        index for index, steps in enumerate(whole) for _ in steps
    ]
    graphs = [graph for steps in whole for graph in steps]
    if not graphs:
        assert batch.node_features.shape == (0, FEATURE_DIM)
        assert batch.edge_features.shape == (0, FEATURE_DIM)
        return
    single = [graph_batch([[_triples(graph)]]) for graph in graphs]
    expected = Batch.from_data_list(
        [
            Data(x=g.node_features, edge_index=g.edge_index, edge_attr=g.edge_features)
            for g in single
        ]
    )
    assert torch.equal(batch.node_features, expected.x)
    assert torch.equal(batch.edge_features, expected.edge_attr)
    assert torch.equal(batch.edge_index, expected.edge_index)
    assert torch.equal(batch.node_to_subgraph, expected.batch)


def _triples(graph: object) -> list[Triple]:
    nodes, edges, index = graph.nodes, graph.edges, graph.edge_index  # type: ignore[attr-defined]
    half = len(edges) // 2
    return [
        Triple(nodes[s], p, nodes[t])
        for p, (s, t) in zip(edges[:half], index[:, :half].T, strict=True)
    ]


def test_features_may_be_a_memory_map(tmp_path) -> None:  # type: ignore[no-untyped-def]
    encoded, features = encode_samples([[[Triple("a", "p", "b")], [Triple("b", "q", "c")]]])
    np.save(tmp_path / "features.npy", features)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    assert torch.equal(
        collate_graphs(encoded, mapped).node_features,
        collate_graphs(encoded, features).node_features,
    )


def test_to_casts_features_and_keeps_indices() -> None:
    batch = graph_batch([[[Triple("a", "p", "b")]], []]).to("cpu", torch.bfloat16)
    assert batch.node_features.dtype == batch.edge_features.dtype == torch.bfloat16
    assert batch.edge_index.dtype == batch.node_to_subgraph.dtype == torch.int64
    assert batch.batch_size == 2
