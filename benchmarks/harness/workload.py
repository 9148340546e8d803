"""The same samples for every contestant: made from a seed, written once, read by each process."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from benchmarks.harness.settings import StepSettings
from models.files.backbone import load_tokenizer
from models.files.sentence_encoder import FloatArray, load_sentence_encoder
from models.files.text_table import TextTable
from models.formats.planning import HistoryStep
from models.formats.records import RasSample, Task, read_records, write_records
from models.formats.triples import Triple
from models.graph_llm import GraphLLMConfig
from models.parts.graph import graph_texts
from models.parts.graph_encoder import GraphEncoderConfig
from models.processors.ras import EncodedSample, RasProcessor
from training.loop.sampler import LengthGroupedSampler
from training.recipe.graph_samples import graph_samples
from training.recipe.samples import TrainingSample

# Fewer triples a round than the loop keeps at most, more than it keeps at least.
TRIPLES_A_STEP = (4, 10)
SYLLABLES = (
    "ka", "lo", "mi", "ran", "tes", "vor", "el", "una", "dri", "sho", "bel", "gar", "ith", "mon",
    "pel", "quin", "sta", "tor",
)  # fmt: skip
PREDICATES = (
    "director", "place of birth", "spouse", "publisher", "member of", "located in", "author",
    "founded by", "genre", "capital of", "educated at", "record label", "child", "producer",
)  # fmt: skip
Measure = Callable[[RasSample], int]
SAMPLES_FILE = "samples.jsonl"
TABLE_FOLDER = "features"
# Room for a prompt that ends a triple beyond its target, in any tokenizer.
INPUT_LIMIT = 16_384


def target_lengths(settings: StepSettings) -> list[int]:
    """Prompt lengths in random order, spread evenly over the distribution's quantiles."""
    count = settings.batches * settings.batch_size
    low, high = settings.min_tokens, settings.max_tokens
    shares = [index / max(count - 1, 1) for index in range(count)]
    if settings.lengths == "uniform":
        lengths = [round(low + share * (high - low)) for share in shares]
    else:
        lengths = [round(low * (high / low) ** share) for share in shares]
    random.Random(settings.seed).shuffle(lengths)
    return lengths


def make_samples(settings: StepSettings, prompt_tokens: Measure) -> list[RasSample]:
    """Return one sample for each target length.

    Args:
        settings: sizes and seed.
        prompt_tokens: tokens of a sample's prompt.
    """
    rng = random.Random(settings.seed + 1)
    return [
        _sample(number, target, rng, prompt_tokens)
        for number, target in enumerate(target_lengths(settings))
    ]


def _sample(number: int, target: int, rng: random.Random, prompt_tokens: Measure) -> RasSample:
    """Return sample with the most triples whose prompt is no longer than `target`, at least one."""
    task: Task = "plan" if number % 2 else "answer"
    question = f"Who is the {rng.choice(PREDICATES)} of {_name(rng)}?"
    label = f"[SUBQ] Where was {_name(rng)} born?" if task == "plan" else _name(rng)
    identity = f"synthetic{number}/{'plan/0' if task == 'plan' else 'answer'}"
    # A triple takes more than four tokens, so these are more than enough.
    most = max(target // 4, 1)
    steps = _steps(most, rng)

    def with_triples(count: int) -> RasSample:
        return RasSample(identity, task, question, _first_triples(steps, count), label)

    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        fits = prompt_tokens(with_triples(middle)) <= target
        low, high = (middle, high) if fits else (low, middle - 1)
    return with_triples(low)


def _steps(triples: int, rng: random.Random) -> list[HistoryStep]:
    """Return a history of at least `triples` triples, every step about one new entity."""
    steps: list[HistoryStep] = []
    while triples > 0:
        subject = _name(rng)
        size = rng.randint(*TRIPLES_A_STEP)
        found = [Triple(subject, rng.choice(PREDICATES), _name(rng)) for _ in range(size)]
        steps.append(HistoryStep(f"What is known about {subject}?", tuple(found)))
        triples -= size
    return steps


def _first_triples(steps: list[HistoryStep], count: int) -> list[HistoryStep]:
    kept: list[HistoryStep] = []
    for step in steps:
        if count <= 0:
            break
        kept.append(HistoryStep(step.subquery, step.triples[:count]))
        count -= len(step.triples)
    return kept


def _name(rng: random.Random) -> str:
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(2, 3))) for _ in range(2)]
    return " ".join(word.capitalize() for word in words)


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
    """Return what `write_workload` wrote, encoded as training encodes it."""
    processor = _processor(settings)
    records = list(read_records(folder / SAMPLES_FILE, RasSample))
    encoded = [processor.encode_sample(record) for record in records]
    table = TextTable(folder / TABLE_FOLDER)
    return Workload(
        tokenizer=processor.tokenizer,
        prompts=[processor.encode_prompt(r.task, r.prompt_history).text for r in records],
        labels=[record.label for record in records],
        encoded=encoded,
        samples=graph_samples(encoded, table),
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
    """Return the length of prompts, the number of their graphs, and the cost of tokenising.

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
