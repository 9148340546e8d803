"""Our training step: the trainer's own collator and model."""

from collections.abc import Sequence

from benchmarks.steps.contract import Forward
from benchmarks.steps.settings import StepSettings
from benchmarks.steps.workload import Workload, model_config
from models.graph_llm import GraphLLM
from training.collators import Batch, Collator


class GraphLLMStep:
    """GraphLLM on collated batches; `graph=False` leaves the graph encoder out, ids stay."""

    def __init__(
        self, workload: Workload, settings: StepSettings, dtype: str, graph: bool = True
    ) -> None:
        config = model_config(settings, workload.features.shape[1], graph)
        self.module = GraphLLM.from_config(config, dtype=dtype)
        self.workload = workload
        self.collate = Collator(
            int(workload.tokenizer.pad_token_id), workload.features if graph else None
        )

    def batch(self, indices: Sequence[int]) -> Batch:
        """The batch as the trainer hands it to the model."""
        batch = self.collate([self.workload.samples[index] for index in indices])
        del batch["sample_ids"]
        return batch

    def forward(self, batch: Sequence[int]) -> Forward:
        """Collate and compute the loss of the label tokens."""
        inputs = self.batch(batch)
        output = self.module(**inputs)
        return Forward(output.loss, inputs["input_ids"].numel())
