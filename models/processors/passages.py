"""Passages and prompts with their labels as token ids: the same in training and serving."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from common.errors import UserError
from models.facts.grounding import sentence_ends
from models.formats.conditions import ConditionTriplet, format_conditions
from models.formats.prompts import conditions_prompt, triples_prompt
from models.formats.records import ConditionSample, InstructionSample, TriplesSample
from models.formats.triples import Triple, format_triples

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ItemT = TypeVar("ItemT")


def text_ids(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    split_special_tokens: bool = False,
    add_special_tokens: bool = False,
) -> list[int]:
    """Return the ids of a text.

    split_special_tokens: read a special token's name as text, as in all that components are trained
    on. add_special_tokens: the tokenizer's own, which encoder-decoder models read.
    """
    encoded = tokenizer(
        text,
        add_special_tokens=add_special_tokens,
        split_special_tokens=split_special_tokens,
        verbose=False,
    )
    return list(encoded["input_ids"])


class LabelCutError(ValueError):
    """A sample's label does not fit whole; training on a part of it would teach a broken form."""

    def __init__(self, sample_id: str, label_tokens: int, limit: int, setting: str) -> None:
        self.sample_id = sample_id
        super().__init__(
            f"sample '{sample_id}': its label needs {label_tokens} tokens and {setting} leaves "
            f"room for {limit}. Raise {setting} or leave the sample out."
        )


class InputLimitError(UserError, ValueError):
    """A prompt's limit that the instruction alone reaches: no passage would fit."""

    def __init__(self, limit: int, instruction_tokens: int) -> None:
        super().__init__(
            f"max_input_tokens is {limit}, and the instruction alone takes {instruction_tokens} "
            f"tokens. Set it to {instruction_tokens + 1} at least."
        )


@dataclass(frozen=True)
class PassagePrompt:
    """A prompt's ids, and how many characters of the passage did not fit."""

    input_ids: list[int]
    cut_characters: int


class PassageProcessor(ABC, Generic[ItemT]):
    """Turns passages and a list of items to write about each into ids.

    A causal model reads `[BOS] prompt` and continues with `label EOS`, each tokenised alone, so
    that a prompt has the same ids in training and in serving. An encoder-decoder model reads and
    writes with its tokenizer's own special tokens.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_input_tokens: int = 512,
        max_output_tokens: int = 256,
        is_encoder_decoder: bool = False,
    ) -> None:
        """Set the limits, in tokens, special tokens included (RAS App. D.1: 512 and 256).

        Raises:
            InputLimitError: when the instruction alone fills `max_input_tokens`.
            ValueError: when the tokenizer has no EOS token.
        """
        self.tokenizer = tokenizer
        self.max_input_tokens = max_input_tokens
        self.max_output_tokens = max_output_tokens
        self.is_encoder_decoder = is_encoder_decoder
        if tokenizer.eos_token_id is None:
            raise ValueError("the tokenizer has no EOS token, so a model could not learn to stop.")
        shortest = len(self._prompt_ids(""))
        if shortest >= max_input_tokens:
            raise InputLimitError(max_input_tokens, shortest)

    def encode_prompt(self, text: str) -> PassagePrompt:
        """Encode a passage; one that is too long loses its end, the instruction stays whole."""
        ids = self._prompt_ids(text)
        if len(ids) <= self.max_input_tokens:
            return PassagePrompt(ids, 0)
        kept = self._fitting_characters(text)
        return PassagePrompt(self._prompt_ids(text[:kept].rstrip()), len(text) - kept)

    @abstractmethod
    def prompt(self, text: str) -> str:
        """The instruction with the passage in it; the label follows."""

    @abstractmethod
    def label(self, items: Sequence[ItemT]) -> str:
        """The items as text."""

    def encode(self, sample_id: str, text: str, items: Sequence[ItemT]) -> dict[str, Any]:
        """Encode a training sample.

        Returns:
            sample_id; input_ids (causal: prompt, label and EOS; encoder-decoder: the source);
            labels_start, where the label begins in input_ids (causal), or label_ids
            (encoder-decoder); dropped_items, cut off the end of a label that was too long;
            cut_characters of the passage.

        Raises:
            LabelCutError: naming the sample, when not even its first item fits.
        """
        prompt = self.encode_prompt(text)
        label_ids, dropped = self._fitting_label(sample_id, items)
        encoded: dict[str, Any] = {
            "sample_id": sample_id,
            "dropped_items": dropped,
            "cut_characters": prompt.cut_characters,
        }
        if self.is_encoder_decoder:
            return {**encoded, "input_ids": prompt.input_ids, "label_ids": label_ids}
        return {
            **encoded,
            "input_ids": prompt.input_ids + label_ids,
            "labels_start": len(prompt.input_ids),
        }

    def decode(self, token_ids: list[int]) -> str:
        """Turn what a model wrote into text, special tokens left out."""
        text = self.tokenizer.decode(token_ids, skip_special_tokens=True)
        return str(text).strip()

    def _prompt_ids(self, text: str) -> list[int]:
        prompt = self.prompt(text)
        if self.is_encoder_decoder:
            return text_ids(self.tokenizer, prompt, True, add_special_tokens=True)
        bos = self.tokenizer.bos_token_id
        start = [] if bos is None else [int(bos)]
        return start + text_ids(self.tokenizer, prompt, split_special_tokens=True)

    def _fitting_characters(self, text: str) -> int:
        """Find by halving how many characters of a passage fit; works for any tokenizer."""
        fits, too_long = 0, len(text)
        while too_long - fits > 1:
            middle = (fits + too_long) // 2
            if len(self._prompt_ids(text[:middle].rstrip())) <= self.max_input_tokens:
                fits = middle
            else:
                too_long = middle
        return fits

    def _label_ids(self, items: Sequence[ItemT]) -> list[int]:
        label = self.label(items)
        if self.is_encoder_decoder:
            encoded = self.tokenizer(text_target=label, split_special_tokens=True)
            return list(encoded["input_ids"])
        ids = text_ids(self.tokenizer, label, split_special_tokens=True)
        return [*ids, int(self.tokenizer.eos_token_id)]

    def _fitting_label(self, sample_id: str, items: Sequence[ItemT]) -> tuple[list[int], int]:
        """Drop whole items from the end until the label fits, so that it stays well formed."""
        label_ids = self._label_ids(items)
        kept = len(items)
        while len(label_ids) > self.max_output_tokens:
            kept -= 1
            if kept < 1:
                raise LabelCutError(
                    sample_id, len(label_ids), self.max_output_tokens, "max_output_tokens"
                )
            label_ids = self._label_ids(items[:kept])
        return label_ids, len(items) - kept


class TextToTriplesProcessor(PassageProcessor[Triple]):
    """Turns passages and their triples into ids for a text-to-triples model."""

    def prompt(self, text: str) -> str:
        """The instruction and the passage."""
        return triples_prompt(text)

    def label(self, items: Sequence[Triple]) -> str:
        """Triples, joined by commas."""
        return format_triples(items)

    def encode_sample(self, sample: TriplesSample) -> dict[str, Any]:
        """Encode a training sample, see `encode`. Raises LabelCutError."""
        return self.encode(sample.id, sample.text, sample.triples)


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
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_input_tokens: int = 512,
        max_output_tokens: int = 256,
        few_shot: bool = False,
    ) -> None:
        """Set the limits; few_shot: show examples, for a backbone that nothing was learned for.

        Raises:
            InputLimitError: when the instruction alone fills `max_input_tokens`.
        """
        self.few_shot = few_shot
        super().__init__(tokenizer, max_input_tokens, max_output_tokens)

    def prompt(self, text: str) -> str:
        """The passage, after an instruction with examples where nothing was learned."""
        return conditions_prompt(text, self.few_shot)

    def label(self, items: Sequence[ConditionTriplet]) -> str:
        """Triplets, one a line."""
        return format_conditions(items)

    def encode_sample(self, sample: ConditionedPassage) -> dict[str, Any]:
        """Encode a training sample, see `encode`. Raises LabelCutError."""
        return self.encode(sample.id, sample.text, sample.triplets)


class InstructionProcessor(PassageProcessor[str]):
    """Turns whole prompts and their labels into ids for a helper.

    A prompt is lines, of which the passages are the long ones and the last says what to write. One
    that is too long loses the last sentences of its longest lines; a label is never cut.
    """

    def prompt(self, text: str) -> str:
        """The prompt as the helper's format made it."""
        return text

    def label(self, items: Sequence[str]) -> str:
        """The one text to write."""
        return "\n".join(items)

    def encode_prompt(self, text: str) -> PassagePrompt:
        """Encode a prompt as `fitted` gives it."""
        ids = self._prompt_ids(text)
        if len(ids) <= self.max_input_tokens:
            return PassagePrompt(ids, 0)
        kept = self.fitted(text)
        return PassagePrompt(self._prompt_ids(kept), len(text) - len(kept))

    def fitted(self, text: str) -> str:
        """Return a prompt within the limit; `cut_lines` at the greatest width that fits."""
        if self._fits(text):
            return text
        fits, too_wide = 0, max(map(len, text.split("\n")))
        while too_wide - fits > 1:
            middle = (fits + too_wide) // 2
            within = self._fits(cut_lines(text, middle))
            fits, too_wide = (middle, too_wide) if within else (fits, middle)
        return cut_lines(text, fits)

    def _fits(self, text: str) -> bool:
        return len(self._prompt_ids(text)) <= self.max_input_tokens

    def encode_sample(self, sample: InstructionSample) -> dict[str, Any]:
        """Encode a training sample, see `encode`. Raises LabelCutError."""
        return self.encode(sample.id, sample.prompt, [sample.label])


def cut_lines(text: str, width: int) -> str:
    """Return the text with no line wider than `width` characters, each cut behind a sentence.

    A line whose first sentence is wider is cut at the width; no white space is left at a cut.
    """
    return "\n".join(_cut_line(line, width) for line in text.split("\n"))


def _cut_line(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    kept = [line[:end].rstrip() for end in sentence_ends(line)]
    return max((part for part in kept if len(part) <= width), key=len, default="") or (
        line[:width].rstrip()
    )
