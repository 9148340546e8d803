"""Generated ids as the text that a completion carries."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase


def decode_ids(tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int]) -> str:
    """The text of ids, special tokens left out and spaces as they were generated."""
    return str(
        tokenizer.decode(
            list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
    )


def output_text(
    tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int], stop: Sequence[str]
) -> str:
    """The text of ids, cut before the first of the stop strings."""
    text = decode_ids(tokenizer, token_ids)
    ends = [text.find(string) for string in stop if string in text]
    return text[: min(ends)] if ends else text
