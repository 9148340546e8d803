"""Samples of an extractive reader: a question with a passage, and where its answer stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from training.recipe.collator import Batch, pad_right
from training.recipe.samples import TrainingSample

FILLING = -1
COUNTS, COUNTS_NOT = 0, -100


@dataclass(frozen=True, eq=False, kw_only=True)
class SpanSample(TrainingSample):
    """A question with a passage as ids.

    Attributes:
        labels_start: where the passage begins.
        spans: [S, 2] first and last token of every place that states the answer; (0, 0) for none.
    """

    spans: npt.NDArray[np.int32]

    @property
    def label_length(self) -> int:
        """One, since samples and no tokens count in the loss; none for what fills up a batch."""
        return int(self.labels_start < len(self.input_ids))

    @property
    def label_place(self) -> slice:
        """The answer's first place."""
        first, last = self.spans[0].tolist()
        return slice(first, last + 1)

    @property
    def described(self) -> bytes:
        """What tells the sample from others with the same ids."""
        return self.spans.tobytes()


def span_samples(encoded: Sequence[Mapping[str, Any]]) -> list[TrainingSample]:
    """Return what a `SpanProcessor` made of records as arrays."""
    return [
        SpanSample(
            sample_id=item["sample_id"],
            input_ids=np.asarray(item["input_ids"], dtype=np.int32),
            labels_start=item["labels_start"],
            spans=np.asarray(item["label_ids"], dtype=np.int32).reshape(-1, 2),
        )
        for item in encoded
    ]


class SpanCollator:
    """Pads samples and their spans on the right."""

    def __init__(self, pad_token_id: int) -> None:
        self.pad_token_id = pad_token_id

    def __call__(self, samples: Sequence[SpanSample]) -> Batch:
        """Return a batch as `SpanReader.forward` takes it, and `sample_ids`."""
        input_ids, mask = pad_right([s.input_ids for s in samples], self.pad_token_id)
        starts = np.fromiter((s.labels_start for s in samples), dtype=np.int64, count=len(samples))
        of_passage = mask & (np.arange(input_ids.shape[1]) >= starts[:, None])
        flat, _ = pad_right([s.spans.reshape(-1) for s in samples], FILLING)
        counts = [COUNTS if sample.label_length else COUNTS_NOT for sample in samples]
        return {
            "sample_ids": [sample.sample_id for sample in samples],
            "input_ids": torch.from_numpy(input_ids),
            "token_type_ids": torch.from_numpy(of_passage.astype(np.int64)),
            "attention_mask": torch.from_numpy(mask.astype(np.int64)),
            "spans": torch.from_numpy(flat).view(len(samples), -1, 2),
            "labels": torch.tensor(counts),
        }

    def graphs(self, samples: Sequence[TrainingSample]) -> None:
        """Return None: there are no graphs."""
        return None
