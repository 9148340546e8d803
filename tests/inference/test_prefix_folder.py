"""A soft prompt's file for vLLM, in the user's cache: written once and whole; needs no vLLM."""

import errno
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from common.cache import CacheFolderError
from inference.engines.vllm import components
from inference.engines.vllm.components import VLLMComponentLoader
from models.condition_extractor import ConditionExtractorConfig
from tests.components import stirred_backbone, tri_rag_component

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
