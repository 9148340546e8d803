"""serve.py by its real command line: what it refuses, and how it stops."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

import inference.serve
from inference.engines.contract import SHIPPED
from tests.components import CHAT_TEMPLATE, stirred_backbone, t2t_component
from tests.inference.local_server import SERVE, address_in, serving_command
from tests.run_main import run_main
from tests.tiny import tiny_tokenizer

KEY = "very-secret"


@pytest.fixture(scope="module")
def t2t(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    backbone, tokenizer = stirred_backbone(folder / "tiny"), tiny_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(backbone)
    return t2t_component(folder / "t2t", backbone, stirred=0.3)


@pytest.fixture
def process(t2t: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    monkeypatch.setenv("TRIVIUM_API_KEY", KEY)
    running = subprocess.Popen(
        [
            sys.executable, str(SERVE), "--adapter", f"extract={t2t}",
            "--engine", "transformers", "--dtype", "float32", "--port", "0", "--json",
            "--drain-seconds", "300",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    yield running
    running.kill()
    running.communicate()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_sigterm_finishes_what_runs(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    seen: list[str] = []
    address = address_in(process.stderr, seen)
    client = openai.OpenAI(base_url=address, api_key=KEY, max_retries=0)
    assert [model.id for model in client.models.list()] == ["tiny", "extract"]
    answers: list[openai.types.Completion] = []
    prompt = {"model": "extract", "prompt": "On and on", "max_tokens": 1000, "temperature": 0}
    call = threading.Thread(target=lambda: answers.append(client.completions.create(**prompt)))
    call.start()
    wait_until_at_work(address)
    process.send_signal(signal.SIGTERM)
    call.join(timeout=300)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert answers[0].usage.completion_tokens > 0
    served = json.loads(output.splitlines()[-1])
    assert (served["answered"], served["abandoned"], served["failed"]) == (1, 0, 0)
    assert served["output_tokens"] == answers[0].usage.completion_tokens
    assert KEY not in "".join([output, errors, *seen])
    with pytest.raises(openai.APIConnectionError):
        client.models.list()


def wait_until_at_work(address: str) -> None:
    """Until the server has a request under way."""
    health = address.removesuffix("/v1") + "/health"
    end = time.monotonic() + 300
    while time.monotonic() < end:
        with urllib.request.urlopen(health) as response:
            if json.load(response)["running"]:
                return
    raise AssertionError("no request came under way")


def refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> str:
    """What the command says as it ends before any model is loaded."""

    def never(*_: object) -> None:
        raise AssertionError("an engine was opened")

    monkeypatch.setattr(inference.serve, "build_engine", never)
    with pytest.raises(SystemExit) as ended:
        run_main(monkeypatch, inference.serve.main, *arguments)
    return f"{ended.value.code} {capsys.readouterr().err}"


def test_what_is_wrong_is_said_before_a_model_is_loaded(
    t2t: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cases = [
            (["--adapter", "t2t"], "NAME=FOLDER"),
            (["--adapter", f"a={t2t}", "--adapter", f"a={t2t}"], "one name"),
            (["--adapter", f"tiny={t2t}"], "--backbone-name"),
            (["--adapter", "a=/nowhere"], "/nowhere"),
            (["--engine", "openai"], "endpoint already"),
            (["--constrain"], "structured_outputs"),
            (["--corpus", t2t], "name them with --loops"),
            (["--loops", "ras"], "ras searches a corpus; name it with --corpus"),
            (["--loops", "ras_static"], "evaluate.py"),
            (["--loops", "th_rag"], "build_hierarchy.py"),
            (["--loops", "raz", "--corpus", t2t], "'ras'"),
            (
                [
                    *("--loops", "ras", "t2rag", "--corpus", t2t, "--ras", "none", "--t2t", t2t),
                    *("--extraction", "all", "--decomposer", SHIPPED / "helper_smollm2"),
                ],
                "several: ras: .*tiny, t2rag: smollm2",
            ),
            (
                [
                    *("--loops", "ras", "--corpus", t2t, "--ras", "none", "--t2t", t2t),
                    *("--extraction", "all", "--adapter", f"t2t={SHIPPED / 't2t_smollm2'}"),
                ],
                "t2t_smollm2, but the loops' own t2t is .*another name",
            ),
            (["--loops", "single", "--corpus", "/nowhere"], "/nowhere"),
            (["--loops", "single", "--corpus", "/nowhere", "--port", port], "in use.*--port"),
            (["--adapter", f"a={t2t}", "--port", port], "in use.*--port"),
        ]
        for arguments, message in cases:
            assert re.search(message, refusal(monkeypatch, capsys, *arguments), re.DOTALL)
    monkeypatch.setenv("TRIVIUM_API_KEY", " ")
    assert "set and empty" in refusal(monkeypatch, capsys, "--adapter", f"a={t2t}")


@pytest.mark.slow
def test_loops_over_a_folder_of_documents(t2t: Path, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "films.md").write_text("# Dawn\n\nDawn was directed by Ana Lis.\n")
    backbone = t2t.parent / "tiny"
    loops = ("--loops", "single", "ras_no_planning", "--corpus", folder, "--retriever", "bm25")
    prompted = ("--ras", "none", "--t2t", t2t, "--extraction", "all", "--backbone", backbone)
    with serving_command(*loops, *prompted) as address:
        client = openai.OpenAI(base_url=address, api_key="none", max_retries=0)
        kinds = {model.id: model.kind for model in client.models.list()}
        assert kinds == {
            "tiny": "backbone", "t2t": "component", "single": "loop", "ras_no_planning": "loop",
        }  # fmt: skip
        question = [{"role": "user", "content": "Who directed Dawn?"}]
        for loop in ("single", "ras_no_planning"):
            done = client.chat.completions.create(model=loop, messages=question)
            assert done.trace["steps"][0]["passages"][0]["title"] == "Dawn"
        [source] = done.choices[0].message.annotations
        with urllib.request.urlopen(source.url_citation.url) as response:
            page = response.read().decode()
        assert "Ana Lis" in page and "films.md" in page
