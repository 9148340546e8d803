"""build_hotpot_subq.py as a user runs it, against a server that fails, and killed at any moment."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data_gen.build_hotpot_subq import main
from data_gen.teacher.journal import read_journal
from models.formats.records import PassageRecord, QuestionRecord, RasSample, read_records
from tests import processes
from tests.data_gen.faulty_endpoint import FAULTS, Endpoint, served
from tests.shared_data import shared_data_file

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ROOT / "data_gen" / "build_hotpot_subq.py"
CONCURRENCY = 4
QUICK = ("--concurrency", CONCURRENCY, "--timeout", 60, "--backoff", 0.05)
PRICED = ("--input-price", 3, "--output-price", 15)
Run = Callable[..., dict[str, Any]]


def question(number: int) -> dict[str, Any]:
    """A question with two supporting documents and a distractor."""
    film, person = f"Zone {number}", f"Denys Roe {number}"
    return {
        "_id": f"q{number}",
        "question": f"Where was the director of {film} born?",
        "answer": "Montreal",
        "type": "bridge",
        "level": "easy",
        "context": [
            ["Lake", ["A lake."]],
            [person, [f"{person} was born in Montreal."]],
            [film, [f"{film} is a film.", f"{person} directed it."]],
        ],
        "supporting_facts": [[film, 1], [person, 0]],
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "hotpot.json"
    path.write_text(json.dumps([question(number) for number in range(40)]), encoding="utf-8")
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a stage in this process against an endpoint; its JSON object."""

    def run_stage(endpoint: Endpoint | None, *arguments: object) -> dict[str, Any]:
        for name, value in (endpoint.environment if endpoint else {}).items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        main([*map(str, arguments), "--json"])
        return json.loads(capsys.readouterr().out.strip().splitlines()[-1])

    return run_stage


def filter_arguments(source: Path, folder: Path) -> list[object]:
    out = folder / "filtered"
    return ["filter", "--source", f"hotpotqa={source}", "--teacher-model", "m", "--out", out]


def subquery_arguments(folder: Path) -> list[object]:
    questions, out = folder / "filtered" / "questions.jsonl", folder / "subqueries"
    return ["subqueries", "--questions", questions, "--teacher-model", "m", "--out", out]


def stage_files(folder: Path) -> dict[str, bytes]:
    """What both stages wrote, by name."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".jsonl"))
    # A kill leaves the hidden folder that it was writing.
    whole = [p for p in paths if p.parent != folder and not p.parent.name.startswith(".")]
    return {str(p.relative_to(folder)): p.read_bytes() for p in whole}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of both stages against an endpoint that never fails."""
    folder = tmp_path_factory.mktemp("expected")
    source = folder / "hotpot.json"
    source.write_text(json.dumps([question(number) for number in range(40)]), encoding="utf-8")
    (folder / "out").mkdir()
    with served() as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in endpoint.environment.items():
            patch.setenv(name, value)
        for arguments in (
            filter_arguments(source, folder / "out"),
            subquery_arguments(folder / "out"),
        ):
            main(list(map(str, [*arguments, *QUICK])))
        assert endpoint.paid_twice == 0
        assert endpoint.most_in_flight <= CONCURRENCY
        assert set(endpoint.headers) == {"Bearer secret-of-the-tests"}
    return stage_files(folder / "out")


@pytest.mark.exhaustive
def test_every_kind_of_failure_leaves_the_result_as_it_is(
    source: Path, tmp_path: Path, run: Run, expected: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    faults = tuple(fault for fault in FAULTS if fault != "hang")
    with served(fault_share=0.2, faults=faults) as endpoint:
        first = run(endpoint, *filter_arguments(source, out), *QUICK, *PRICED)
        second = run(endpoint, *subquery_arguments(out), *QUICK, *PRICED)
    assert stage_files(out) == expected
    assert set(endpoint.fault_counts) == set(faults)
    assert endpoint.waits_broken == 0
    assert endpoint.paid_twice == 0
    assert endpoint.most_in_flight <= CONCURRENCY
    bills = [first["bill"]["filter"], second["bill"]["subqueries"]]
    answered = sum(endpoint.answered.values())
    assert sum(bill["calls"] for bill in bills) == answered == len(endpoint.answered)
    assert sum(bill["attempts"] for bill in bills) == sum(endpoint.received.values())
    assert sum(bill["retried"] for bill in bills) == sum(endpoint.fault_counts.values())
    assert sum(bill["cost"] for bill in bills) == pytest.approx(answered * (300 + 150) / 1e6)
    contents = read_journal(out / "teacher_journal.jsonl")
    assert contents.failures.total() == sum(endpoint.fault_counts.values())
    assert b"secret-of-the-tests" not in (out / "teacher_journal.jsonl").read_bytes()
    assert sum(first["kept"].values()) + sum(first["left_out"].values()) == 40
    assert sum(second["kept"].values()) + sum(second["left_out"].values()) == sum(
        first["kept"].values()
    )


@pytest.mark.slow
@pytest.mark.exhaustive
def test_answers_that_never_come_are_asked_for_again(
    source: Path, tmp_path: Path, run: Run, expected: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    # All at once, so that those that hang are waited for together.
    patience = ("--timeout", 10, "--concurrency", 40)
    with served(fault_share=0.1, faults=("hang",)) as endpoint:
        done = run(endpoint, *filter_arguments(source, out), *QUICK, *PRICED, *patience)
    hung = endpoint.fault_counts["hang"]
    assert done["bill"]["filter"]["retried"] == hung > 0
    contents = read_journal(out / "teacher_journal.jsonl")
    assert contents.failures == {"DeadlineExceededError": hung}
    # Nobody knows whether they were billed: they count against a cap.
    assert contents.lost.cost == pytest.approx(done["bill"]["filter"]["at_most_lost"])
    assert contents.lost.cost > 0
    assert endpoint.paid_twice == 0
    assert stage_files(out)["filtered/questions.jsonl"] == expected["filtered/questions.jsonl"]


def test_a_finished_stage_asks_nothing_again(source: Path, tmp_path: Path, run: Run) -> None:
    with served() as endpoint:
        run(endpoint, *filter_arguments(source, tmp_path), *QUICK)
        asked, files = sum(endpoint.received.values()), stage_files(tmp_path)
        again = run(endpoint, *filter_arguments(source, tmp_path), *QUICK)
    assert sum(endpoint.received.values()) == asked
    assert again["bill"]["filter"]["known"] == asked
    assert stage_files(tmp_path) == files


def test_a_dry_run_asks_nothing_and_bounds_the_bill(source: Path, tmp_path: Path, run: Run) -> None:
    with served() as endpoint:
        arguments = [*filter_arguments(source, tmp_path), *QUICK, *PRICED]
        planned = run(endpoint, *arguments, "--dry-run")
        assert not endpoint.received
        assert not (tmp_path / "filtered").exists()
        assert not (tmp_path / "teacher_journal.jsonl").exists()
        assert (planned["questions"], planned["estimate"]["filter"]["calls"]) == (40, 40)
        run(endpoint, *arguments)
        known = run(endpoint, *arguments, "--dry-run")["estimate"]["filter"]
        assert (known["calls"], known["known"]) == (0, sum(endpoint.answered.values()))
        planned = run(endpoint, *subquery_arguments(tmp_path), *QUICK, *PRICED, "--dry-run")
        done = run(endpoint, *subquery_arguments(tmp_path), *QUICK, *PRICED)
    estimate, bill = planned["estimate"]["subqueries"], done["bill"]["subqueries"]
    first_tries = bill["calls"] - sum(
        count for note, count in done["notes"].items() if note.startswith("refused")
    )
    assert estimate["calls"] >= first_tries
    assert estimate["output_tokens"] >= bill["output_tokens"]


def test_at_the_cap_a_stage_stops_with_what_is_done_and_goes_on_under_a_higher_one(
    source: Path, tmp_path: Path, run: Run, expected: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    with served() as endpoint:
        arguments = [*filter_arguments(source, out), *QUICK, *PRICED]
        with pytest.raises(SystemExit) as stopped:
            run(endpoint, *arguments, "--max-spend", 0.02)
        message = str(stopped.value)
        assert "the cap of 0.02 is reached" in message
        assert "run the same command again" in message
        paid = sum(endpoint.answered.values())
        assert 0 < paid * (300 + 150) / 1e6 <= 0.02
        assert not (out / "filtered").exists()
        assert len(read_journal(out / "teacher_journal.jsonl").answers) == paid
        run(endpoint, *arguments, "--max-spend", 5)
        assert endpoint.paid_twice == 0
    assert stage_files(out)["filtered/questions.jsonl"] == expected["filtered/questions.jsonl"]


@pytest.mark.parametrize(
    ("status", "message"),
    [("401 key", "no key"), ("404 model", "no model"), ("429 insufficient_quota", "quota")],
)
def test_an_endpoint_that_refuses_everything_ends_the_stage(
    source: Path, tmp_path: Path, run: Run, status: str, message: str
) -> None:
    with served(refuse_all=status) as endpoint, pytest.raises(SystemExit, match=message):
        run(endpoint, *filter_arguments(source, tmp_path), *QUICK)
    assert sum(endpoint.received.values()) <= CONCURRENCY


def test_failed_calls_are_no_answers(
    source: Path, tmp_path: Path, run: Run, expected: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    arguments = [*filter_arguments(source, out), *QUICK]
    with served(fault_share=0.2, faults=("server error",)) as faulty:
        with pytest.raises(SystemExit, match=r"have no answer.*TransientError"):
            run(faulty, *arguments, "--attempts", 1)
        assert not (out / "filtered").exists()
        failed = sum(faulty.fault_counts.values())
    with served(refuse_all="400 use") as endpoint:
        partial = run(endpoint, *arguments, "--attempts", 1, "--leave-out-failed")
    left = partial["failed"]["call failed: InvalidRequestError"]
    assert 0 < left <= failed
    assert sum(partial["kept"].values()) + sum(partial["left_out"].values()) == 40 - left
    with served() as endpoint:
        run(endpoint, *arguments)
        assert len(endpoint.answered) >= left
        assert not set(endpoint.answered) & set(faulty.answered)
    assert stage_files(out)["filtered/questions.jsonl"] == expected["filtered/questions.jsonl"]


def start(endpoint: Endpoint, arguments: list[object]) -> processes.Process:
    return processes.begin(COMMAND, *arguments, env={**os.environ, **endpoint.environment})


def wait_for(endpoint: Endpoint, answers: int, process: processes.Process) -> None:
    while endpoint.answers < answers and process.poll() is None:
        time.sleep(0.005)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_killed_ten_times_a_run_pays_no_call_twice_but_those_under_way(
    source: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    out, luck = tmp_path / "out", random.Random(7)
    kills = 0
    with served(delay=0.05) as endpoint:
        for arguments in (filter_arguments(source, out), subquery_arguments(out)):
            while True:
                # A process that is looked at late must not have come to its end meanwhile.
                more = luck.randrange(1, 9)
                endpoint.allowed = endpoint.answers + more if kills < 10 else math.inf
                process = start(endpoint, [*arguments, *QUICK])
                if kills < 10:
                    wait_for(endpoint, int(endpoint.allowed), process)
                    time.sleep(luck.uniform(0.0, 0.08))
                    if process.poll() is None:
                        process.send_signal(signal.SIGKILL)
                        kills += 1
                _, errors = process.communicate()
                if process.returncode == 0:
                    break
                assert process.returncode == -signal.SIGKILL, errors
    assert kills == 10
    assert endpoint.paid_twice <= kills * CONCURRENCY
    assert stage_files(out) == expected
    contents = read_journal(out / "teacher_journal.jsonl")
    assert len(contents.answers) == len(endpoint.answered)
    assert not contents.torn


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_full_disk_loses_nothing_that_was_written(
    source: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """No file of the process may grow beyond 6,000 bytes, as on a disk that is full."""
    out = tmp_path / "out"
    arguments = [*filter_arguments(source, out), *QUICK]

    with served() as endpoint:
        environment = {**os.environ, **endpoint.environment}
        full = processes.on_full_disk(COMMAND, *arguments, largest_file=6000, env=environment)
        assert full.returncode == 1
        last = full.stderr.strip().splitlines()[-1]
        assert "teacher_journal.jsonl: cannot be written" in last
        assert "Free some space" in last
        contents = read_journal(out / "teacher_journal.jsonl")
        assert not contents.torn
        kept = len(contents.answers)
        assert 0 < kept < len(endpoint.answered) + 1
        assert not (out / "filtered").exists()
        assert start(endpoint, arguments).wait() == 0
        assert endpoint.paid_twice <= CONCURRENCY
    assert stage_files(out)["filtered/questions.jsonl"] == expected["filtered/questions.jsonl"]


@pytest.mark.slow
def test_a_second_writer_is_refused_and_an_interrupt_keeps_what_is_under_way(
    source: Path, tmp_path: Path
) -> None:
    with served(delay=1.0) as endpoint:
        arguments = [*filter_arguments(source, tmp_path), *QUICK, "--concurrency", 1]
        first = start(endpoint, arguments)
        wait_for(endpoint, 1, first)
        second = start(endpoint, arguments)
        _, errors = second.communicate()
        assert second.returncode == 1
        assert f"is being written by process {first.pid}" in errors.strip().splitlines()[-1]
        first.send_signal(signal.SIGINT)
        _, errors = first.communicate()
        assert first.returncode == 1
        assert "stopped by SIGINT" in errors.strip().splitlines()[-1]
        answered = len(endpoint.answered)
    assert len(read_journal(tmp_path / "teacher_journal.jsonl").answers) == answered < 40


def test_from_questions_to_samples(source: Path, tmp_path: Path, run: Run) -> None:
    with served() as endpoint:
        run(endpoint, *filter_arguments(source, tmp_path), *QUICK)
        run(endpoint, *subquery_arguments(tmp_path), *QUICK)
        questions = tmp_path / "subqueries" / "questions.jsonl"
        left_out = tmp_path / "filtered" / "left_out.jsonl"
        direct = run(
            endpoint, "direct", "--questions", questions, "--questions", left_out,
            "--endpoint-model", "m", "--out", tmp_path / "direct", *QUICK,
        )  # fmt: skip
    pair = {"question": "Who won in 1990?", "short_answers": ["Ann"], "wikipage": "Cup"}
    ambiguous = {
        "sample_id": "amb",
        "ambiguous_question": "Who won?",
        "qa_pairs": [{**pair, "context": "Ann won it."}],
        "annotations": [{"long_answer": "Ann won in 1990."}],
    }
    asqa = tmp_path / "asqa.jsonl"
    asqa.write_text(json.dumps(ambiguous), encoding="utf-8")
    passages = run(
        None, "passages", "--questions", questions, "--source", f"asqa={asqa}",
        "--out", tmp_path / "p.jsonl",
    )  # fmt: skip
    texts = list(read_records(tmp_path / "p.jsonl", PassageRecord))
    assert passages["passages"] == len(texts) > 0
    triples = tmp_path / "triples.jsonl"
    lines = [
        {"id": p.id, "text": f"{p.title}: {p.text}", "triples": [[p.title, "says", p.text]]}
        for p in texts
    ]
    triples.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    arc = tmp_path / "arc.jsonl"
    arc.write_text(
        json.dumps(
            {"id": "a", "question": "Why?", "choices": {"text": ["x"], "label": ["1"]}}
            | {"answerKey": "1"}
        ),
        encoding="utf-8",
    )
    label = [
        "label", "--questions", questions, "--attempts", tmp_path / "direct" / "attempts.jsonl",
        "--left-out", left_out, "--answer-only", f"arc={arc}", "--answer-only", f"asqa={asqa}",
        "--tokenizer", "words",
    ]  # fmt: skip
    with pytest.raises(SystemExit, match="documents have no triples"):
        run(None, *label, "--out", tmp_path / "samples")
    made = run(None, *label, "--triples", triples, "--out", tmp_path / "samples")
    right = sum(direct["kept"].values())
    asked = sum(1 for _ in read_records(questions, QuestionRecord))
    outcomes = made["sources"]["questions"]
    assert sum(outcomes.values()) == asked
    assert outcomes["no retrieval"] == made["labels"]["[NO_RETRIEVAL]"] > 0
    assert right >= outcomes["no retrieval"]
    assert made["triples_of_documents"]["annotated and weak"] == 0
    assert made["labels"]["[SUFFICIENT]"] == outcomes["2 sub-queries"]
    assert made["labels"]["[SUBQ]"] == 2 * outcomes["2 sub-queries"]
    samples = [
        sample
        for split in ("train", "dev", "test")
        for sample in read_records(tmp_path / "samples" / f"{split}.jsonl", RasSample)
    ]
    by_id = {sample.id: sample for sample in samples}
    assert by_id["a/answer"].history == []
    assert [step.subquery for step in by_id["amb/answer"].history] == [pair["question"]]
    assert sum(made["splits"].values()) == len(samples)


@pytest.mark.slow
def test_what_the_teacher_wrote_is_a_source_of_build_subq(
    source: Path, tmp_path: Path, run: Run
) -> None:
    with served() as endpoint:
        run(endpoint, *filter_arguments(source, tmp_path), *QUICK)
        run(endpoint, *subquery_arguments(tmp_path), *QUICK)
    questions = tmp_path / "subqueries" / "questions.jsonl"
    command = [
        sys.executable, str(ROOT / "data_gen" / "build_subq.py"), "--source",
        f"hotpotqa={questions}", "--tokenizer", "words", "--out", str(tmp_path / "samples"),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    asked = {
        step.question
        for record in read_records(questions, QuestionRecord)
        for step in record.question_decomposition
    }
    samples = list(read_records(tmp_path / "samples" / "train.jsonl", RasSample))
    labels = {sample.label.removeprefix("[SUBQ] ") for sample in samples if sample.history}
    assert len(labels & asked) > 10
    assert not any("What is known about" in sample.label for sample in samples)


@pytest.mark.slow
def test_a_trained_writer_on_this_machine(source: Path, tmp_path: Path, run: Run) -> None:
    """An untrained adapter stands in for one: everything it writes is refused and counted."""
    from tests.components import helper_component
    from tests.tiny import tiny_backbone

    backbone = tiny_backbone(tmp_path / "backbone")
    component = helper_component(tmp_path / "writer", backbone, "subquery", stirred=0.1)
    filtering = ["filter", "--source", f"hotpotqa={source}", "--out", tmp_path / "filtered"]
    kept = run(None, *filtering, "--keep-all")
    assert kept["kept"] == {"all kept, not asked": 40}
    arguments = [
        "subqueries", "--questions", tmp_path / "filtered" / "questions.jsonl", "--limit", 3,
        "--teacher", component, "--engine", "transformers", "--dtype", "float32",
        "--max-new-tokens", 8, "--out", tmp_path / "subqueries", "--max-document-tokens", 60,
    ]  # fmt: skip
    done = run(None, *arguments, "--max-prompt-tokens", 2000)
    assert sum(done["left_out"].values()) == 3
    assert done["bill"]["subqueries"]["calls"] == 6
    again = run(None, *arguments, "--max-prompt-tokens", 2000)
    assert again["bill"]["subqueries"]["known"] == 6


@pytest.mark.slow
def test_the_project_s_own_server_as_teacher(
    source: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An untrained model behind it: every answer comes by HTTP, is refused and counted."""
    from tests.inference.local_server import serving_command
    from tests.tiny import tiny_backbone

    backbone = tiny_backbone(tmp_path / "backbone")
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    (backbone / "chat_template.jinja").write_text(template, encoding="utf-8")
    with serving_command("--backbone", backbone) as address:
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        arguments = ["filter", "--source", f"hotpotqa={source}", "--limit", 5]
        arguments += ["--teacher-model", backbone.name, "--max-new-tokens", 8, *QUICK]
        done = run(None, *arguments, "--out", tmp_path / "filtered")
        assert sum(done["left_out"].values()) + sum(done["kept"].values()) == 5
        bill = done["bill"]["filter"]
        assert bill["calls"] >= 5 and bill["output_tokens"] > 0
        again = run(None, *arguments, "--out", tmp_path / "filtered")
    assert again["bill"]["filter"]["known"] == bill["calls"]
    assert again["left_out"] == done["left_out"]


def test_bad_input_is_said_in_a_line(source: Path, tmp_path: Path, run: Run) -> None:
    with served() as endpoint:
        arguments = filter_arguments(source, tmp_path)
        with pytest.raises(SystemExit) as missing:
            run(endpoint, *filter_arguments(tmp_path / "no.json", tmp_path))
        assert "no.json" in str(missing.value)
        for options in (("--max-spend", 3), ("--concurrency", 0), ("--input-price", -1)):
            with pytest.raises(SystemExit) as usage:
                run(endpoint, *arguments, *options)
            assert usage.value.code == 2
        with pytest.raises(SystemExit, match="no journal"):
            run(endpoint, *arguments, "--journal", source)
        source.write_text(json.dumps([{**question(1), "supporting_facts": [["Gone", 0]]}]))
        with pytest.raises(SystemExit, match="supporting_facts"):
            run(endpoint, *arguments)
        skipped = run(endpoint, *arguments, "--skip-bad")
        assert skipped["left_out"] == {"broken records": 1}
        assert not endpoint.received


def test_real_questions_have_one_outcome_each(tmp_path: Path, run: Run) -> None:
    questions = shared_data_file("qa/hotpotqa_train.jsonl")
    arguments = ["filter", "--source", f"hotpotqa={questions}", "--keep-all"]
    counts = run(None, *arguments, "--out", tmp_path / "filtered")
    lines = len(questions.read_bytes().splitlines())
    assert sum(counts["kept"].values()) + sum(counts["left_out"].values()) == lines
    assert counts["left_out"]["the answer is in no supporting document"] < 0.01 * lines
    kept = list(read_records(tmp_path / "filtered" / "questions.jsonl", QuestionRecord))
    assert len(kept) == sum(counts["kept"].values())
