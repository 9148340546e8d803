"""An engine and an encoder without a model, with errors on demand, to test control flow."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence

import numpy as np

from inference.engines.contract import Completion, Health, Request
from models.files.sentence_encoder import (
    FloatArray,
    HashEncoder,
    SentenceEncoder,
    load_sentence_encoder,
)

Script = Callable[[Request], str]
_OPPOSITES = {
    "[SUFFICIENT]": "[NO_RETRIEVAL]",
    "[NO_RETRIEVAL]": "[SUFFICIENT]",
    "enough": "? | ? | ?",
    "yes": "no",
    "no": "yes",
}
WIDE_HASH = "wide-hash"


def prompt_text(request: Request, decode: Callable[[list[int]], str] | None = None) -> str:
    """Return what a request asks, as text: of its prompt, its messages or its ids.

    decode: turns ids into text; needed for requests that are ids.
    """
    if request.messages is not None:
        return "\n\n".join(message["content"] for message in request.messages)
    if request.input_ids is not None and decode is not None:
        return decode(list(request.input_ids))
    return request.prompt or ""


class ScriptedEngine:
    """Answers each request with `script(request)`; counts words as tokens.

    requests: all that came, in order. most_at_once: how many requests waited at the same time. As
    an engine promises, a text ends before the first of the request's stop strings.
    """

    def __init__(self, script: Script, gives_way: bool = False, gathers: int = 0) -> None:
        """gives_way: lets other coroutines bring their requests first, as a busy engine does.

        gathers: the first requests wait until so many have come, however long the threads take
        that the loop has between them.
        """
        self.script = script
        self.gives_way = gives_way
        self.gathers = gathers
        self._gathered = asyncio.Event()
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._waiting = 0

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion for each request; an exception of the script passes through."""
        self.requests += requests
        self._waiting += len(requests)
        self.most_at_once = max(self.most_at_once, self._waiting)
        if self._waiting >= self.gathers:
            self._gathered.set()
        try:
            if not self._gathered.is_set():
                await asyncio.wait_for(self._gathered.wait(), timeout=60)
            completions = [self._complete(request) for request in requests]
            if self.gives_way:
                await asyncio.sleep(0)
            return completions
        finally:
            self._waiting -= len(requests)

    def _complete(self, request: Request) -> Completion:
        text = self.script(request)
        for stop in request.sampling.stop:
            text = text.split(stop)[0]
        if request.on_text is not None:
            for word in re.findall(r"\s*\S+\s*?", text):
                request.on_text(word)
        read = self.count_tokens(prompt_text(request)) or len(request.input_ids or ())
        return Completion(text, (), read, len(text.split()), "stop")

    async def health(self) -> Health:
        """Always well."""
        return Health(True)

    async def close(self) -> None:
        """Nothing to stop."""

    def count_tokens(self, text: str) -> int:
        """Return words."""
        return len(text.split())


class Spoiler:
    """Makes a good output wrong (well formed, with another name in it) or malformed."""

    def __init__(self, names: Sequence[str]) -> None:
        """names: what a wrong output says in place of the right name."""
        self.names = sorted(set(names))
        longest_first = sorted(self.names, key=len, reverse=True)
        self._name = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")

    def wrong(self, text: str, draw: random.Random) -> str:
        """Return the text with one name, or its one word, replaced by another."""
        if text in _OPPOSITES:
            return _OPPOSITES[text]
        places = list(self._name.finditer(text))
        other = draw.choice(self.names)
        if not places:
            return other
        place = draw.choice(places)
        return text[: place.start()] + other + text[place.end() :]

    def malformed(self, text: str, draw: random.Random) -> str:
        """Return what a model that lost its way writes in place of the text."""
        forms = (
            "",
            text[: len(text) // 2],
            "I'm sorry, but the information given does not allow me to say.",
            text.replace("|", ",").replace("[", "").replace(":", " -"),
            f"{text} | " * 40,
            "\x00)( | S> ?? | (S> (S> || [SUBQ",
            "我不知道。 Не знаю | нет",
            '```json\n{"answer": null, "triples": [["a", "b"]]}\n```',
        )
        return draw.choice(forms)

    def spoil(self, text: str, draw: random.Random) -> str:
        """Wrong or malformed, with even chances."""
        return (self.wrong if draw.random() < 0.5 else self.malformed)(text, draw)


class WideHashEncoder(HashEncoder):
    """`HashEncoder` with room for every feature; good enough to find what shares words."""

    name = WIDE_HASH
    dimension = 1024
    fingerprint = "1024-hash-1"


class RememberingEncoder(SentenceEncoder):
    """An encoder that keeps every text's vector: the same world is indexed and asked many times."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder
        self.name, self.dimension = encoder.name, encoder.dimension
        self._known: dict[str, FloatArray] = {}

    @property
    def fingerprint(self) -> str:
        """That of the encoder within: the vectors are the same."""
        return self.encoder.fingerprint

    def _embed(self, texts: list[str], batch_size: int) -> FloatArray:
        new = [text for text in texts if text not in self._known]
        self._known.update(zip(new, self.encoder.encode(new, batch_size), strict=True))
        return np.stack([self._known[text] for text in texts])


def open_encoder(name: str) -> RememberingEncoder:
    """Return the encoder of this name, `wide-hash` too."""
    return RememberingEncoder(
        WideHashEncoder() if name == WIDE_HASH else load_sentence_encoder(name)
    )
