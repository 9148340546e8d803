"""PyG's `GRetriever` as it ships, around the same backbone, adapter and graph layers."""

from collections.abc import Sequence

import numpy as np
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.llm.models import LLM, GRetriever
from torch_geometric.nn import TransformerConv
from torch_geometric.nn.models.basic_gnn import BasicGNN

from benchmarks.harness.settings import Forward, StepSettings
from benchmarks.harness.workload import Workload
from models.files.backbone import resolve_backbone
from models.parts.graph import EncodedGraphs

# In billions; only chooses how many GPUs PyG would spread the backbone over.
NOMINAL_PARAMETERS = 1.0


class GraphTransformer(BasicGNN):  # type: ignore[misc]
    """PyG's model class with `TransformerConv` layers and edge features."""

    supports_edge_weight = False
    supports_edge_attr = True

    def init_conv(
        self, in_channels: int, out_channels: int, heads: int, **options: float
    ) -> TransformerConv:
        """Return one layer whose heads together are `out_channels` wide."""
        return TransformerConv(in_channels, out_channels // heads, heads=heads, **options)


class GRetrieverStep:
    """GRetriever with its own LoRA (rank 8 on q and v), prompts and padding.

    Its defaults keep the backbone frozen in float32: `prepare_model_for_kbit_training` casts the
    bfloat16 weights that `LLM` loads.
    """

    def __init__(self, workload: Workload, settings: StepSettings) -> None:
        width, features = settings.graph_width, workload.features.shape[1]
        gnn = GraphTransformer(
            in_channels=features,
            hidden_channels=width,
            out_channels=width,
            num_layers=settings.graph_layers,
            heads=settings.graph_heads,
            edge_dim=features,
            dropout=0.1,
        )
        language_model = LLM(resolve_backbone(settings.backbone), num_params=NOMINAL_PARAMETERS)
        self.module = GRetriever(language_model, gnn, use_lora=True).train()
        self.workload = workload
        graphs = (sample.graphs for sample in workload.samples)
        self.graphs = [self._data(graph) for graph in graphs if graph is not None]

    def forward(self, batch: Sequence[int]) -> Forward:
        """Return loss as GRetriever's own forward gives it; its prompt format adds a few tokens."""
        graph = Batch.from_data_list([self.graphs[index] for index in batch])
        loss = self.module(
            [self.workload.prompts[index] for index in batch],
            graph.x,
            graph.edge_index,
            graph.batch,
            [self.workload.labels[index] for index in batch],
            edge_attr=graph.edge_attr,
        )
        return Forward(loss, self.module.seq_length_stats[-1] * len(batch))

    def _data(self, graphs: EncodedGraphs) -> Data:
        features = self.workload.features
        return Data(
            x=torch.from_numpy(np.asarray(features[graphs.node_rows])),
            edge_index=torch.from_numpy(graphs.edge_index),
            edge_attr=torch.from_numpy(np.asarray(features[graphs.edge_rows])),
        )
