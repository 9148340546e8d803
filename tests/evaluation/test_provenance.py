"""Commands and paths that name no machine, hashes of what was read, and what is not there."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from common import provenance as source
from common.files import file_sha256

ROOT = source.ROOT


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("/data/public/qa/x_test.jsonl", "DATA/qa/x_test.jsonl"),
        ("hotpotqa=/data/public/qa/x.jsonl", "hotpotqa=DATA/qa/x.jsonl"),
        ("/data/public/corpus/{dataset}.jsonl", "DATA/corpus/{dataset}.jsonl"),
        (f"{ROOT}/inference/evaluate.py", "inference/evaluate.py"),
        (f"{ROOT}/runs/data/qa/x.jsonl", "runs/data/qa/x.jsonl"),
        (f"--ras={ROOT}/checkpoints/ras_smollm2", "--ras=checkpoints/ras_smollm2"),
        ("/home/someone/runs/kb", "ELSEWHERE/kb"),
        ("/opt/env/bin/python3.11", "python"),
        ("train.learning_rate=4.0e-4", "train.learning_rate=4.0e-4"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("transformers:1", "transformers:1"),
    ],
)
def test_a_path_names_no_machine(word: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert source.portable_path(word) == shown


def test_a_command_can_be_typed_again() -> None:
    words = ["/opt/bin/python", f"{ROOT}/inference/ask.py", "Who was it?"]
    assert source.portable_command(words) == "python inference/ask.py 'Who was it?'"


def test_data_by_hash_and_number_of_records(tmp_path: Path) -> None:
    file = tmp_path / "qa" / "x.jsonl"
    file.parent.mkdir()
    file.write_bytes(b'{"id": 1}\n\n{"id": 2}')
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert source.data_files([file, file]) == {"DATA/qa/x.jsonl": {"sha256": digest, "records": 2}}


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(b"1\n")
    first = source.data_file(file)
    assert source.data_file(file) == first == {"sha256": file_sha256(file), "records": 1}
    (tmp_path / "new").write_bytes(b"2\n")
    (tmp_path / "new").replace(file)
    assert source.data_file(file) == {"sha256": file_sha256(file), "records": 1} != first


def test_outside_git_there_is_no_commit(tmp_path: Path) -> None:
    assert source.git_state(tmp_path) == {"commit": None, "dirty": None}


def test_a_changed_tree_is_dirty_and_a_new_file_alone_is_not(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *name, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "first")
    (tmp_path / "b").write_text("1")
    state = source.git_state.__wrapped__(tmp_path)
    assert len(state["commit"]) == 40 and state["dirty"] is False
    (tmp_path / "a").write_text("2")
    assert source.git_state.__wrapped__(tmp_path)["dirty"] is True


def test_another_interpreter_tells_its_machine_and_versions() -> None:
    asked = [sys.executable, "-c", source.TELL_ENVIRONMENT]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, check=True)
    told = json.loads(done.stdout)
    assert told["machine"]["cores"] >= 1 and told["machine"]["processor"]
    assert told["versions"]["torch"] and "nothing-such" not in told["versions"]


def test_figures_name_no_folder_of_a_machine() -> None:
    told = {"runs": [{"folder": "/home/someone/runs/kb", "f1": 0.5}], "/": "/", "asked": "a / b"}
    assert source.portable_paths(told) == {
        "runs": [{"folder": "ELSEWHERE/kb", "f1": 0.5}], "/": "/", "asked": "a / b"
    }  # fmt: skip
