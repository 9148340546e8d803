"""The same samples for every contestant: written once, read in each one's process."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from benchmarks.steps.settings import StepSettings
from benchmarks.steps.synthetic import make_samples
from models.backbone import load_tokenizer
from models.formats.records import RasSample, read_records, write_records
from models.graph import graph_texts
from models.graph_encoder import GraphEncoderConfig
from models.graph_llm_config import GraphLLMConfig
from models.ras_processor import EncodedSample, RasProcessor
from models.sentence_encoder import FloatArray, load_sentence_encoder
from models.text_table import TextTable
from training.sampler import LengthGroupedSampler
from training.samples import TrainingSample
from training.train_ras import to_samples

SAMPLES_FILE = "samples.jsonl"
TABLE_FOLDER = "features"
# Room for a prompt that ends a triple beyond its target, in any tokenizer.
INPUT_LIMIT = 16_384


@dataclass(frozen=True)
class Workload:
    """Samples as text (for those who tokenise in the step) and as ids, with their graphs.

    `prompts` and `labels` are the texts whose ids `samples` holds; `features` [texts, d].
    """

    tokenizer: PreTrainedTokenizerBase
    prompts: list[str]
    labels: list[str]
    encoded: list[EncodedSample]
    samples: list[TrainingSample]
    table: TextTable

    @property
    def features(self) -> FloatArray:
        """Features of all node and predicate texts, [texts, d]."""
        return self.table.features

    @property
    def lengths(self) -> list[int]:
        """Tokens of each sample, label included."""
        return [sample.length for sample in self.samples]

    @property
    def prompt_lengths(self) -> list[int]:
        """Tokens of each prompt."""
        return [sample.labels_start for sample in self.samples]

    def batches(self, settings: StepSettings, grouped: bool) -> list[list[int]]:
        """Sample indices of every step, in the trainer's own order or in random order."""
        sampler = LengthGroupedSampler(
            self.lengths, settings.batch_size, settings.seed, group=grouped
        )
        order, size = list(sampler), settings.batch_size
        return [order[start : start + size] for start in range(0, len(order), size)]


def write_workload(folder: Path, settings: StepSettings) -> Workload:
    """Make the samples and embed their graphs' texts; every other process reads them."""
    processor = _processor(settings)

    def prompt_tokens(sample: RasSample) -> int:
        return len(processor.encode_prompt(sample.task, sample.prompt_history).input_ids)

    records = make_samples(settings, prompt_tokens)
    write_records(folder / SAMPLES_FILE, records)
    graphs = [graph for record in records for graph in processor.encode_sample(record).subgraphs]
    encoder = load_sentence_encoder(settings.encoder, device="cpu")
    TextTable.build(folder / TABLE_FOLDER, graph_texts(graphs), encoder)
    return read_workload(folder, settings)


def read_workload(folder: Path, settings: StepSettings) -> Workload:
    """What `write_workload` wrote, encoded as training encodes it."""
    processor = _processor(settings)
    records = list(read_records(folder / SAMPLES_FILE, RasSample))
    encoded = [processor.encode_sample(record) for record in records]
    table = TextTable(folder / TABLE_FOLDER)
    return Workload(
        tokenizer=processor.tokenizer,
        prompts=[processor.encode_prompt(r.task, r.prompt_history).text for r in records],
        labels=[record.label for record in records],
        encoded=encoded,
        samples=to_samples(encoded, table),
        table=table,
    )


def model_config(settings: StepSettings, feature_dim: int, graph: bool = True) -> GraphLLMConfig:
    """Our model with what all contestants share: LoRA of rank 8 on q and v, the graph's sizes."""
    sizes = GraphEncoderConfig(
        input_dim=feature_dim,
        hidden_dim=settings.graph_width,
        num_layers=settings.graph_layers,
        num_heads=settings.graph_heads,
        projector_dim=settings.projector_width,
    )
    return GraphLLMConfig(
        backbone=settings.backbone,
        graph=sizes if graph else None,
        encoder=settings.encoder,
        max_input_tokens=INPUT_LIMIT,
        max_output_tokens=INPUT_LIMIT,
    )


def summary(workload: Workload) -> dict[str, float]:
    """How long the prompts are, how many graphs come with them, and what tokenising them takes.

    Peers tokenise in the step and ours before the training, so that its seconds are theirs alone.
    """
    start = time.perf_counter()
    workload.tokenizer([*workload.prompts, *workload.labels], add_special_tokens=False)
    tokenising = time.perf_counter() - start
    lengths = np.array(workload.prompt_lengths)
    return {
        "samples": len(lengths),
        "prompt_tokens_min": int(lengths.min()),
        "prompt_tokens_mean": round(float(lengths.mean()), 1),
        "prompt_tokens_max": int(lengths.max()),
        "label_tokens_mean": round(float(np.mean([s.label_length for s in workload.samples])), 1),
        "tokenising_ms_per_sample": round(1000 * tokenising / len(lengths), 3),
        "subgraphs": sum(len(sample.subgraphs) for sample in workload.encoded),
    }


def _processor(settings: StepSettings) -> RasProcessor:
    return RasProcessor(load_tokenizer(settings.backbone), INPUT_LIMIT, INPUT_LIMIT)
