"""Drawn calls as training samples: the ids that were drawn, and their batches with outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from models.parts.loss import IGNORE_INDEX
from models.parts.objective import Outcomes
from training.recipe.collator import Batch, Collator
from training.recipe.drawn import DrawnCall, DrawnPair
from training.recipe.samples import FILLING_ID, TrainingSample


@dataclass(frozen=True, eq=False, kw_only=True)
class DrawnSample(TrainingSample):
    """A call's prompt and the tokens that were drawn, never tokenised again.

    Attributes:
        advantage, anchored: see `DrawnCall`.
        logprobs: [label tokens] of each token when it was drawn.
        worse: the other one of a pair.
    """

    advantage: float
    anchored: bool
    logprobs: npt.NDArray[np.float32]
    worse: DrawnSample | None = None

    @property
    def length(self) -> int:
        """Tokens that the model works through."""
        return len(self.input_ids) + (self.worse.length if self.worse else 0)

    @property
    def described(self) -> bytes:
        """What tells the sample from others with the same ids."""
        own = np.array([self.advantage, self.anchored]).tobytes() + self.logprobs.tobytes()
        worse = self.worse
        return own + (worse.input_ids.tobytes() + worse.described if worse else b"")

    @property
    def filling(self) -> DrawnSample:
        """This sample without its label: it adds nothing to loss and gradient."""
        return replace(
            self,
            sample_id=FILLING_ID,
            labels_start=len(self.input_ids),
            logprobs=self.logprobs[:0],
            worse=self.worse and self.worse.filling,
        )

    @property
    def rows(self) -> list[DrawnSample]:
        """The rows of a batch that it is: itself, and the worse one behind it."""
        return [self, self.worse] if self.worse else [self]


def drawn_samples(
    items: Sequence[DrawnCall] | Sequence[DrawnPair], plain: Sequence[TrainingSample]
) -> list[TrainingSample]:
    """Join drawn calls with their ids and graphs.

    plain: a sample a call, those of a pair one after the other.
    """
    calls = [call for item in items for call in calls_of(item)]
    made = [_drawn(call, sample) for call, sample in zip(calls, plain, strict=True)]
    if not items or isinstance(items[0], DrawnCall):
        return list(made)
    pairs = zip(made[::2], made[1::2], strict=True)
    return [replace(better, worse=worse) for better, worse in pairs]


def calls_of(item: DrawnCall | DrawnPair) -> list[DrawnCall]:
    """Return the calls of an item, the better one of a pair first."""
    return [item] if isinstance(item, DrawnCall) else [item.better, item.worse]


def _drawn(drawn: DrawnCall, sample: TrainingSample) -> DrawnSample:
    return DrawnSample(
        sample_id=sample.sample_id,
        input_ids=sample.input_ids,
        labels_start=sample.labels_start,
        graphs=sample.graphs,
        advantage=drawn.advantage,
        anchored=drawn.anchored,
        logprobs=np.asarray(drawn.call.logprobs, dtype=np.float32),
    )


class DrawnCollator:
    """Batches of drawn samples: a plain collator's, with `outcomes`; pairs in two rows each."""

    def __init__(self, plain: Collator) -> None:
        self.plain = plain

    def __call__(self, samples: Sequence[DrawnSample]) -> Batch:
        """Return a batch; `sample_ids` has one a row."""
        rows = [row for sample in samples for row in sample.rows]
        batch = self.plain(rows)
        labels = batch["labels"].numpy()
        logprobs = np.zeros(labels.shape, dtype=np.float32)
        drawn = [row.logprobs for row in rows]
        logprobs[labels != IGNORE_INDEX] = np.concatenate(drawn)
        batch["outcomes"] = Outcomes(
            torch.tensor([row.advantage for row in rows], dtype=torch.float32),
            torch.from_numpy(logprobs),
            torch.tensor([float(row.anchored) for row in rows]),
        )
        return batch
