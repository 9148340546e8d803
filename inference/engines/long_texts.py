"""Texts that take long to tokenise: how few tokens they can have, and their ids made in a thread.

A tokenizer takes about 0.7 seconds a million characters, for which an event loop would stand.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from tokenizers.pre_tokenizers import ByteLevel

from inference.engines.contract import DeadlineExceededError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ResultT = TypeVar("ResultT")

# Characters; fewer are tokenised in the event loop.
LONG_TEXT = 100_000
# NFC makes one character of so many at most: none decomposes into more (Unicode Annex #15).
COMPOSED = 4
ASCII = 128
CONTINUATION_BYTES = range(0x80, 0xC0)


@dataclass(frozen=True)
class LeastTokens:
    """The fewest tokens that a tokenizer can make of a text.

    longest: most characters of a text in one token. untold: characters that become no token.
    """

    longest: int
    untold: str

    def of(self, text: str) -> int:
        """Return a number of tokens that no text of so many characters falls short of."""
        told = len(text) - sum(map(text.count, self.untold))
        return -(-told // self.longest)


# It takes a third of a second to find out, of a tokenizer that several components share.
_FOUND: WeakKeyDictionary[PreTrainedTokenizerBase, LeastTokens | None] = WeakKeyDictionary()


def least_tokens(tokenizer: PreTrainedTokenizerBase) -> LeastTokens | None:
    """Return the fewest tokens that a tokenizer makes; None where one may hold any text.

    Known for byte pairs alone: the others make one token of a run of unknown characters, of a long
    word or of white space.
    """
    if tokenizer not in _FOUND:
        _FOUND[tokenizer] = _least_tokens(tokenizer)
    return _FOUND[tokenizer]


def _least_tokens(tokenizer: PreTrainedTokenizerBase) -> LeastTokens | None:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    form = json.loads(backend.to_str())
    added = form["added_tokens"]
    untold = _untold(form)
    composed = _composed(form["normalizer"])
    if (
        untold is None
        or composed is None
        or not all(map(_keeps_characters, _parts(form["pre_tokenizer"], "pretokenizers")))
        # These take the white space beside them in.
        or any(token["lstrip"] or token["rstrip"] for token in added)
    ):
        return None
    tokens = [*form["model"]["vocab"], *(token["content"] for token in added)]
    return LeastTokens(composed * max(map(len, tokens)), untold)


def _untold(form: Mapping[str, Any]) -> str | None:
    """Return the characters that the model of byte pairs drops; None where it drops or joins more.

    A byte without a token is dropped, such as a control character that no training text had.
    """
    model = form["model"]
    if model["type"] != "BPE" or model["continuing_subword_prefix"] or model["end_of_word_suffix"]:
        return None
    known = model["vocab"]
    kinds = {part["type"] for part in _parts(form["pre_tokenizer"], "pretokenizers")}
    if "ByteLevel" in kinds:
        if not all(_byte_signs(chr(byte))[-1] in known for byte in CONTINUATION_BYTES):
            return None
        # Every other character has a continuation byte.
        return "".join(chr(code) for code in range(ASCII) if _byte_signs(chr(code)) not in known)
    if model["byte_fallback"] and all(f"<0x{byte:02X}>" in known for byte in range(256)):
        return ""
    return "" if model["unk_token"] in known and not model["fuse_unk"] else None


def _byte_signs(character: str) -> str:
    """Return the signs that stand for a character's bytes in a byte-level vocabulary."""
    [(signs, _)] = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(character)
    return signs


def _parts(component: Mapping[str, Any] | None, parts: str) -> Iterator[Mapping[str, Any]]:
    """Yield a component, or the members of a sequence of them, which stand under `parts`."""
    if component is None:
        return
    if component["type"] != "Sequence":
        yield component
        return
    for part in component[parts]:
        yield from _parts(part, parts)


def _composed(normalizer: Mapping[str, Any] | None) -> int | None:
    """Return of how many characters a normalizer makes one; None where it may be any number."""
    most = 1
    for part in _parts(normalizer, "normalizers"):
        if part["type"] == "NFC":
            most *= COMPOSED
        elif part["type"] == "Replace":
            replaced = part["pattern"].get("String")
            if replaced is None or len(part["content"]) < len(replaced):
                return None
        elif part["type"] != "Prepend":
            return None
    return most


def _keeps_characters(pre_tokenizer: Mapping[str, Any]) -> bool:
    if pre_tokenizer["type"] in ("Split", "Punctuation"):
        return bool(pre_tokenizer["behavior"] != "Removed")
    return pre_tokenizer["type"] in ("ByteLevel", "Digits", "Metaspace")


class TokenizerThread:
    """Tokenises long texts, one after another, in a thread that ends with this object."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenizer")
        # By the tokenizer's id, which is its own as long as it is kept here too.
        self._copies: dict[int, tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase]] = {}
        self._characters_in_turn = 0

    async def run(
        self,
        tokenizer: PreTrainedTokenizerBase,
        characters: int,
        work: Callable[[PreTrainedTokenizerBase], ResultT],
        deadline_seconds: float | None = None,
    ) -> ResultT:
        """Do work that tokenises so many characters: few in the event loop, many in the thread.

        work: gets the tokenizer, or a copy of it in the thread.

        Raises DeadlineExceededError where the thread takes longer; what the work raises.
        """
        if characters <= LONG_TEXT:
            self._characters_in_turn += characters
            if self._characters_in_turn > LONG_TEXT:
                # Many short texts are a long one to all others who wait for the loop.
                self._characters_in_turn = characters
                await asyncio.sleep(0)
            return work(tokenizer)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(deadline_seconds):
                return await loop.run_in_executor(self._thread, self._run, tokenizer, work)
        except TimeoutError:
            raise DeadlineExceededError(deadline_seconds) from None

    def _run(
        self,
        tokenizer: PreTrainedTokenizerBase,
        work: Callable[[PreTrainedTokenizerBase], ResultT],
    ) -> ResultT:
        # One that is at work keeps all who would set an option of it waiting, and so the event
        # loop, where the next short text is to be read with other special tokens.
        if id(tokenizer) not in self._copies:
            self._copies[id(tokenizer)] = (tokenizer, copy.deepcopy(tokenizer))
        return work(self._copies[id(tokenizer)][1])
