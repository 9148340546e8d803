"""One prompt, one label: repeats are dropped, contradictions are refused."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

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


@dataclass(frozen=True)
class CheckedSamples(Generic[SampleT]):
    """Samples with distinct prompts, and how many were dropped for which reason."""

    samples: list[SampleT]
    repeats: int
    contradictions: int


def sample_prompt(sample: RasSample | InstructionSample) -> str:
    """The prompt text that the sample's model reads."""
    if isinstance(sample, InstructionSample):
        return sample.prompt
    if sample.task == "plan":
        return plan_prompt(sample.prompt_history)
    return answer_prompt(sample.prompt_history)


def check_labels(samples: Iterable[SampleT], drop_contradictions: bool) -> CheckedSamples[SampleT]:
    """Drop samples whose prompt came before with the same label.

    Raises ContradictoryLabelsError when a prompt has two labels; with `drop_contradictions` the
    later sample is dropped and counted instead.
    """
    first_of: dict[str, SampleT] = {}
    repeats = contradictions = 0
    for sample in samples:
        first = first_of.setdefault(sample_prompt(sample), sample)
        if first is sample:
            continue
        if first.label == sample.label:
            repeats += 1
        elif drop_contradictions:
            contradictions += 1
        else:
            raise ContradictoryLabelsError(first, sample)
    return CheckedSamples(list(first_of.values()), repeats, contradictions)
