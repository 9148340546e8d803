"""Questions with a passage as ids of an encoder, and its positions back as spans of the passage."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from models.formats.reading import parse_reading, passage_of, question_of
from models.formats.records import InstructionSample
from models.processors.passages import LabelCutError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Tokens of a passage that two windows share, so that an answer stands whole in one of them.
OVERLAP = 64
NONE = (0, 0)
# A number with its groups of digits, or a word: a token may be a part of one, an answer is none.
_WORD = re.compile(r"\d+(?:[.,]\d+)+|\w+")


@dataclass(frozen=True)
class Window:
    """A part of a passage beside its question, as ids.

    offsets: of each token in the passage, (0, 0) outside it. pair: which of the pairs it is of.
    """

    pair: int
    input_ids: list[int]
    token_type_ids: list[int]
    offsets: list[tuple[int, int]]

    def text(self, passage: str, first: int, last: int) -> str:
        """Return the passage's text from a first to a last token, in whole words and numbers."""
        return whole_words(passage, self.offsets[first][0], self.offsets[last][1])

    def tokens(self, start: int, end: int) -> tuple[int, int] | None:
        """Return first and last token of a span of characters; None where it is not all here."""
        inside = [
            number
            for number, (left, right) in enumerate(self.offsets)
            if self.token_type_ids[number] == 1 and left < end and right > start
        ]
        if not inside or self.offsets[inside[0]][0] > start or self.offsets[inside[-1]][1] < end:
            return None
        return inside[0], inside[-1]


class SpanProcessor:
    """Turns questions and passages into ids, the same in training and serving."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_input_tokens: int = 384) -> None:
        """max_input_tokens: of question, passage and special tokens together.

        Raises:
            ValueError: a tokenizer without offsets.
        """
        if not tokenizer.is_fast:
            raise ValueError("a span reader needs a fast tokenizer, which knows each token's place")
        self.tokenizer = tokenizer
        # One that never cuts: whether a tokenizer cuts is a state of it, which threads share.
        self._whole = copy.deepcopy(tokenizer)
        self.max_input_tokens = max_input_tokens

    def windows(self, pairs: Sequence[tuple[str, str]], all_windows: bool = True) -> list[Window]:
        """Return the windows of questions and passages, in order; the first ones alone if asked.

        A question that would leave no room for its passage loses its end.
        """
        if not pairs:
            return []
        longest = self.max_input_tokens - OVERLAP - 32
        questions = [self._shortened(question, longest) for question, _ in pairs]
        encoded = self.tokenizer(
            questions,
            [passage for _, passage in pairs],
            truncation="only_second",
            max_length=self.max_input_tokens,
            stride=OVERLAP if all_windows else 0,
            return_overflowing_tokens=all_windows,
            return_offsets_mapping=True,
            return_token_type_ids=True,
        )
        owners = encoded.get("overflow_to_sample_mapping", range(len(pairs)))
        rows = zip(
            owners,
            encoded["input_ids"],
            encoded["token_type_ids"],
            encoded["offset_mapping"],
            strict=True,
        )
        return [Window(int(pair), ids, types, offsets) for pair, ids, types, offsets in rows]

    def batch(self, windows: Sequence[Window]) -> dict[str, Tensor]:
        """Return input_ids, token_type_ids and attention_mask [B, T], padded on the right."""
        return self.padded(
            [window.input_ids for window in windows], [window.token_type_ids for window in windows]
        )

    def padded(
        self, input_ids: Sequence[Sequence[int]], token_type_ids: Sequence[Sequence[int]]
    ) -> dict[str, Tensor]:
        """Return rows of ids and of their types as a batch, see `batch`."""
        width = max(map(len, input_ids))
        pad = int(self.tokenizer.pad_token_id)
        return {
            "input_ids": _filled(input_ids, width, pad),
            "token_type_ids": _filled(token_type_ids, width, 0),
            "attention_mask": _filled([[1] * len(row) for row in input_ids], width, 0),
        }

    def encode_sample(self, sample: InstructionSample) -> dict[str, Any]:
        """Encode a reader's training sample (task `read`).

        Returns:
            sample_id, input_ids, labels_start (where the passage begins), and label_ids: first and
            last tokens of all places that state an answer, [0, 0] for none.

        Raises:
            LabelCutError: naming the sample, where no answer stands in what is read of the passage.
        """
        question, passage = question_of(sample.prompt), passage_of(sample.prompt)
        [window] = self.windows([(question, passage)], all_windows=False)
        answers = parse_reading(sample.label).answers
        found = [
            tokens
            for answer in answers
            for start, end in occurrences(passage, answer)
            if (tokens := window.tokens(start, end)) is not None
        ]
        if answers and not found:
            raise LabelCutError(
                sample.id, len(window.input_ids) + 1, self.max_input_tokens, "max_input_tokens"
            )
        return {
            "sample_id": sample.id,
            "dropped_items": 0,
            "input_ids": window.input_ids,
            "labels_start": window.token_type_ids.index(1),
            "label_ids": [place for tokens in found or [NONE] for place in tokens],
        }

    def _shortened(self, question: str, longest: int) -> str:
        offsets = self._whole(question, add_special_tokens=False, return_offsets_mapping=True)[
            "offset_mapping"
        ]
        return question if len(offsets) <= longest else question[: offsets[longest - 1][1]]


def whole_words(passage: str, start: int, end: int) -> str:
    """Return a span of a passage with the rest of the words and numbers that it cuts."""
    cut = [m.span() for m in _WORD.finditer(passage) if m.start() < end and m.end() > start]
    starts, ends = [start, *(left for left, _ in cut)], [end, *(right for _, right in cut)]
    return passage[min(starts) : max(ends)]


def occurrences(passage: str, answer: str) -> list[tuple[int, int]]:
    """Return where an answer stands in a passage as whole words, letters' case aside."""
    pattern = rf"(?<!\w){re.escape(answer)}(?!\w)"
    return [match.span() for match in re.finditer(pattern, passage, re.IGNORECASE)]


def _filled(rows: Sequence[Sequence[int]], width: int, value: int) -> Tensor:
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])
