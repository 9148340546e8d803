"""Graph encoder and projector: all sub-graphs of a batch to one token a sample (RAS eq. 2, 8)."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.parts.graph import GraphBatch

GraphKind = Literal["graph_transformer", "gat", "gcn"]


@dataclass(frozen=True)
class GraphEncoderConfig:
    """Sizes of the graph encoder; the defaults are the paper's (RAS Table 8).

    `input_dim` is the sentence encoder's width, `output_dim` the language model's (0: taken from
    the backbone when the model is built). Raises ValueError on sizes that do not fit together.
    """

    input_dim: int = 384
    hidden_dim: int = 1024
    num_layers: int = 3
    num_heads: int = 8
    dropout: float = 0.1
    projector_dim: int = 2048
    output_dim: int = 0
    kind: GraphKind = "graph_transformer"

    def __post_init__(self) -> None:
        if self.kind not in get_args(GraphKind):
            raise ValueError(f"graph.kind is {self.kind!r}; choose from {get_args(GraphKind)}")
        if self.hidden_dim % self.num_heads:
            raise ValueError(
                f"graph.hidden_dim {self.hidden_dim} is no multiple of "
                f"graph.num_heads {self.num_heads}"
            )


class GraphLayer(nn.Module):
    """Layer norm, graph convolution, GELU and dropout, added to the layer's input."""

    def __init__(self, config: GraphEncoderConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden_dim)
        self.uses_edges = config.kind != "gcn"
        self.conv = _convolution(config)
        self.dropout = config.dropout

    def forward(self, x: Tensor, edge_index: Tensor, edge_features: Tensor) -> Tensor:
        """New node states [N, hidden_dim]."""
        edges = (edge_features,) if self.uses_edges else ()
        update = F.gelu(self.conv(self.norm(x), edge_index, *edges))
        return x + F.dropout(update, self.dropout, self.training)


def _convolution(config: GraphEncoderConfig) -> nn.Module:
    # Late, as `scatter` below: an engine that reads no graphs needs none of it.
    from torch_geometric.nn import GATConv, GCNConv, TransformerConv

    hidden, heads = config.hidden_dim, config.num_heads
    if config.kind == "gcn":
        return GCNConv(hidden, hidden)
    attention = TransformerConv if config.kind == "graph_transformer" else GATConv
    return attention(
        hidden, hidden // heads, heads=heads, edge_dim=config.input_dim, dropout=config.dropout
    )


class GraphEncoder(nn.Module):
    """Encodes each sub-graph on its own, in one call, and pools them (RAS App. D.2).

    Graph Transformer (Shi et al., 2021) layers by default; GAT uses edge features too, GCN knows
    no edge features and so ignores the predicates. Then the mean over a sub-graph's nodes, the
    mean over a sample's sub-graphs, and a two-layer projector. `token_norm` sets the length of
    the token at the start; choose the mean length of the language model's embeddings.
    """

    def __init__(self, config: GraphEncoderConfig, token_norm: float = 1.0) -> None:
        super().__init__()
        if config.output_dim <= 0:
            raise ValueError("graph.output_dim must be the width of the language model")
        self.config = config
        self.input_projection = nn.Linear(config.input_dim, config.hidden_dim)
        self.layers = nn.ModuleList(GraphLayer(config) for _ in range(config.num_layers))
        self.output_norm = nn.LayerNorm(config.hidden_dim)
        # Stands for a history without triples.
        self.empty = nn.Parameter(torch.randn(config.hidden_dim))
        self.projector = nn.Sequential(
            nn.Linear(config.hidden_dim, config.projector_dim),
            nn.GELU(),
            nn.Linear(config.projector_dim, config.output_dim),
        )
        self.token_norm = nn.LayerNorm(config.output_dim)
        nn.init.constant_(self.token_norm.weight, token_norm / config.output_dim**0.5)

    def forward(self, graph: GraphBatch) -> Tensor:
        """Graph token of each sample, [batch_size, output_dim], float32 or the parameters' dtype.

        Every parameter takes part whatever the batch holds, as DistributedDataParallel wants it.
        """
        dtype = self.input_projection.weight.dtype
        edge_features = graph.predicate_features.to(dtype)[graph.edge_predicates]
        x = self.input_projection(graph.node_features.to(dtype))
        for layer in self.layers:
            x = layer(x, graph.edge_index, edge_features)
        pooled = self._pool(self.output_norm(x), graph)
        token: Tensor = self.token_norm(self.projector(pooled))
        if graph.edge_index.shape[1] == 0:
            # PyG skips the attention of a graph without edges, and with it some parameters.
            token = token + 0.0 * sum(parameter.sum() for parameter in self.layers.parameters())
        return token

    def _pool(self, x: Tensor, graph: GraphBatch) -> Tensor:
        """Mean over nodes, then over sub-graphs; the learned vector where there is neither."""
        from torch_geometric.utils import scatter

        num_subgraphs = graph.subgraph_to_sample.numel()
        subgraphs = scatter(x, graph.node_to_subgraph, 0, num_subgraphs, reduce="mean")
        samples = scatter(subgraphs, graph.subgraph_to_sample, 0, graph.batch_size, reduce="mean")
        filled = torch.zeros(graph.batch_size, 1, dtype=torch.bool, device=x.device)
        filled[graph.subgraph_to_sample] = True
        return torch.where(filled, samples, self.empty.to(samples.dtype))
