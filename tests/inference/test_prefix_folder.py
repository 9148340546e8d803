"""A soft prompt's file for vLLM, in the user's cache: written once and whole; needs no vLLM."""

import asyncio
import errno
import multiprocessing
import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import torch
from safetensors.torch import load_file

from common.cache import CacheFolderError
from inference.engines.contract import (
    Completion,
    DeadlineExceededError,
    PromptTooLongError,
    Request,
)
from inference.engines.vllm import components
from inference.engines.vllm import engine as vllm_engine
from inference.engines.vllm.components import VLLMComponentLoader
from inference.engines.vllm.engine import Prepared, VLLMEngine
from models.condition_extractor import ConditionExtractorConfig
from tests.components import stirred_backbone, t2t_component, tri_rag_component

FORK = multiprocessing.get_context("fork")


class Prompt:
    """A component with a soft prompt, served from its backbone's folder."""

    def __init__(self, folder: Path) -> None:
        self.backbone = stirred_backbone(folder / "tiny")
        self.folder = tri_rag_component(folder / "tri_rag", self.backbone)

    def serve(self) -> Path:
        """The prompt's file, written where it is missing."""
        loader = VLLMComponentLoader(str(self.backbone), None)
        settings = ConditionExtractorConfig.read(self.folder)
        served = loader.prompted("x", self.folder, settings)
        assert served.prefix is not None
        return components.prefix_path(loader.prefix_folder, served.prefix)


@pytest.fixture
def prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prompt:
    monkeypatch.setenv("TRIVIUM_CACHE", str(tmp_path / "cache of Jörg"))
    return Prompt(tmp_path)


def prefixes() -> Path:
    return Path(os.environ["TRIVIUM_CACHE"]) / components.PREFIX_FOLDER


def test_a_killed_writer_leaves_nothing_for_good(prompt: Prompt) -> None:
    file = prompt.serve()
    left = prefixes() / f".{file.parent.name}.killed"
    file.parent.rename(left)
    assert prompt.serve() == file and load_file(file)
    assert not left.exists()
    assert {path.name for path in prefixes().iterdir()} == {
        file.parent.name, f"{file.parent.name}.lock"
    }  # fmt: skip


def test_processes_at_once_write_one(prompt: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    save, log = components.save_file, prompt.folder.parent / "log"

    def slow(*arguments: Any, **named: Any) -> None:
        with log.open("a") as written:
            written.write("one\n")
        time.sleep(0.5)
        save(*arguments, **named)

    monkeypatch.setattr(components, "save_file", slow)
    processes = [FORK.Process(target=prompt.serve) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert log.read_text() == "one\n" and load_file(prompt.serve())


@pytest.mark.parametrize(
    ("code", "said"), [(errno.ENOSPC, "is full"), (errno.EFBIG, "no file so large")]
)
def test_a_disk_that_takes_no_more_is_told(
    code: int, said: str, prompt: Prompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **named: Any) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(components, "save_file", refuse)
        with pytest.raises(CacheFolderError, match=f"{said}.*TRIVIUM_CACHE") as caught:
            prompt.serve()
    assert str(prefixes()) in str(caught.value)
    assert all(path.suffix == ".lock" for path in prefixes().iterdir())
    assert load_file(prompt.serve())


BOTH = Request(prompt="x", adapter="t2t", soft_prompt="soft")


class FakeProcess:
    """In the place of vLLM's."""

    def alive(self) -> bool:
        return True

    def release(self) -> None:
        """Nothing to end."""

    def seconds_since_progress(self) -> float | None:
        return None


class Pair:
    """An engine of an adapter and a soft prompt, whose prefix together is made behind a gate."""

    def __init__(self, prompt: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
        async def run(engine: VLLMEngine, process: Any, item: Prepared, ids: Any) -> Completion:
            return Completion(item.served.prefix or "", (), 1, 1, "stop")

        monkeypatch.setattr(vllm_engine, "start_vllm", lambda *_: FakeProcess())
        monkeypatch.setattr(VLLMEngine, "_run", run)
        monkeypatch.setattr(vllm_engine, "vllm_prompt", lambda *_: {})
        adapter = t2t_component(prompt.folder.parent / "t2t", prompt.backbone, stirred=0.3)
        adapters = {"t2t": adapter, "soft": prompt.folder}
        self.engine = VLLMEngine(str(prompt.backbone), adapters, "float32")
        self.begun, self.gate = threading.Event(), threading.Event()
        self.made = 0
        self.failure: Exception | None = None
        self._prefix_states = components.prefix_states
        monkeypatch.setattr(components, "prefix_states", self._held)

    def _held(self, *arguments: Any) -> torch.Tensor:
        self.made += 1
        self.begun.set()
        assert self.gate.wait(60)
        if self.failure is not None:
            raise self.failure
        return self._prefix_states(*arguments)

    async def ask(self, request: Request = BOTH) -> str:
        """The name of the prefix that the request would run behind."""
        [done] = await self.engine.generate([request])
        return done.text

    @asynccontextmanager
    async def asked(self, count: int) -> AsyncIterator[list[asyncio.Task[str]]]:
        """So many requests for the pair, which is being made; it is made when the block ends."""
        tasks = [asyncio.create_task(self.ask()) for _ in range(count)]
        try:
            async with asyncio.timeout(60):
                while not self.begun.is_set():
                    await asyncio.sleep(0.01)
            yield tasks
        finally:
            self.gate.set()


@pytest_asyncio.fixture
async def pair(prompt: Prompt, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    pair = Pair(prompt, monkeypatch)
    yield pair
    await pair.engine.close()


async def test_others_are_answered_while_a_prompt_in_front_of_an_adapter_is_made_once(
    pair: Pair,
) -> None:
    async with pair.asked(4) as tasks:
        assert await pair.ask(Request(prompt="x", adapter="t2t")) == ""
        tasks[0].cancel()
    [name] = set(await asyncio.gather(*tasks[1:]))
    assert tasks[0].cancelled() and pair.made == 1
    assert load_file(components.prefix_path(prefixes(), name))
    assert await pair.ask() == name and pair.made == 1


async def test_a_prompt_that_could_not_be_made_is_made_at_the_next_request(pair: Pair) -> None:
    pair.failure = CacheFolderError("the disk is full")
    async with pair.asked(2) as tasks:
        pass
    assert await asyncio.gather(*tasks, return_exceptions=True) == [pair.failure] * 2
    assert pair.made == 1
    pair.failure = None
    assert load_file(components.prefix_path(prefixes(), await pair.ask()))


async def test_a_deadline_holds_while_a_prompt_is_made(pair: Pair) -> None:
    async with pair.asked(1) as tasks:
        with pytest.raises(DeadlineExceededError, match=r"0\.01"):
            await pair.ask(replace(BOTH, deadline_seconds=0.01))
    assert await tasks[0]


async def test_nothing_is_made_for_a_request_that_is_refused(pair: Pair) -> None:
    with pytest.raises(PromptTooLongError):
        await pair.ask(replace(BOTH, prompt="x" * 5000))
    assert pair.made == 0
