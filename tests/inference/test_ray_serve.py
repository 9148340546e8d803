"""serve.py over many engines on Ray: one address, whatever happens to the engines behind it."""

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

from tests.components import CHAT_TEMPLATE, stirred_backbone, t2t_component
from tests.inference.local_server import LISTENS
from tests.inference.ray_commands import INFERENCE, actors, wait_for
from tests.processes import Process, begin
from tests.tiny import tiny_tokenizer

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]
QUESTIONS = [f"Who directed Dawn {n}?" for n in range(12)]
LOOPS = ("single", "ras_no_planning")


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve") / "tiny"
    stirred_backbone(folder)
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def t2t(backbone: Path) -> Path:
    return t2t_component(backbone.parent / "t2t", backbone, stirred=0.3)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    for n in range(len(QUESTIONS)):
        (folder / f"film{n}.md").write_text(f"# Dawn {n}\n\nDawn {n} was directed by Ana {n}.\n")
    return folder


def serving(backbone: Path, t2t: Path, documents: Path, *engine: object) -> Process:
    return begin(
        INFERENCE / "serve.py", "--loops", *LOOPS, "--corpus", documents, "--retriever", "bm25",
        "--ras", "none", "--t2t", t2t, "--extraction", "all", "--backbone", backbone,
        "--dtype", "float32", "--port", 0, "--json", *engine,
    )  # fmt: skip


def address_of(running: Process) -> str:
    wait_for(lambda: bool(LISTENS.search(running.errors)), running, "a server that listens")
    found = LISTENS.search(running.errors)
    assert found
    return found[0]


def answers(address: str) -> list[tuple[str, Any]]:
    """What all loops say to all questions, asked at once."""
    client = openai.OpenAI(base_url=address, api_key="none", max_retries=0)

    def ask(asked: tuple[str, str]) -> tuple[str, Any]:
        loop, question = asked
        messages: Any = [{"role": "user", "content": question}]
        done: Any = client.chat.completions.create(model=loop, messages=messages)
        return done.choices[0].message.content, done.trace["steps"]

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(ask, [(loop, q) for loop in LOOPS for q in QUESTIONS]))


def stopped(running: Process) -> dict[str, Any]:
    """What it counts at its end, after SIGTERM."""
    running.send_signal(signal.SIGTERM)
    output, errors = running.communicate(timeout=300)
    assert running.returncode == 0, errors[-3000:]
    return dict(json.loads(output.splitlines()[-1]))


def test_many_engines_answer_at_one_address_though_one_dies(
    backbone: Path, t2t: Path, documents: Path
) -> None:
    one = serving(backbone, t2t, documents, "--engine", "transformers")
    try:
        expected = answers(address_of(one))
        stopped(one)
    finally:
        one.kill()
    pool = serving(
        backbone, t2t, documents, "--engine", "ray", "--ray-engine", "transformers",
        "--engines", 2, "--engine-cpus", 1,
    )  # fmt: skip
    try:
        address = address_of(pool)
        assert len(actors()) == 2
        assert answers(address) == expected
        actors()[0].kill()
        assert answers(address) == expected
        own = psutil.Process(pool.pid).children(recursive=True)
        counts = stopped(pool)
    finally:
        pool.kill()
    assert (counts["failed"], counts["abandoned"]) == (0, 0)
    assert counts["answered"] == 2 * len(expected)
    psutil.wait_procs(own, timeout=60)
    assert not [p for p in own if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
