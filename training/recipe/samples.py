"""Samples read, encoded once ahead of the training, and counted."""

import hashlib
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset
from tqdm import tqdm

from common.errors import UserError
from models.formats.records import Record, RecordError, read_records
from models.parts.graph import EncodedGraphs
from models.parts.loss import IGNORE_INDEX
from models.processors.passages import LabelCutError

FILLING_ID = "(filling)"
logger = logging.getLogger(__name__)
RecordT = TypeVar("RecordT", bound=Record)
# What a sample is made from: a record, or what several records were joined to.
SourceT = TypeVar("SourceT")


class CutLabelsError(UserError, ValueError):
    """Samples whose label does not fit, found before the training starts."""

    def __init__(self, sample_ids: Sequence[str], shown: int = 20) -> None:
        self.sample_ids = list(sample_ids)
        listed = ", ".join(self.sample_ids[:shown])
        rest = f" and {len(sample_ids) - shown} more" if len(sample_ids) > shown else ""
        super().__init__(
            f"the label is cut away in {len(sample_ids)} samples: {listed}{rest}. Raise "
            "model.max_input_tokens or model.max_output_tokens, or set "
            "data.skip_cut_labels=true to leave them out."
        )


class EmptyDataError(UserError, ValueError):
    """A data file without a usable sample; the message names it."""


@dataclass(frozen=True, eq=False)
class TrainingSample:
    """One sample as ids.

    Attributes:
        sample_id: the record's id, for error messages.
        input_ids: [T]; causal: prompt and label, encoder-decoder: the source.
        labels_start: where the label begins in `input_ids` (causal).
        label_ids: the target of an encoder-decoder model, otherwise None.
        graphs: the sample's sub-graphs, otherwise None.
    """

    sample_id: str
    input_ids: npt.NDArray[np.int32]
    labels_start: int
    label_ids: npt.NDArray[np.int32] | None = None
    graphs: EncodedGraphs | None = None

    @property
    def length(self) -> int:
        """Tokens that the model works through."""
        return len(self.input_ids) + (0 if self.label_ids is None else len(self.label_ids))

    @property
    def prompt_ids(self) -> list[int]:
        """Ids before the label."""
        return list(self.input_ids[: self.labels_start].tolist())

    @property
    def label_length(self) -> int:
        """Tokens that count in the loss."""
        if self.label_ids is not None:
            return len(self.label_ids)
        return len(self.input_ids) - self.labels_start

    @property
    def label_place(self) -> slice:
        """Where the label stands among the ids that are shown, `input_ids` and `label_ids`."""
        return slice(len(self.input_ids) if self.label_ids is not None else self.labels_start, None)

    @property
    def filling(self) -> "TrainingSample":
        """The sample without its label."""
        if self.label_ids is None:
            return replace(self, sample_id=FILLING_ID, labels_start=len(self.input_ids))
        ignored = np.full(1, IGNORE_INDEX, dtype=np.int32)
        return replace(self, sample_id=FILLING_ID, label_ids=ignored)

    @property
    def described(self) -> bytes:
        """What tells the sample from others with the same ids and start of the label."""
        return b"" if self.label_ids is None else self.label_ids.tobytes()


@dataclass(frozen=True)
class SampleSet(Dataset[TrainingSample], Generic[SourceT]):
    """Encoded samples beside the records that they were made from, and what was left out."""

    records: list[SourceT]
    samples: list[TrainingSample]
    cut_label_ids: list[str]
    bad_records: int = 0

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> TrainingSample:
        """The sample; for the index after the last, one without a label, to fill up a batch."""
        return self.filling if index == len(self.samples) else self.samples[index]

    @cached_property
    def filling(self) -> TrainingSample:
        """The shortest sample without its label: it adds nothing to loss and gradient."""
        return min(self.samples, key=lambda sample: sample.length).filling

    @property
    def lengths(self) -> list[int]:
        """Tokens of each sample."""
        return [sample.length for sample in self.samples]

    @property
    def label_tokens(self) -> int:
        """Tokens that count in the loss, over all samples."""
        return sum(sample.label_length for sample in self.samples)


def read_samples(
    path: str, record_type: type[RecordT], limit: int, seed: int, skip_bad: bool
) -> tuple[list[RecordT], int]:
    """Read a JSON Lines file and keep `limit` records (0: all), chosen by `seed`.

    Returns:
        The records and how many broken ones were skipped.

    Raises:
        RecordError: a record breaks its contract and `skip_bad` is false.
        FileNotFoundError: no such file.
        ValueError: the file holds no record.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file of samples")
    errors: list[RecordError] = []
    records = list(read_records(path, record_type, errors.append if skip_bad else None))
    for error in errors[:5]:
        logger.warning("skipped: %s", error)
    if not records:
        raise EmptyDataError(f"{path}: holds no sample ({len(errors)} broken ones skipped)")
    if 0 < limit < len(records):
        records = random.Random(seed).sample(records, limit)
    return records, len(errors)


def encode_samples(
    records: Sequence[SourceT],
    encode: Callable[[SourceT], Any],
    skip_cut_labels: bool,
    show_progress: bool = False,
) -> tuple[list[SourceT], list[Any], list[str]]:
    """Encode every record once, on all processors: a tokenizer holds no lock while it works.

    Returns:
        The records kept, what `encode` made of them, and the ids of those left out.

    Raises:
        CutLabelsError: labels do not fit and `skip_cut_labels` is false; lists the sample ids.
    """
    kept: list[SourceT] = []
    encoded: list[Any] = []
    cut: list[str] = []

    def try_to_encode(record: SourceT) -> Any:
        try:
            return encode(record)
        except LabelCutError as error:
            return error

    # The first alone, for it may set the tokenizer's options, which no other may read meanwhile.
    first = map(try_to_encode, records[:1])
    with ThreadPoolExecutor() as threads:
        results = chain(first, threads.map(try_to_encode, records[1:]))
        shown = tqdm(
            zip(records, results, strict=True), "encoding", len(records),
            unit=" samples", disable=not show_progress,
        )  # fmt: skip
        for record, result in shown:
            if isinstance(result, LabelCutError):
                cut.append(result.sample_id)
            else:
                kept.append(record)
                encoded.append(result)
    if cut and (not skip_cut_labels or not kept):
        raise CutLabelsError(cut)
    return kept, encoded, cut


def passage_samples(encoded: Sequence[Mapping[str, Any]]) -> list[TrainingSample]:
    """Return what a `PassageProcessor` made of records as arrays."""
    return [
        TrainingSample(
            sample_id=item["sample_id"],
            input_ids=np.asarray(item["input_ids"], dtype=np.int32),
            labels_start=item.get("labels_start", len(item["input_ids"])),
            label_ids=(
                np.asarray(item["label_ids"], dtype=np.int32) if "label_ids" in item else None
            ),
        )
        for item in encoded
    ]


def choose(count: int, limit: int, seed: int) -> list[int]:
    """At most `limit` of `count` positions, ascending, the same ones for the same seed."""
    return sorted(random.Random(seed).sample(range(count), min(count, limit)))


def data_hash(data: SampleSet[Any]) -> str:
    """A short hash of the samples' ids and tokens, in their order."""
    digest = hashlib.sha256()
    for sample in data.samples:
        digest.update(f"{sample.sample_id}\n{sample.labels_start}\n".encode())
        digest.update(sample.input_ids.tobytes())
        digest.update(sample.described)
    return digest.hexdigest()[:16]
