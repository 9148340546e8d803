"""audit.py as it is run: by path, on folders with and without faults, and what it writes."""

import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import data_gen.audit
from data_gen.audits.inputs import split_files
from data_gen.audits.run import Audit, Settings
from data_gen.builds.cards import token_counter
from tests.data_gen.audited_sets import (
    Splits,
    by_id,
    clean_conditions,
    clean_ras,
    clean_triples,
    sample,
    write_lines,
    write_set,
)
from tests.data_gen.test_build_commands import question, run, run_anew
from tests.data_gen.test_build_commands import write_lines as write_questions
from tests.run_main import run_main
from tests.shared_data import shared_data_file

PAGE = Path(__file__).resolve().parents[2] / "docs" / "audit.md"
WORDS = ("--tokenizer", "words")


def read_report(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def not_ok(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f["name"]: f for f in report["findings"] if f["severity"] != "ok"}


def test_a_clean_folder_ends_with_status_0(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", clean_ras())
    done = run("audit.py", folder, *WORDS, "--out", tmp_path / "r", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    assert (summary["errors"], summary["warnings"], summary["notes"]) == (0, 0, 0)
    assert {finding["severity"] for finding in summary["findings"]} == {"ok"}
    assert "71,676 (55%)" in done.stdout and "RAS Table 4" in done.stdout
    report = read_report(tmp_path / "r")
    assert [file["records"] for file in report["files"]] == [99, 9]
    rows = {(r["task"], r["what"]): r for r in report["figures"]["ras_table_4"]}
    assert rows["answer", "queries"] == {
        "task": "answer", "what": "queries", "paper": "78,164", "here": "36"
    }  # fmt: skip
    assert rows["plan", "[NO_RETRIEVAL]"]["here"] == "12 (17%)"
    assert rows["plan", "subqueries (min, mean, max)"]["here"] == "0, 0.7, 2"


def test_a_fault_ends_with_status_1_and_is_shown_with_its_place(tmp_path: Path) -> None:
    splits = clean_ras()
    by_id(splits, "two1/plan/1")["label"] = "[SUBQ] Who was born in Brill1?"
    splits["train"].insert(3, '{"id": "cut | off')
    folder = write_set(tmp_path / "set", splits)
    out = tmp_path / "r"
    done = run("audit.py", folder, *WORDS, "--out", out, cwd=tmp_path)
    assert done.returncode == 1
    assert "names_answer" in done.stdout and "Traceback" not in done.stderr
    found = not_ok(read_report(out))
    assert set(found) == {"subquery_names_answer", "broken_record"}
    (shown,) = found["subquery_names_answer"]["examples"]
    assert shown["records"][0]["where"] == f"{folder}/train.jsonl:12"
    assert shown["records"][0]["record"] == by_id(splits, "two1/plan/1")
    (broken,) = found["broken_record"]["examples"]
    assert "train.jsonl:4" in broken["note"]
    assert broken["records"][0]["record"] == '{"id": "cut | off'
    page = (out / "report.md").read_text(encoding="utf-8")
    assert "## subquery_names_answer (error)" in page
    assert f"`{folder}/train.jsonl:12`" in page


def test_reports_are_the_same_in_every_run(tmp_path: Path) -> None:
    splits = clean_ras(questions=30)
    for n in range(20):
        by_id(splits, f"two{n}/answer")["label"] = ""
    folder = write_set(tmp_path / "set", splits)
    texts = []
    for seed, start in ((1, run), (1, run_anew), (2, run)):
        done = start(
            "audit.py", folder, *WORDS, "--seed", str(seed), "--out", tmp_path / "r", cwd=tmp_path
        )
        assert done.returncode == 1
        texts.append((tmp_path / "r" / "report.json").read_bytes())
    assert texts[0] == texts[1] != texts[2]


def test_files_are_named_by_split_and_cards_stand_beside_them(tmp_path: Path) -> None:
    first = write_set(tmp_path / "a", {"train": clean_ras()["train"]})
    second = write_set(tmp_path / "b", {"train": clean_ras()["dev"]}, {"title": "x"})
    done = run(
        "audit.py", f"train={first}/train.jsonl", f"dev={second}/train.jsonl", *WORDS,
        "--out", tmp_path / "r", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = read_report(tmp_path / "r")
    assert [file["split"] for file in report["files"]] == ["train", "dev"]
    assert set(not_ok(report)) == {"no_sources"}
    leaking = run(
        "audit.py", first, f"dev={second}/train.jsonl", f"test={first}/train.jsonl", *WORDS,
        "--out", tmp_path / "r", cwd=tmp_path,
    )  # fmt: skip
    assert leaking.returncode == 1 and "named twice" in leaking.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "not a folder"),
        (["train=missing.jsonl"], "missing.jsonl: no such file"),
        (["empty"], "holds none of train.jsonl"),
        (["blank"], "no record of a known kind"),
        (["ras", "triples"], "Audit one kind at a time"),
        (["ras", "--exclude", "missing.jsonl"], "missing.jsonl"),
        (["ras", "--max-tokens", "9", "--tokenizer", "nowhere/at-all"], "cannot be loaded"),
        (["broken"], "each line breaks its contract"),
    ],
)
def test_wrong_input_is_said_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    write_set(tmp_path / "blank", {"train": []})
    write_set(tmp_path / "ras", clean_ras())
    write_set(tmp_path / "triples", clean_triples())
    write_set(tmp_path / "broken", {"train": [{"task": "plan"}]})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        run_main(monkeypatch, data_gen.audit.main, *arguments, "--out", "r")
    [said] = str(stopped.value).splitlines()
    assert said.startswith("error: ") and message in said
    assert not (tmp_path / "r").exists()


def test_a_mixture_is_refused_before_a_tokenizer_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = (write_set(tmp_path / "a", clean_ras()), write_set(tmp_path / "b", clean_triples()))
    monkeypatch.setattr(data_gen.audit, "token_counter", lambda name: pytest.fail("was loaded"))
    with pytest.raises(SystemExit, match="Audit one kind at a time"):
        run_main(monkeypatch, data_gen.audit.main, *folders, "--out", tmp_path / "r")


def every_finding(tmp_path: Path) -> set[str]:
    """The names of all checks of all kinds."""
    count_tokens, _ = token_counter("words")
    test = {"id": "t", "question": "?", "answer": "x", "context": [["T", ["A text."]]],
            "supporting_facts": [["T", 0]]}  # fmt: skip
    files = [write_lines(tmp_path / "test.jsonl", [test])]
    corpus = [write_lines(tmp_path / "corpus.jsonl", [{"id": "p", "text": "A text."}])]
    settings = Settings(count_tokens, files, corpus, files, 9, 9)
    names: set[str] = set()
    for number, splits in enumerate((clean_ras(), clean_triples(), clean_conditions())):
        folder = write_set(tmp_path / str(number), splits)
        outcome = Audit(split_files([str(folder)]), settings).run()
        names |= {finding.name for finding in outcome.findings}
    return names


def test_the_page_explains_every_finding_and_no_other(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Records")[2]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall("`(.+?)`", row)} == every_finding(tmp_path)


@pytest.mark.exhaustive
def test_memory_does_not_hold_the_texts(tmp_path: Path) -> None:
    def peak(questions: int) -> int:
        folder = write_set(tmp_path / str(questions), long_questions(questions))
        audit = Audit(split_files([str(folder)]), Settings(token_counter("words")[0]))
        tracemalloc.start()
        audit.run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(10)
    # What is kept a record: its hashes, and copies of these while they are sorted.
    small, large = peak(1000), peak(3000)
    assert (large - small) / 2000 < 400


def long_questions(count: int) -> Splits:
    """Answers of two kilobytes each, of few words: each word that is looked at is traced."""
    text = f"Which{'ever' * 20} of these is it? " * 20
    answers = (sample(f"q{n}/answer", "answer", f"{n} {text}", [], f"It {n}") for n in range(count))
    return {"train": list(answers)}


def test_what_a_builder_wrote_is_audited(tmp_path: Path) -> None:
    source = write_questions(tmp_path / "questions.jsonl", [question(n) for n in range(12)])
    built = run(
        "build_subq.py", "--source", f"2wikimultihopqa={source}", "--fractions", "0.6,0.4,0",
        *WORDS, "--out", tmp_path / "set", cwd=tmp_path,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    done = run(
        "audit.py", tmp_path / "set", "--questions", source, *WORDS, "--out", tmp_path / "r",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert read_report(tmp_path / "r")["errors"] == 0
    leaked = run(
        "audit.py", tmp_path / "set", "--exclude", source, *WORDS, "--out", tmp_path / "r",
        cwd=tmp_path,
    )  # fmt: skip
    assert leaked.returncode == 1
    assert not_ok(read_report(tmp_path / "r"))["test_question"]["count"] == 12


@pytest.mark.slow
def test_real_data(tmp_path: Path) -> None:
    source = shared_data_file("qa/musique_train.jsonl")
    exclude = shared_data_file("qa/musique_test.jsonl")
    built = run(
        "build_subq.py", "--source", f"musique={source}", "--exclude", exclude, "--limit", "60",
        "--skip-bad", *WORDS, "--out", tmp_path / "set", cwd=tmp_path,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    done = run(
        "audit.py", tmp_path / "set", "--exclude", exclude, "--questions", source, *WORDS,
        "--out", tmp_path / "r", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    found = {finding["name"]: finding for finding in summary["findings"]}
    # Sixty MuSiQue questions, none of which goes without retrieval, and no plans are balanced.
    assert {name: finding["severity"] for name, finding in not_ok(summary).items()} == {
        "retrieval_elsewhere": "warning",
        "missing_kind": "warning",
        "steps_foretell_label": "warning",
        "self_loop": "warning",
        "subquery_names_found_answer": "note",
        "empty_graph": "note",
        "far_from_paper": "note",
    }
    # A hop that names its own subject leaves some.
    assert found["self_loop"]["count"] <= 0.02 * found["self_loop"]["of"]
    assert found["broken_record"]["of"] > 150
    # --exclude left out what shares a fact, and every question was looked up.
    for name in ("test_hop", "test_triple", "test_paraphrase"):
        assert (found[name]["count"], found[name]["of"]) == (0, 60), found[name]
