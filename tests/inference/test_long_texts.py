"""Long texts: no text has fewer tokens than are said to be the fewest, and none holds the loop."""

import asyncio
import threading
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from inference.engines.contract import DeadlineExceededError
from inference.engines.long_texts import LONG_TEXT, TokenizerThread, least_tokens
from models.files.backbone import load_tokenizer
from tests.tiny import tiny_tokenizer


def fast(
    model: models.Model,
    normalizer: normalizers.Normalizer | None = None,
    pre_tokenizer: pre_tokenizers.PreTokenizer | None = None,
    added: AddedToken | None = None,
) -> PreTrainedTokenizerFast:
    """A tokenizer of these parts."""
    tokenizer = Tokenizer(model)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    if added is not None:
        tokenizer.add_tokens([added])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def numbered(tokens: list[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}


BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
FALLBACK = [f"<0x{byte:02X}>" for byte in range(256)]
SPACED = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])


def byte_pairs(**options: Any) -> models.BPE:
    """Pairs over single letters, with tokens of several of them."""
    tokens = ["<unk>", *FALLBACK, *"ab▁", "ab", "abab"]
    merges = [("a", "b"), ("ab", "ab")]
    return models.BPE(vocab=numbered(tokens), merges=merges, **options)


# As SmolLM2, without any byte missing, as Qwen (NFC), as Llama 2, and with a token for the unknown.
KNOWN: dict[str, PreTrainedTokenizerBase] = {
    "smollm2": load_tokenizer("smollm2"),
    "tiny": tiny_tokenizer(),
    "composed": fast(
        models.BPE(vocab=numbered(BYTES), merges=[]),
        normalizers.NFC(),
        pre_tokenizers.Sequence(
            [pre_tokenizers.Split(" ", "isolated"), pre_tokenizers.ByteLevel(use_regex=False)]
        ),
    ),
    "fallback": fast(byte_pairs(byte_fallback=True, unk_token="<unk>", fuse_unk=True), SPACED),
    "unknown": fast(byte_pairs(unk_token="<unk>")),
}
# White space, control characters, what NFC puts together, and runs of what has one token.
CHARACTERS = "ab  \n\x00\x06\x7fé\u0301\u0345\u0313α日🙂\U000e0041"
TEXTS = st.text(alphabet=CHARACTERS, max_size=40) | st.sampled_from(
    [" " * 300, "=" * 300, "ab" * 200, "\x06" * 90, "🙂" * 50, "\u03b1\u0313\u0301\u0345" * 30]
)


@pytest.mark.parametrize("name", KNOWN)
@given(text=TEXTS | st.text(max_size=20))
def test_no_text_has_fewer_tokens(name: str, text: str) -> None:
    tokenizer = KNOWN[name]
    least = least_tokens(tokenizer)
    assert least is not None
    for split in (False, True):
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=split)["input_ids"]
        assert least.of(text) <= len(ids)


def test_the_fewest_tokens_are_counted_by_the_longest() -> None:
    least = least_tokens(KNOWN["smollm2"])
    assert least is not None
    assert least.of("x" * 81 * 9) == 9 == least.of("x" * 81 * 9 + "\x06" * 500)
    assert least.of("") == 0


def test_nothing_decomposes_into_more_than_nfc_composes() -> None:
    assert max(len(unicodedata.normalize("NFD", chr(code))) for code in range(0x110000)) == 4


@pytest.mark.parametrize(
    "tokenizer",
    [
        fast(byte_pairs(unk_token="<unk>", fuse_unk=True)),
        fast(byte_pairs()),
        fast(models.BPE(vocab=numbered(BYTES[:99]), merges=[]), None, pre_tokenizers.ByteLevel()),
        fast(models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0, False)),
        fast(models.WordPiece(numbered(["[UNK]", "a"]), unk_token="[UNK]")),
        fast(byte_pairs(byte_fallback=True), normalizers.Strip()),
        fast(byte_pairs(byte_fallback=True), normalizers.Replace("  ", " ")),
        fast(byte_pairs(byte_fallback=True), None, pre_tokenizers.WhitespaceSplit()),
        fast(byte_pairs(byte_fallback=True), None, pre_tokenizers.Split(" ", "removed")),
        fast(byte_pairs(byte_fallback=True), added=AddedToken("<mask>", lstrip=True)),
    ],
)
def test_a_tokenizer_that_may_make_one_token_of_any_text_is_known(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    assert least_tokens(tokenizer) is None


async def test_a_long_text_does_not_hold_the_event_loop() -> None:
    thread, tokenizer, go_on = TokenizerThread(), tiny_tokenizer(), threading.Event()
    seen: list[PreTrainedTokenizerBase] = []

    def work(given: PreTrainedTokenizerBase) -> list[int]:
        seen.append(given)
        assert go_on.wait(300)
        return list(given("a text")["input_ids"])

    first = asyncio.create_task(thread.run(tokenizer, LONG_TEXT + 1, work))
    second = asyncio.create_task(thread.run(tokenizer, LONG_TEXT + 1, work))
    await asyncio.sleep(0)
    # The loop goes on, and so do short texts.
    assert await thread.run(tokenizer, 1, lambda given: given) is tokenizer
    go_on.set()
    assert await first == await second == tokenizer("a text")["input_ids"]
    # One that is at work is no other's, and is made once.
    assert seen[0] is seen[1] is not tokenizer


async def test_a_long_text_has_its_request_s_deadline() -> None:
    thread, go_on = TokenizerThread(), threading.Event()

    def work(given: PreTrainedTokenizerBase) -> bool:
        return go_on.wait(300)

    with pytest.raises(DeadlineExceededError, match=r"within 0\.01 seconds"):
        await thread.run(tiny_tokenizer(), LONG_TEXT + 1, work, 0.01)
    go_on.set()


async def test_many_short_texts_let_others_have_their_turn() -> None:
    thread, tokenizer, turns = TokenizerThread(), tiny_tokenizer(), 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    length: Callable[[PreTrainedTokenizerBase], int] = len
    for _ in range(40):
        await thread.run(tokenizer, LONG_TEXT // 10, length)
    assert turns == 3
    task.cancel()
