"""Measure what the graph token tells the language model, by the width of the graph encoder.

The prompts here hold questions and subqueries but no triple as text: what a history found reaches
the model through the graph token alone. For each width the same untrained adapter and an encoder
of that width train on the same batches; the loss on held-out samples then says how much of the
graph arrives. Width 0 is the model without a graph token. The last line is one JSON object.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from tqdm import tqdm

from common.commands import command_parser
from common.tables import emit_json, print_table
from inference.opening.arguments import command, configure_logging, positive_int
from models.files.backbone import load_tokenizer
from models.files.sentence_encoder import load_sentence_encoder
from models.files.text_table import TextTable
from models.formats.records import RasSample, read_records
from models.graph_llm import GraphLLM, GraphLLMConfig
from models.parts.graph import graph_texts
from models.parts.graph_encoder import GraphEncoderConfig
from training.loop.sampler import LengthGroupedSampler
from training.recipe.collator import Collator
from training.recipe.graph_samples import graph_samples
from training.recipe.samples import TrainingSample, choose

HEADS = 4


@dataclass(frozen=True)
class Data:
    """Samples without triples in their text, their graphs as rows of `table`."""

    train: list[TrainingSample]
    dev: list[TrainingSample]
    table: TextTable
    pad_token_id: int

    def collator(self, graph: bool) -> Collator:
        """Return the batches with or without graphs."""
        return Collator(self.pad_token_id, self.table.features if graph else None)


def without_triples(sample: RasSample) -> RasSample:
    """Return the sample whose history names its subqueries alone."""
    return replace(sample, history=[replace(step, triples=()) for step in sample.history])


def load_data(arguments: argparse.Namespace, config: GraphLLMConfig, folder: Path) -> Data:
    """Encode histories that found something: ids from the bare text, graphs from the triples."""
    tokenizer = load_tokenizer(config.backbone)
    processor = config.processor(tokenizer)
    parts = []
    for path, limit in ((arguments.train, 0), (arguments.dev, arguments.dev_samples)):
        records = [r for r in read_records(path, RasSample) if any(s.triples for s in r.history)]
        chosen = [records[i] for i in choose(len(records), limit or len(records), arguments.seed)]
        parts.append(
            [
                replace(
                    processor.encode_sample(without_triples(record)),
                    subgraphs=processor.encode_sample(record).subgraphs,
                )
                for record in tqdm(chosen, desc=f"encoding {path.name}", unit=" samples")
            ]
        )
    encoder = load_sentence_encoder(config.encoder)
    texts = graph_texts(graph for part in parts for item in part for graph in item.subgraphs)
    table = TextTable.build(folder / "text_features", texts, encoder)
    train, dev = (graph_samples(part, table) for part in parts)
    return Data(train, dev, table, int(tokenizer.pad_token_id))


def build_model(width: int, base: GraphLLMConfig, feature_dim: int, seed: int) -> GraphLLM:
    """Return an untrained model of that width; the same adapter for every width."""
    torch.manual_seed(seed)
    if width == 0:
        return GraphLLM.from_config(replace(base, graph=None), dtype="bfloat16").train()
    graph = GraphEncoderConfig(
        input_dim=feature_dim,
        hidden_dim=width,
        num_layers=2,
        num_heads=HEADS,
        projector_dim=2 * width,
    )
    return GraphLLM.from_config(replace(base, graph=graph), dtype="bfloat16").train()


def train(model: GraphLLM, data: Data, arguments: argparse.Namespace) -> float:
    """Train for the asked steps; returns the seconds they took."""
    order = LengthGroupedSampler(
        [sample.length for sample in data.train], arguments.batch_size, arguments.seed
    )
    indices = list(order)
    collate = data.collator(model.graph_encoder is not None)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=arguments.learning_rate)
    warm_up = arguments.steps // 20
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, warm_up, arguments.steps)
    start = time.perf_counter()
    for step in tqdm(range(arguments.steps), desc="training", unit=" steps"):
        first = step * arguments.batch_size % (len(indices) - arguments.batch_size + 1)
        batch = collate([data.train[i] for i in indices[first : first + arguments.batch_size]])
        batch.pop("sample_ids")
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return time.perf_counter() - start


def measure(width: int, config: GraphLLMConfig, data: Data, arguments: Any) -> dict[str, Any]:
    """Train one width and measure it."""
    # They take seconds to import, and --help does without them.
    from accelerate import Accelerator

    from training.run.validation import validation_loss

    model = build_model(width, config, data.table.features.shape[1], arguments.seed)
    seconds = train(model, data, arguments)
    collate = data.collator(model.graph_encoder is not None)
    losses = {
        task: validation_loss(
            model, [s for s in data.dev if (f"/{task}" in s.sample_id)], collate, 16, Accelerator()
        )
        for task in ("plan", "answer")
    }
    encoder = model.graph_encoder
    return {
        "width": width,
        "encoder_parameters": sum(p.numel() for p in encoder.parameters()) if encoder else 0,
        "plan_loss": losses["plan"],
        "answer_loss": losses["answer"],
        "seconds_per_step": seconds / arguments.steps,
    }


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--train", type=Path, required=True, help="RasSample records, JSON Lines")
    add("--dev", type=Path, required=True, help="held-out RasSample records")
    add("--out", type=Path, required=True, help="folder for the texts' features")
    add("--widths", type=int, nargs="+", default=[0, 64, 256, 512, 1024], help="0: no graph")
    add("--steps", type=positive_int, default=150, help="optimizer steps a width (150)")
    add("--batch-size", type=positive_int, default=8, help="samples a step (8)")
    add("--dev-samples", type=positive_int, default=300, help="held-out samples (300)")
    add("--learning-rate", type=float, default=1e-3, help="peak, decayed to 0 (1e-3)")
    add("--backbone", default="smollm2", help="backbone (smollm2)")
    add("--encoder", default="minilm", help="sentence encoder (minilm)")
    add("--seed", type=int, default=0, help="of weights and order (0)")
    return parser


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print the table of widths."""
    columns = list(rows[0])
    values = [[round(v, 4) if isinstance(v, float) else v for v in row.values()] for row in rows]
    print_table("Held-out loss with the graph token alone", columns, values)


@command
def main() -> None:
    """Run the command."""
    arguments = _parser().parse_args()
    configure_logging()
    config = GraphLLMConfig(
        arguments.backbone,
        lora_rank=16,
        lora_alpha=32,
        lora_dropout=0.0,
        lora_targets="all-linear",
        encoder=arguments.encoder,
    )
    data = load_data(arguments, config, arguments.out)
    rows = [measure(width, config, data, arguments) for width in arguments.widths]
    show(rows)
    emit_json({"widths": rows, "steps": arguments.steps, "train": len(data.train)})


if __name__ == "__main__":
    main()
