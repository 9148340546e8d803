"""One prompt, one label: repeats are dropped, contradictions are refused."""

from collections.abc import Iterable
from dataclasses import dataclass

from models.formats.prompts import answer_prompt, plan_prompt
from models.formats.records import RasSample


class ContradictoryLabelsError(ValueError):
    """Two samples with the same prompt and different labels."""

    def __init__(self, first: RasSample, second: RasSample) -> None:
        super().__init__(
            f"samples {first.id!r} and {second.id!r} have the same {first.task} prompt but labels "
            f"{first.label!r} and {second.label!r}. Remove one of the questions, or drop such "
            "samples with --skip-contradictions"
        )
        self.ids = (first.id, second.id)


@dataclass(frozen=True)
class CheckedSamples:
    """Samples with distinct prompts, and how many were dropped for which reason."""

    samples: list[RasSample]
    repeats: int
    contradictions: int


def sample_prompt(sample: RasSample) -> str:
    """The prompt text that the sample's model reads."""
    if sample.task == "plan":
        return plan_prompt(sample.prompt_history)
    return answer_prompt(sample.prompt_history)


def check_labels(samples: Iterable[RasSample], drop_contradictions: bool) -> CheckedSamples:
    """Drop samples whose prompt came before with the same label.

    Raises ContradictoryLabelsError when a prompt has two labels; with `drop_contradictions` the
    later sample is dropped and counted instead.
    """
    first_of: dict[str, RasSample] = {}
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
