"""Samples of a retriever as the trainer and the evaluator of sentence-transformers take them."""

import logging
import random
from collections.abc import Sequence

from datasets import Dataset
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

from common.errors import RecordError
from models.formats.records import read_records
from models.formats.retrieval import RetrievalSample
from training.recipe.settings import ConfigError

logger = logging.getLogger(__name__)
CUTS = (3, 5)


def read_samples(
    key: str, path: str, limit: int, seed: int, skip_bad: bool
) -> list[RetrievalSample]:
    """Return a file's samples, shuffled by seed, at most `limit` of them (0: all).

    key: of the recipe, for the message. Raises RecordError for one that breaks its contract,
    unless it is to be skipped, and ConfigError for a file without any.
    """
    skipped: list[RecordError] = []
    samples = list(read_records(path, RetrievalSample, skipped.append if skip_bad else None))
    if skipped:
        logger.warning("%s: %d records skipped, the first: %s", path, len(skipped), skipped[0])
    if not samples:
        raise ConfigError(
            f"{key}={path}: holds no sample. Build one with data_gen/build_retrieval.py"
        )
    random.Random(seed).shuffle(samples)
    return samples[: limit or None]


def training_rows(path: str, samples: Sequence[RetrievalSample], negatives: int) -> Dataset:
    """Return columns of texts: query, positive and, hardest first, so many negatives.

    A sample with fewer of its own shows them again, in turn. Raises ConfigError for one without
    any where some are wanted.
    """
    columns: dict[str, list[str]] = {"query": [], "positive": []}
    columns |= {f"negative_{number}": [] for number in range(negatives)}
    for sample in samples:
        if negatives and not sample.negatives:
            raise ConfigError(
                f"{path}: sample {sample.id!r} has no negatives, and train.negatives is "
                f"{negatives}. Add some to its field 'negatives', or set train.negatives=0"
            )
        columns["query"].append(sample.query)
        columns["positive"].append(sample.positive.written)
        for number in range(negatives):
            shown = sample.negatives[number % len(sample.negatives)]
            columns[f"negative_{number}"].append(shown.written)
    return Dataset.from_dict(columns)


def recall_evaluator(samples: Sequence[RetrievalSample]) -> InformationRetrievalEvaluator:
    """Return what measures recall at 3 and 5 of the samples' queries.

    All passages of all samples are searched; those of the same query are all wanted.
    """
    number_of: dict[str, str] = {}
    for sample in samples:
        for passage in (sample.positive, *sample.negatives):
            number_of.setdefault(passage.written, str(len(number_of)))
    wanted: dict[str, set[str]] = {}
    for sample in samples:
        wanted.setdefault(sample.query, set()).add(number_of[sample.positive.written])
    return InformationRetrievalEvaluator(
        queries={query: query for query in wanted},
        corpus={number: text for text, number in number_of.items()},
        relevant_docs=wanted,
        accuracy_at_k=[1],
        precision_recall_at_k=list(CUTS),
        mrr_at_k=[10],
        ndcg_at_k=[10],
        map_at_k=[10],
        write_csv=False,
    )
