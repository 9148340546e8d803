"""Trains a GraphLLM to plan and to answer over a question's graph (RAS §3.4, App. D.2).

accelerate launch training/train_ras.py --config configs/ras_smollm2.yaml [key=value ...]
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.files.text_table import TextTable
from models.formats.records import RasSample
from models.graph_llm import GraphLLM, GraphLLMConfig
from models.parts.graph import build_subgraph
from models.parts.graph_encoder import GraphEncoderConfig
from models.processors.ras import EncodedSample
from training.recipe.drawn import DrawnCall, OutcomeError
from training.recipe.graph_samples import (
    check_plan_labels,
    embed_texts,
    feature_width,
    graph_samples,
)
from training.recipe.objective import ObjectiveName
from training.recipe.recipe import Recipe, shared_values
from training.recipe.samples import TrainingSample
from training.recipe.settings import ConfigError, RasSettings
from training.run.command import run_command
from training.run.scores import score_ras

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)


class RasRecipe(Recipe[RasSettings, RasSample]):
    """An adapter and a graph encoder that learn together, on plans and answers."""

    script = "train_ras.py"
    settings_type = RasSettings
    record_type = RasSample
    component = GraphLLM
    score = staticmethod(score_ras)

    def read(self, settings: RasSettings, path: str, limit: int) -> tuple[list[RasSample], int]:
        """Return the records of a file, and the number of those skipped.

        Raises:
            RecordError: a planner sample's label is no plan.
        """
        records, bad = super().read(settings, path, limit)
        check_plan_labels(records, path)
        return records, bad

    def check(self, settings: RasSettings) -> None:
        """Refuse to learn from outcomes under other prompts than the component drew from."""
        super().check(settings)
        start, kind = settings.model.start_from, settings.objective.kind
        if not start or kind is ObjectiveName.imitation:
            return
        drew = GraphLLMConfig.read(start)
        for name in ("instructions", "compare_dates"):
            own, then = getattr(settings.graph, name), getattr(drew, name)
            if own != then:
                raise ConfigError(
                    f"graph.{name}={str(own).lower()}: {start} drew with {str(then).lower()}, and "
                    "is asked so afterwards. Write that"
                )

    def config(self, settings: RasSettings, records: Sequence[RasSample]) -> GraphLLMConfig:
        """Return the recipe's model in the words of models/."""
        graph = settings.graph
        shared = shared_values(GraphLLMConfig, settings.model, graph)
        if not graph.enabled:
            return GraphLLMConfig(**shared, graph=None)
        sizes = shared_values(GraphEncoderConfig, graph)
        width = feature_width(graph.encoder)
        return GraphLLMConfig(**shared, graph=GraphEncoderConfig(**sizes, input_dim=width))

    def adapter_names(self, config: GraphLLMConfig) -> tuple[str, ...]:
        """Return what trajectories call the component."""
        return ("ras",)

    def encode_drawn(self, config: GraphLLMConfig, drawn: DrawnCall) -> EncodedSample:
        """Return a drawn call with the graphs that it read."""
        plain, call = super().encode_drawn(config, drawn), drawn.call
        if config.graph is not None and call.subgraphs is None:
            raise OutcomeError(
                f"{drawn.id}: was drawn without its graphs, which the component is trained to "
                "read. Roll out without --no-graph-encode"
            )
        task = call.sample.task if isinstance(call.sample, RasSample) else "plan"
        graphs = [build_subgraph(triples) for triples in call.subgraphs or ()]
        return EncodedSample(
            **plain, task=task, graph_position=None, subgraphs=graphs, cut_triples=0
        )

    def warn_of_cuts(self, settings: RasSettings, encoded: Sequence[EncodedSample]) -> None:
        """Log how many histories lost triples."""
        shortened = sum(item.cut_triples > 0 for item in encoded)
        if shortened:
            logger.warning(
                "%d of %d histories are longer than model.max_input_tokens=%d and lost triples of "
                "their oldest steps",
                shortened,
                len(encoded),
                settings.model.max_input_tokens,
            )

    def text_table(
        self, settings: RasSettings, encoded: Sequence[EncodedSample]
    ) -> TextTable | None:
        """Return features of every node and predicate, each distinct text embedded once."""
        if not settings.graph.enabled:
            return None
        folder = Path(settings.output_dir) / "text_features"
        return embed_texts(folder, settings.graph.encoder, encoded)

    def samples(
        self, encoded: Sequence[EncodedSample], table: TextTable | None
    ) -> list[TrainingSample]:
        """Return encoded records as arrays, with their graphs where there is a table."""
        return graph_samples(encoded, table)

    def untrained(
        self, settings: RasSettings, config: Any, backbone: PreTrainedModel | None = None
    ) -> GraphLLM:
        """Return an untrained model."""
        if backbone is not None:
            # The tokenizer, which would say, is not needed for sizes.
            config = replace(config, graph_position=1)
        return super().untrained(settings, config, backbone)


RECIPE = RasRecipe()


def main() -> None:
    """Run the command."""
    run_command(RECIPE, str(__doc__))


if __name__ == "__main__":
    main()
