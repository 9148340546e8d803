"""The published training step, sample by sample (RAS §3.4; G-Retriever, He et al. 2024).

As in the code that both papers released: one call of the graph encoder for every sub-graph, text
tokenised inside the step, each sample's embeddings looked up, concatenated and padded on the left
one after another, and the logits of every position computed for the labels' sake. The modules are
ours, so that with equal weights loss and gradients must agree with our step's.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from transformers.modeling_outputs import CausalLMOutputWithPast

from benchmarks.harness.settings import Forward, StepSettings
from benchmarks.harness.workload import Workload, model_config
from models.graph_llm import GraphLLM
from models.parts.graph import Subgraph
from models.parts.graph_encoder import GraphEncoder
from models.parts.loss import IGNORE_INDEX


class PerSampleLoopStep:
    """The published loop around a given GraphLLM's modules, or around new ones in float32."""

    def __init__(
        self, workload: Workload, settings: StepSettings, module: GraphLLM | None = None
    ) -> None:
        config = model_config(settings, workload.features.shape[1])
        self.module = module or GraphLLM.from_config(config, dtype="float32").train()
        self.device = torch.device(settings.device)
        self.module.to(self.device)
        self.workload = workload
        self.tokenizer = workload.tokenizer
        self.word_embedding = self.module.backbone.get_input_embeddings()
        # The published loops read graphs whose texts were embedded ahead of the training.
        self.graphs = [[self._tensors(s) for s in e.subgraphs] for e in workload.encoded]

    def forward(self, batch: Sequence[int]) -> Forward:
        """Return the loss of the samples with these indices."""
        output, labels = self.output(batch)
        assert output.loss is not None
        return Forward(output.loss, labels.numel())

    def output(self, batch: Sequence[int]) -> tuple[CausalLMOutputWithPast, Tensor]:
        """transformers' output with logits [B, T, vocabulary], and the labels [B, T]."""
        prompts = self.tokenizer(
            [self.workload.prompts[i] for i in batch], add_special_tokens=False
        ).input_ids
        labels = self.tokenizer(
            [self.workload.labels[i] for i in batch], add_special_tokens=False
        ).input_ids
        embeds: list[Tensor] = []
        targets: list[list[int]] = []
        for index, prompt, label in zip(batch, prompts, labels, strict=True):
            label = [*label, self.tokenizer.eos_token_id]
            embeds.append(self._sample_embeds(index, prompt + label))
            targets.append([IGNORE_INDEX] * (len(embeds[-1]) - len(label)) + label)
        return self._language_model(embeds, targets)

    def _sample_embeds(self, index: int, ids: list[int]) -> Tensor:
        """Return BOS where there is one, graph token and text of one sample, [T, d]."""
        bos = self.tokenizer.bos_token_id
        start = (
            [] if bos is None else [self.word_embedding(torch.tensor([bos], device=self.device))]
        )
        text = self.word_embedding(torch.tensor(ids, device=self.device))
        return torch.cat([*start, self._graph_token(index), text], dim=0)

    def _graph_token(self, index: int) -> Tensor:
        """Return one sample's token [1, d]: the mean of its sub-graphs, each encoded on its own."""
        encoder = self.module.graph_encoder
        assert encoder is not None
        graphs = [encode_one(encoder, *tensors) for tensors in self.graphs[index]]
        pooled = torch.stack(graphs).mean(dim=0) if graphs else encoder.empty
        token: Tensor = encoder.token_norm(encoder.projector(pooled))
        return token.unsqueeze(0)

    def _language_model(
        self, embeds: list[Tensor], targets: list[list[int]]
    ) -> tuple[CausalLMOutputWithPast, Tensor]:
        """Pad on the left, sample by sample, and run the model over all positions."""
        pad = torch.tensor([self.tokenizer.pad_token_id], device=self.device)
        pad_embedding = self.word_embedding(pad)
        longest = max(len(sample) for sample in embeds)
        masks: list[list[int]] = []
        for i, sample in enumerate(embeds):
            padding = longest - len(sample)
            masks.append([0] * padding + [1] * len(sample))
            targets[i] = [IGNORE_INDEX] * padding + targets[i]
            embeds[i] = torch.cat([pad_embedding.repeat(padding, 1), sample], dim=0)
        labels = torch.tensor(targets, device=self.device)
        output = self.module.model(
            inputs_embeds=torch.stack(embeds),
            attention_mask=torch.tensor(masks, device=self.device),
            labels=labels,
            return_dict=True,
        )
        return output, labels

    def _tensors(self, subgraph: Subgraph) -> tuple[Tensor, Tensor, Tensor]:
        table = self.workload.table
        nodes = np.asarray(table.features[table.rows(subgraph.nodes)])
        edges = np.asarray(table.features[table.rows(subgraph.edges)])
        index = np.ascontiguousarray(subgraph.edge_index)
        tensors = (torch.from_numpy(array).to(self.device) for array in (nodes, edges, index))
        return next(tensors), next(tensors), next(tensors)


def encode_one(encoder: GraphEncoder, nodes: Tensor, edges: Tensor, edge_index: Tensor) -> Tensor:
    """Return the mean node state [hidden_dim] of one sub-graph, before the projector."""
    x = encoder.input_projection(nodes)
    for layer in encoder.layers:
        x = layer(x, edge_index, edges)
    pooled: Tensor = encoder.output_norm(x).mean(dim=0)
    return pooled
