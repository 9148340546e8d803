"""A helper's prompts and labels as token ids, the same in training and in serving."""

from collections.abc import Sequence
from typing import Any

from models.formats.records import InstructionSample
from models.passage_processor import PassageProcessor, PassagePrompt


class InstructionProcessor(PassageProcessor[str]):
    """Turns whole prompts and their labels into ids for a helper.

    A prompt is lines, of which the passages are the long ones and the last says what to write. One
    that is too long loses the ends of its longest lines; a label is never cut.
    """

    def prompt(self, text: str) -> str:
        """The prompt as the helper's format made it."""
        return text

    def label(self, items: Sequence[str]) -> str:
        """The one text to write."""
        return "\n".join(items)

    def encode_prompt(self, text: str) -> PassagePrompt:
        """Encode a prompt; lines are cut at the greatest common width that fits the limit."""
        ids = self._prompt_ids(text)
        if len(ids) <= self.max_source_tokens:
            return PassagePrompt(ids, 0)
        fits, too_wide = 0, max(map(len, text.split("\n")))
        while too_wide - fits > 1:
            middle = (fits + too_wide) // 2
            within = len(self._prompt_ids(cut_lines(text, middle))) <= self.max_source_tokens
            fits, too_wide = (middle, too_wide) if within else (fits, middle)
        kept = cut_lines(text, fits)
        return PassagePrompt(self._prompt_ids(kept), len(text) - len(kept))

    def encode_sample(self, sample: InstructionSample) -> dict[str, Any]:
        """Encode a training sample, see `encode`. Raises LabelCutError."""
        return self.encode(sample.id, sample.prompt, [sample.label])


def cut_lines(text: str, width: int) -> str:
    """The text with every line cut after `width` characters, without white space at the cut."""
    lines = text.split("\n")
    return "\n".join(line if len(line) <= width else line[:width].rstrip() for line in lines)
