"""The samples of a build with distinct prompts, kept on disk."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from data_gen.labels import ContradictoryLabelsError, LabelCheck
from data_gen.streaming.first_by_key import FIRST, LEFT_OUT, OTHER, SAME
from data_gen.streaming.spool import Spool
from models.formats.records import InstructionSample, RasSample


class CheckedSamples(Generic[SampleT]):
    """Samples with distinct prompts in the order of the build; they may be read more than once.

    repeats, contradictions, not_chosen: how many were left out for which reason.
    """

    def __init__(self, samples: Spool[SampleT], verdicts: npt.NDArray[np.uint8]) -> None:
        self._samples: Spool[SampleT] = samples
        self._verdicts = verdicts
        self.repeats = int((verdicts == SAME).sum())
        self.contradictions = int((verdicts == OTHER).sum())
        self.not_chosen = int((verdicts == LEFT_OUT).sum())

    def __len__(self) -> int:
        return int((self._verdicts == FIRST).sum())

    def __iter__(self) -> Iterator[SampleT]:
        for sample, verdict in zip(self._samples, self._verdicts, strict=True):
            if verdict == FIRST:
                yield sample


class SampleCheck(Generic[SampleT]):
    """Takes in samples, of any number: they lie in `work`, a few bytes of each in memory."""

    def __init__(self, work: Path, sample_type: type[SampleT]) -> None:
        self._samples: Spool[SampleT] = Spool(work / "samples", sample_type)
        self._labels = LabelCheck(work)

    def add(self, sample: SampleT) -> None:
        """Take in the next sample."""
        self._samples.add(sample)
        self._labels.add(sample)

    def checked(
        self, drop_contradictions: bool, chosen: npt.NDArray[np.bool_] | None = None
    ) -> CheckedSamples[SampleT]:
        """The samples whose prompt did not come before.

        chosen: which of them count at all (all). Raises ContradictoryLabelsError when a prompt has
        two labels; with `drop_contradictions` the later sample is left out and counted instead.
        """
        verdicts = self._labels.verdicts(chosen)
        clash = self._labels.contradiction
        if clash and not drop_contradictions:
            both = [sample for number, sample in enumerate(self._samples) if number in clash]
            raise ContradictoryLabelsError(*both)
        return CheckedSamples(self._samples, verdicts)


def check_labels(
    samples: Iterable[SampleT], drop_contradictions: bool, sample_type: type[SampleT], work: Path
) -> CheckedSamples[SampleT]:
    """`SampleCheck` over all of `samples`."""
    check = SampleCheck(work, sample_type)
    for sample in samples:
        check.add(sample)
    return check.checked(drop_contradictions)
