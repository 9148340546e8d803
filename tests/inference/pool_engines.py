"""Engines without a model for tests of a pool: what they do, the prompt says.

They are opened by their names in processes that Ray starts.
"""

import asyncio
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from inference.engines.contract import (
    Completion,
    DeadlineExceededError,
    EngineClosedError,
    EngineDiedError,
    EngineOptions,
    Health,
    InvalidRequestError,
    PromptTooLongError,
    Request,
    TransientError,
)
from models.files.checkpoint import TruncatedCheckpointError

# For what was written to be on its way.
PAUSE_SECONDS = 2.0
# What a prompt's first word asks for, beside the words that EchoEngine knows.
RAISED = {
    "invalid": InvalidRequestError("two prompts"),
    "long": PromptTooLongError("9 tokens, 8 fit"),
    "busy": TransientError("come again", 2.5, True),
    "late": DeadlineExceededError(0.25),
    "broken": RuntimeError("a defect"),
}


def die() -> None:
    """End this process as a crash does."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def first_time(path: str) -> bool:
    """Tell whether nobody has asked so before, on this machine."""
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class EchoEngine:
    """Answers `PID: PROMPT`, or the prompt alone word by word where someone listens."""

    def __init__(self, adapters: Mapping[str, str | Path]) -> None:
        self.adapters = adapters
        self.closed = asyncio.Event()
        self.running = 0

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Do what each prompt says."""
        return list(await asyncio.gather(*map(self._answer, requests)))

    async def _answer(self, request: Request) -> Completion:
        prompt = request.prompt or ""
        word, _, rest = prompt.partition(" ")
        self.running += 1
        try:
            if word in RAISED:
                raise RAISED[word]
            if word == "die" or (word == "die_once" and first_time(rest)):
                die()
            if word == "end_of_process" and first_time(rest):
                raise EngineDiedError("its own process ended")
            if word == "sleep":
                await self._sleep(float(rest))
            if word == "folder":
                prompt = str(self.adapters[rest])
            text = f"{os.getpid()}: {prompt}"
            if request.on_text is not None:
                text = prompt
                await self._write(request, prompt)
        finally:
            self.running -= 1
        return Completion(text, (), len(prompt), len(text), "stop")

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.closed.wait(), seconds)
        except TimeoutError:
            return
        raise EngineClosedError("closed in its sleep")

    async def _write(self, request: Request, text: str) -> None:
        assert request.on_text is not None
        for number, word in enumerate(text.split(" ")):
            if number == 3 and text.startswith("stutter ") and first_time(text.split(" ")[1]):
                await asyncio.sleep(PAUSE_SECONDS)
                die()
            # Another text at every trial.
            said = f"{os.getpid()}" if word == "PID" else word
            request.on_text(said if not number else f" {said}")
            await asyncio.sleep(0.01)

    async def health(self) -> Health:
        """Well, and as busy as it is."""
        return Health(True, running=self.running, seconds_since_progress=1.0)

    async def close(self) -> None:
        """End what sleeps."""
        self.closed.set()

    def count_tokens(self, text: str) -> int:
        """One a character."""
        return len(text)


def echo(
    options: EngineOptions, backbone: str | None, adapters: Mapping[str, str | Path]
) -> EchoEngine:
    """Open an engine that does what prompts say."""
    return EchoEngine(adapters)


def truncated(
    options: EngineOptions, backbone: str | None, adapters: Mapping[str, str | Path]
) -> EchoEngine:
    """Refuse a component."""
    raise TruncatedCheckpointError("a file is cut short. Copy it again")


def out_of_memory(
    options: EngineOptions, backbone: str | None, adapters: Mapping[str, str | Path]
) -> EchoEngine:
    """Die as it opens."""
    die()
    raise AssertionError
