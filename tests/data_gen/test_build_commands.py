"""build_subq.py and build_triples.py as they are run: by path, on fixtures and on real data."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from models.formats.records import QuestionRecord, RasSample, TriplesSample, read_records
from tests import processes
from tests.shared_data import shared_data_file

DATA_GEN = Path(__file__).resolve().parents[2] / "data_gen"
FILM = "Zone is a 2017 Canadian film directed by Denys Roe."
PERSON = "Denys Roe (born 3 May 1967 in Montreal) is a Canadian film director."


def run(script: str, *arguments: str | Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return processes.run(DATA_GEN / script, *arguments, cwd=cwd)


def run_anew(script: str, *arguments: str | Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command in an interpreter of its own, which orders sets in another way."""
    return processes.fresh(DATA_GEN / script, *arguments, cwd=cwd)


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return path


def question(number: int) -> dict[str, Any]:
    return {
        "id": f"q{number}",
        "question": f"Where was the director of Zone {number} born?",
        "answer": "Montreal",
        "type": "compositional",
        "context": [[f"Zone {number}", [FILM]], ["Denys Roe", [PERSON]], ["Lake", ["A lake."]]],
        "supporting_facts": [[f"Zone {number}", 0], ["Denys Roe", 0]],
        "evidences": [
            [f"Zone {number}", "director", "Denys Roe"],
            ["Denys Roe", "place of birth", "Montreal"],
        ],
    }


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "questions.jsonl", [question(number) for number in range(12)])


@pytest.fixture
def choices(tmp_path: Path) -> Path:
    record = {"id": "arc1", "question": "Why?", "choices": {"1": "so", "2": "no"}, "answer": "2"}
    return write_lines(tmp_path / "arc.jsonl", [record])


def read_samples(folder: Path) -> dict[str, list[RasSample]]:
    names = ("train", "dev", "test")
    return {name: list(read_records(folder / f"{name}.jsonl", RasSample)) for name in names}


def test_subq_command_writes_whole_questions_to_one_split(
    questions: Path, choices: Path, tmp_path: Path
) -> None:
    arguments = (
        "--source", f"2wikimultihopqa={questions}", "--no-retrieval", choices,
        "--fractions", "0.6,0.4,0", "--tokenizer", "words", "--json",
    )  # fmt: skip
    done = run("build_subq.py", *arguments, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    splits = read_samples(tmp_path / "out")
    assert summary["splits"] == {name: len(samples) for name, samples in splits.items()}
    owners = [{s.question_id for s in samples} for samples in splits.values()]
    assert not owners[0] & owners[1]
    assert owners[0] | owners[1] == {*(f"q{n}" for n in range(12)), "arc1"}
    everything = [s for samples in splits.values() for s in samples]
    assert {s.label for s in everything if s.question_id == "arc1"} == {"[NO_RETRIEVAL]", "B"}
    arc = next(s for s in everything if s.question_id == "arc1")
    assert arc.question == "Which is true? Output A, B, C, or D. Why?\nA: so\nB: no"
    card = json.loads((tmp_path / "out" / "card.json").read_text(encoding="utf-8"))
    assert card["planning"]["queries"] + card["answering"]["queries"] == len(everything)
    assert card["sources"][0]["licence"] == "Apache-2.0"
    assert "# Planner and answerer samples" in (tmp_path / "out/card.md").read_text(
        encoding="utf-8"
    )
    run_anew("build_subq.py", *arguments, "--out", tmp_path / "again", cwd=tmp_path)
    for name in ("train.jsonl", "dev.jsonl", "card.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_plans_ahead_are_made_of_annotation_alone(questions: Path, tmp_path: Path) -> None:
    given = ("--source", f"2wikimultihopqa={questions}", "--plan-ahead", "--out", tmp_path / "out")
    done = run("build_subq.py", *given, "--tokenizer", "words", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    everything = [s for samples in read_samples(tmp_path / "out").values() for s in samples]
    labels = {sample.label for sample in everything if sample.question_id == "q3"}
    end = "[SUBQ] Where was Denys Roe born?\n[SUFFICIENT]"
    assert labels == {"[SUBQ] Who directed Zone 3?", end, "Montreal"}
    card = json.loads((tmp_path / "out" / "card.json").read_text(encoding="utf-8"))
    assert card["options"]["plan_ahead"] is True
    assert not [name for name in card["counts"] if name.startswith("steps")]
    refused = run("build_subq.py", *given, "--planned-first", "0.5", cwd=tmp_path)
    assert refused.returncode == 2 and "--plan-ahead retrieves nothing" in refused.stderr


def test_what_the_base_model_answers_right_needs_no_retrieval(
    questions: Path, choices: Path, tmp_path: Path
) -> None:
    """Algorithm 1, lines 3 to 6: by its own attempts, not by where a question comes from."""
    told = {"id": "arc2", "question": "Who?", "choices": {"1": "x", "2": "y"}, "answer": "1"}
    more = write_lines(tmp_path / "more.jsonl", [told])
    attempts = write_lines(tmp_path / "attempts.jsonl", [
        {"id": "q1", "prediction": "Montreal", "right": True},
        {"id": "q2", "prediction": "Oslo", "right": False},
        {"id": "arc1", "prediction": "A", "right": False},
        {"id": "arc2", "prediction": "A", "right": True},
    ])  # fmt: skip
    done = run(
        "build_subq.py", "--source", f"2wikimultihopqa={questions}", "--no-retrieval", choices,
        "--no-retrieval", more, "--attempts", attempts, "--tokenizer", "words", "--json",
        "--out", tmp_path / "out", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.strip().splitlines()[-1])["counts"]
    assert counts["left out: not answered without retrieval"] == 1
    samples = [s for own in read_samples(tmp_path / "out").values() for s in own]
    direct = {s.question_id for s in samples if s.label == "[NO_RETRIEVAL]"}
    assert direct == {"q1", "arc2"}
    assert "arc1" not in {s.question_id for s in samples}
    assert {s.label for s in samples if s.question_id == "q1"} == {"[NO_RETRIEVAL]", "Montreal"}


def test_contradictory_questions_are_refused_or_dropped(tmp_path: Path) -> None:
    other = {**question(1), "id": "twin", "answer": "Quebec"}
    file = write_lines(tmp_path / "questions.jsonl", [question(1), other])
    arguments = (
        "--source",
        f"2wikimultihopqa={file}",
        "--tokenizer",
        "words",
        "--out",
        tmp_path / "o",
    )
    refused = run("build_subq.py", *arguments, cwd=tmp_path)
    assert refused.returncode != 0
    assert "q1/answer" in refused.stderr
    assert "twin/answer" in refused.stderr
    assert not (tmp_path / "o").exists()
    dropped = run("build_subq.py", *arguments, "--skip-contradictions", "--json", cwd=tmp_path)
    counts = json.loads(dropped.stdout.strip().splitlines()[-1])["counts"]
    assert counts["contradictory samples dropped"] == 1


def test_broken_records_are_named_and_can_be_skipped(tmp_path: Path) -> None:
    broken = {**question(2), "supporting_facts": [["Zone 2", 7]]}
    file = write_lines(tmp_path / "questions.jsonl", [question(1), broken])
    arguments = (
        "--source",
        f"2wikimultihopqa={file}",
        "--tokenizer",
        "words",
        "--out",
        tmp_path / "o",
    )
    refused = run("build_subq.py", *arguments, cwd=tmp_path)
    assert refused.returncode != 0
    assert "questions.jsonl:2" in refused.stderr
    assert "supporting_facts" in refused.stderr
    skipped = run("build_subq.py", *arguments, "--skip-bad", cwd=tmp_path)
    assert skipped.returncode == 0, skipped.stderr
    card = json.loads((tmp_path / "o" / "card.json").read_text(encoding="utf-8"))
    assert card["skipped_records"] == {"2wikimultihopqa": 1}


def test_test_questions_are_excluded(questions: Path, tmp_path: Path) -> None:
    # Without evidences, which all of these questions share.
    tests = [{**question(3), "id": "elsewhere"}, question(4)]
    tests = [{**record, "evidences": []} for record in tests]
    shared = {"id": "t", "question": "Who?", "answer": "x"}
    shared["question_decomposition"] = [{"question": "Zone 5 >> director", "answer": "Denys Roe"}]
    test = write_lines(tmp_path / "test.jsonl", [*tests, shared])
    done = run(
        "build_subq.py", "--source", f"2wikimultihopqa={questions}", "--exclude", test,
        "--tokenizer", "words", "--out", tmp_path / "out", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ids = {s.question_id for samples in read_samples(tmp_path / "out").values() for s in samples}
    assert ids == {f"q{number}" for number in range(12)} - {"q3", "q4", "q5"}
    counts = json.loads((tmp_path / "out" / "card.json").read_text(encoding="utf-8"))["counts"]
    assert {name: n for name, n in counts.items() if name.startswith("left out: ")} == {
        "left out: same wording as a test question": 1,
        "left out: a test question": 1,
        "left out: shares an evidence triple with a test question": 1,
    }


def test_triples_command_aligns_excludes_and_filters(questions: Path, tmp_path: Path) -> None:
    corpus = write_lines(
        tmp_path / "corpus.jsonl",
        [
            {"id": "1", "title": "Zone 1", "text": FILM},
            {
                "id": "2",
                "title": "Ann Doe",
                "text": "Ann Doe (born 3 May 1967) is an English poet.",
            },
        ],
    )
    test = write_lines(tmp_path / "test.jsonl", [{**question(4), "id": "t"}])
    texts = [
        {
            "text": "Ann is in Bonn.",
            "triples": [["Ann", "place", "Bonn"], ["Ann", "size", "tall"]],
            "dataset": "x",
        },
        {"text": "D is in E.", "triples": [["D", "place", "E"]], "dataset": "y"},
    ]
    source = write_lines(tmp_path / "texts.jsonl", texts)
    done = run(
        "build_triples.py", "--source", f"2wikimultihopqa={questions}", "--corpus", corpus,
        "--exclude", test, "--source", f"contract={source}", "--datasets", "x", "--grounded",
        "--fractions", "1,0,0", "--tokenizer", "words", "--json", "--out", tmp_path / "out",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    samples = {s.text: s for s in read_records(tmp_path / "out" / "train.jsonl", TriplesSample)}
    titles = {text.split(":")[0] for text in samples}
    assert {"Zone 1", "Ann Doe", "Ann is in Bonn."} <= titles
    assert not {"Zone 4", "Denys Roe", "D is in E."} & titles
    assert [t.object for t in samples["Ann is in Bonn."].triples] == ["Bonn"]
    assert [t.predicate for t in samples[f"Zone 1: {FILM}"].triples] == [
        "publication date",
        "country of origin",
        "director",
    ]
    card = json.loads((tmp_path / "out" / "card.json").read_text(encoding="utf-8"))
    director = next(r for r in card["labelling_functions"] if r["relation"] == "director")
    assert director["precision"] == 1.0


def test_passages_of_test_questions_stay_out_of_the_world_s_triples(tmp_path: Path) -> None:
    world = tmp_path / "world"
    done = run("build_world.py", "--questions", "40", "--out", world, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    test = world / "questions_test.jsonl"
    done = run(
        "build_triples.py", "--source", f"world={world}", "--exclude", test,
        "--out", "triples", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    titles = {
        title
        for record in read_records(test, QuestionRecord)
        for title, _ in record.supporting_facts
    }
    samples = [
        sample
        for split in ("train", "dev", "test")
        for sample in read_records(tmp_path / "triples" / f"{split}.jsonl", TriplesSample)
    ]
    assert titles and samples
    assert not titles & {sample.text.split(": ")[0] for sample in samples}


def test_unknown_sources_and_missing_files_are_said(tmp_path: Path) -> None:
    unknown = run("build_subq.py", "--source", "squad=x", "--out", tmp_path / "o", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "2wikimultihopqa" in unknown.stderr
    missing = run(
        "build_triples.py", "--source", "tekgen=no.tsv", "--out", tmp_path / "o", cwd=tmp_path
    )
    assert missing.returncode != 0
    assert "no.tsv" in missing.stderr


@pytest.mark.slow
def test_commands_on_real_data(tmp_path: Path) -> None:
    wiki = shared_data_file("qa/2wikimultihopqa_train.jsonl")
    musique = shared_data_file("qa/musique_train.jsonl")
    corpus = shared_data_file("corpus/2wikimultihopqa.jsonl")
    common = ("--limit", "40", "--skip-bad", "--tokenizer", "words", "--json")
    subq = run(
        "build_subq.py", "--source", f"2wikimultihopqa={wiki}", "--source", f"musique={musique}",
        "--corpus", f"2wikimultihopqa={corpus}", *common, "--out", tmp_path / "subq", cwd=tmp_path,
    )  # fmt: skip
    assert subq.returncode == 0, subq.stderr
    planning = json.loads(subq.stdout.strip().splitlines()[-1])["planning"]
    assert planning["labels"]["[SUFFICIENT]"] == 80
    assert planning["labels"]["[SUBQ]"] >= 80 + 20
    triples = run(
        "build_triples.py", "--source", f"2wikimultihopqa={wiki}", "--corpus", corpus,
        "--exclude", shared_data_file("qa/2wikimultihopqa_test.jsonl"), *common,
        "--out", tmp_path / "triples", cwd=tmp_path,
    )  # fmt: skip
    assert triples.returncode == 0, triples.stderr
    samples = list(read_records(tmp_path / "triples" / "train.jsonl", TriplesSample))
    assert len(samples) > 80
    assert all(triple.object in s.text for s in samples for triple in s.triples)
