"""Passages and condition triplets as token ids (Tri-RAG eq. 4, 8)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers import PreTrainedTokenizerBase

from models.condition_extractor_config import Adaptation, ConditionExtractorConfig
from models.formats.conditions import ConditionTriplet, format_conditions
from models.formats.prompts import conditions_prompt
from models.formats.records import ConditionSample
from models.passage_processor import PassageProcessor


@dataclass(frozen=True)
class ConditionedPassage:
    """A passage and all condition triplets that it gives, in their order; `id` of the first."""

    id: str
    text: str
    triplets: list[ConditionTriplet] = field(default_factory=list)


def by_passage(samples: Iterable[ConditionSample]) -> list[ConditionedPassage]:
    """Join the records that share a text, in the order in which texts first come."""
    passages: dict[str, ConditionedPassage] = {}
    for sample in samples:
        passage = passages.setdefault(sample.text, ConditionedPassage(sample.id, sample.text))
        if sample.triplet not in passage.triplets:
            passage.triplets.append(sample.triplet)
    return list(passages.values())


class ConditionProcessor(PassageProcessor[ConditionTriplet]):
    """Turns passages and their condition triplets into ids for a condition extractor."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, config: ConditionExtractorConfig
    ) -> None:
        """Set the limits; a backbone that nothing was learned for is shown examples.

        Raises:
            ValueError: when the instruction alone is longer than the limit.
        """
        self.few_shot = config.adaptation == Adaptation.pretrained
        super().__init__(tokenizer, config.max_source_tokens, config.max_target_tokens)

    def prompt(self, text: str) -> str:
        """The passage, after an instruction with examples where nothing was learned."""
        return conditions_prompt(text, self.few_shot)

    def label(self, items: Sequence[ConditionTriplet]) -> str:
        """Triplets, one a line."""
        return format_conditions(items)

    def encode_sample(self, sample: ConditionedPassage) -> dict[str, Any]:
        """Encode a training sample, see `encode`. Raises LabelCutError."""
        return self.encode(sample.id, sample.text, sample.triplets)
