"""One prompt, one label: samples with distinct prompts, kept on disk, and those that contradict."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from common.errors import UserError
from data_gen.streaming.files import Spool
from data_gen.streaming.groups import FIRST, LEFT_OUT, OTHER, SAME, FirstByKey, text_key, text_value
from models.formats.prompts import answer_prompt, plan_prompt
from models.formats.records import InstructionSample, RasSample

SampleT = TypeVar("SampleT", RasSample, InstructionSample)


class ContradictoryLabelsError(UserError, ValueError):
    """Two samples with the same prompt and different labels."""

    def __init__(self, first: SampleT, second: SampleT) -> None:
        super().__init__(
            f"samples {first.id!r} and {second.id!r} have the same {first.task} prompt but labels "
            f"{first.label!r} and {second.label!r}. Remove one of the questions, or drop such "
            "samples with --skip-contradictions"
        )
        self.ids = (first.id, second.id)


def sample_prompt(sample: RasSample | InstructionSample) -> str:
    """Return the prompt text that the sample's model reads."""
    if isinstance(sample, InstructionSample):
        return sample.prompt
    if sample.task == "plan":
        return plan_prompt(sample.prompt_history)
    return answer_prompt(sample.prompt_history)


class LabelCheck:
    """Finds samples whose prompt came before, among any number of samples.

    Each takes 32 bytes in bucket files (`FirstByKey`); memory grows by the byte a sample that the
    verdicts are.
    """

    def __init__(self, folder: Path) -> None:
        self._prompts = FirstByKey(folder, "labels")

    def add(self, sample: RasSample | InstructionSample) -> None:
        """Take in the next sample."""
        self._prompts.add(text_key(sample_prompt(sample)), text_value(sample.label))

    def verdicts(self, chosen: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.uint8]:
        """Return a byte for each sample: FIRST of its prompt, SAME label as the first, or OTHER.

        chosen: which samples count at all (all); those that do not are LEFT_OUT.
        """
        return self._prompts.verdicts(chosen)

    @property
    def contradiction(self) -> tuple[int, int] | None:
        """After `verdicts`: the first sample with an OTHER label, and the one that it clashes with.

        Both are positions in the order of `add`, the earlier one first.
        """
        return self._prompts.first_clash


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

    def left_out(self) -> dict[str, int]:
        """Return what a card says of samples with a prompt that came before."""
        return {
            "prompts that came again": self.repeats,
            "contradictory samples dropped": self.contradictions,
        }

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
        """Return the samples whose prompt did not come before.

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
