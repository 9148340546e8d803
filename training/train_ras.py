"""Trains a GraphLLM to plan and to answer over a question's graph (RAS §3.4, App. D.2).

accelerate launch training/train_ras.py --config configs/ras_smollm2.yaml [key=value ...]
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from filelock import FileLock
from transformers import PreTrainedModel

from models.files.sentence_encoder import (
    HASH,
    HASH_DIMENSION,
    MINILM,
    MINILM_DIMENSION,
    load_sentence_encoder,
)
from models.files.text_table import TextTable
from models.formats.planning import parse_plan
from models.formats.records import RasSample, RecordError
from models.graph_llm import GraphLLM, GraphLLMConfig
from models.parts.graph import graph_texts
from models.parts.graph_encoder import GraphEncoderConfig
from models.processors.ras import EncodedSample
from training.recipe.recipe import Recipe, component_config
from training.recipe.samples import TrainingSample, graph_samples
from training.recipe.settings import GraphSettings, RasSettings
from training.run.prepare import prepare as prepare_recipe
from training.run.runner import run_command
from training.run.scores import score_ras

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

    def config(self, settings: RasSettings, records: Sequence[RasSample]) -> GraphLLMConfig:
        """Return the recipe's model in the words of models/."""
        graph = settings.graph
        return component_config(
            GraphLLMConfig,
            settings.model,
            graph=_encoder_sizes(graph) if graph.enabled else None,
            encoder=graph.encoder,
            compare_dates=graph.compare_dates,
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
        encoder = load_sentence_encoder(settings.graph.encoder)
        texts = graph_texts(subgraph for item in encoded for subgraph in item.subgraphs)
        folder = Path(settings.output_dir) / "text_features"
        # A lock, no barrier: where one process fails before it, no other waits for it for ever.
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            return TextTable.build(folder, texts, encoder)

    def samples(
        self, encoded: Sequence[EncodedSample], table: TextTable | None
    ) -> list[TrainingSample]:
        """Return encoded records as arrays, with their graphs where there is a table."""
        return graph_samples(encoded, table)

    def untrained(
        self, settings: RasSettings, config: GraphLLMConfig, backbone: PreTrainedModel | None = None
    ) -> GraphLLM:
        """Return an untrained model."""
        if backbone is not None:
            # The tokenizer, which would say, is not needed for sizes.
            config = replace(config, graph_position=1)
        return GraphLLM.from_config(config, backbone, settings.model.dtype.value)


def check_plan_labels(records: Sequence[RasSample], path: str) -> None:
    """Refuse planner samples whose label no parser could read back.

    Raises:
        RecordError: names the sample.
    """
    for record in records:
        if record.task == "plan" and parse_plan(record.label).plan is None:
            raise RecordError(
                f"{path}: sample {record.id!r}",
                "label",
                f"is no plan: {record.label!r}",
                "Write '[SUBQ] text', '[SUFFICIENT]' or '[NO_RETRIEVAL]'",
            )


def _encoder_sizes(graph: GraphSettings) -> GraphEncoderConfig:
    known = {MINILM: MINILM_DIMENSION, HASH: HASH_DIMENSION}
    return GraphEncoderConfig(
        input_dim=known.get(graph.encoder) or load_sentence_encoder(graph.encoder).dimension,
        hidden_dim=graph.hidden_dim,
        num_layers=graph.num_layers,
        num_heads=graph.num_heads,
        dropout=graph.dropout,
        projector_dim=graph.projector_dim,
        kind=graph.kind.value,
    )


RECIPE = RasRecipe()
prepare = partial(prepare_recipe, RECIPE)


def main() -> None:
    """Run the command."""
    run_command(RECIPE, str(__doc__))


if __name__ == "__main__":
    main()
