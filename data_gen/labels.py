"""One prompt, one label: which samples repeat an earlier one, and which contradict it."""

from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from data_gen.streaming.first_by_key import FirstByKey, text_key, text_value
from models.formats.prompts import answer_prompt, plan_prompt
from models.formats.records import InstructionSample, RasSample

SampleT = TypeVar("SampleT", RasSample, InstructionSample)


class ContradictoryLabelsError(ValueError):
    """Two samples with the same prompt and different labels."""

    def __init__(self, first: SampleT, second: SampleT) -> None:
        super().__init__(
            f"samples {first.id!r} and {second.id!r} have the same {first.task} prompt but labels "
            f"{first.label!r} and {second.label!r}. Remove one of the questions, or drop such "
            "samples with --skip-contradictions"
        )
        self.ids = (first.id, second.id)


def sample_prompt(sample: RasSample | InstructionSample) -> str:
    """The prompt text that the sample's model reads."""
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
        """One byte a sample: FIRST with its prompt, SAME label as the first, or OTHER label.

        chosen: which samples count at all (all); those that do not are LEFT_OUT.
        """
        return self._prompts.verdicts(chosen)

    @property
    def contradiction(self) -> tuple[int, int] | None:
        """After `verdicts`: the first sample with an OTHER label, and the one that it clashes with.

        Both are positions in the order of `add`, the earlier one first.
        """
        return self._prompts.first_clash
