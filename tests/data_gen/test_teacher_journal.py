"""The journal: what it keeps, whatever cuts it off, and for whom it is locked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import RecordError
from data_gen.teacher.journal import (
    LEAST_FREE_BYTES,
    Journal,
    JournalError,
    WriterLockError,
    read_journal,
)
from data_gen.teacher.prompts import Answer, TeacherCall, call_key
from data_gen.teacher.spending import Amount
from inference.engines.contract import Request, Sampling, TransientError

ROOT = Path(__file__).resolve().parents[2]


def call(prompt: str, version: str = "v1", **sampling: object) -> TeacherCall:
    return TeacherCall(Request(prompt=prompt, sampling=Sampling(**sampling)), version, "s", "q", "")


def fill(path: Path, answers: dict[str, Answer]) -> Path:
    journal = Journal(path)
    for key, answer in answers.items():
        journal.begin(key, call(key), Amount(100, 1.0))
        journal.answer(key, answer)
    journal.close()
    return path


def three_answers(path: Path) -> Path:
    return fill(path, {f"k{n}": Answer(f"text {n} ü\n\u2028", "stop", 7, n, 0.5) for n in range(3)})


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    path = three_answers(tmp_path / "j.jsonl")
    journal = Journal(path)
    journal.begin("bad", call("bad"), Amount(100, 1.0))
    journal.failure("bad", TransientError("was cut off"), may_be_billed=True)
    journal.begin("free", call("free"), Amount(100, 1.0))
    journal.failure("free", TransientError("busy"), may_be_billed=False)
    journal.begin("killed", call("killed"), Amount(50, 0.25))
    journal.close()
    contents = read_journal(path)
    assert contents.answers["k2"] == Answer("text 2 ü\n\u2028", "stop", 7, 2, 0.5)
    assert set(contents.answers) == {"k0", "k1", "k2"}
    assert contents.failures == {"TransientError": 2}
    assert contents.confirmed == Amount(7 * 3 + 3, 1.5)
    assert contents.lost == Amount(100, 1.0)
    assert contents.open == {"killed": Amount(50, 0.25)}
    assert contents.committed() == Amount(24 + 100 + 50, 1.5 + 1.0 + 0.25)


def test_a_call_begun_again_after_a_kill_counts_both(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    for _ in range(2):
        journal = Journal(path)
        journal.begin("k", call("k"), Amount(10, 1.0))
        journal.close()
    assert read_journal(path).committed() == Amount(20, 2.0)


@given(cut=st.integers(0, 10_000))
def test_a_journal_cut_anywhere_keeps_all_whole_lines(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    path = three_answers(folder / "j.jsonl")
    whole = path.read_bytes()
    cut %= len(whole) + 1
    path.write_bytes(whole[:cut])
    kept = whole[: whole[:cut].rfind(b"\n") + 1]
    journal = Journal(path)
    assert path.read_bytes() == kept
    texts = [json.loads(line) for line in kept.splitlines()]
    assert set(journal.answers) == {e["key"] for e in texts if e["event"] == "answer"}
    torn = Path(f"{path}.torn")
    assert (torn.read_bytes()[:-1] if torn.exists() else b"") == whole[len(kept) : cut]
    journal.begin("new", call("new"), Amount())
    journal.answer("new", Answer("new", "stop", 1, 1))
    journal.close()
    assert "new" in read_journal(path).answers


def test_a_last_line_of_rubbish_is_set_aside_and_one_in_the_midst_is_named(tmp_path: Path) -> None:
    path = three_answers(tmp_path / "j.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0\0\0\0\n")
    Journal(path).close()
    assert path.read_bytes() == whole
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"rubbish\n", *lines[2:]]))
    with pytest.raises(RecordError, match=r"j\.jsonl:3.*Remove the line"):
        Journal(path)


def test_another_file_is_not_taken_for_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text('{"id": "q1", "question": "Who?"}', encoding="utf-8")
    with pytest.raises(RecordError, match="no journal"):
        Journal(path)
    assert path.read_text(encoding="utf-8") == '{"id": "q1", "question": "Who?"}'


def test_a_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    with pytest.raises(WriterLockError, match=f"process {os.getpid()} on"):
        Journal(tmp_path / "j.jsonl")
    read_journal(tmp_path / "j.jsonl")  # a reader needs no lock
    journal.close()
    Journal(tmp_path / "j.jsonl").close()


def test_the_lock_goes_with_its_process(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; "
        "from data_gen.teacher.journal import Journal; "
        "Journal(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = tmp_path / "j.jsonl"
    subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, check=False)
    assert path.exists()
    Journal(path).close()


def test_no_call_is_begun_on_a_nearly_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = three_answers(tmp_path / "j.jsonl")
    usage = type("Usage", (), {"free": LEAST_FREE_BYTES - 1})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    journal = Journal(path)
    with pytest.raises(JournalError, match="3 answers in it are kept"):
        journal.begin("new", call("new"), Amount())
    journal.close()


def test_a_key_is_its_calls_content() -> None:
    base = call("p")
    messages = Request(messages=({"role": "user", "content": "p"},))
    others = [
        call("P"),
        call("p", version="v2"),
        call("p", seed=1),
        call("p", temperature=0.5),
        call("p", max_new_tokens=5),
        TeacherCall(messages, "v1", "s", "q", ""),
        TeacherCall(Request(prompt="p", adapter="a"), "v1", "s", "q", ""),
    ]
    keys = [call_key("m", other) for other in [base, *others]]
    assert len(set(keys)) == len(keys)
    assert call_key("other model", base) not in keys
    same = TeacherCall(Request(prompt="p", deadline_seconds=3.0), "v1", "other", "place", "x")
    assert call_key("m", same) == call_key("m", base)
