"""derived_comparisons.py: what the rule decides by itself, counted by type."""

import json
from pathlib import Path

import pytest

from benchmarks.derived_comparisons import main
from models.formats.records import QuestionRecord, write_records
from models.formats.triples import Triple

BORN = (Triple("Ana", "date of birth", "1901"), Triple("Bo", "date of birth", "1950"))
FROM = (Triple("Ana", "country of citizenship", "France"),
        Triple("Bo", "country of citizenship", "Chad"))  # fmt: skip
NAMES = (("Ana", 0), ("Bo", 0))


def question(
    number: int, text: str, answer: str, kind: str, evidences: tuple[Triple, ...] = ()
) -> QuestionRecord:
    return QuestionRecord(
        str(number), text, answer, type=kind, supporting_facts=NAMES, evidences=evidences
    )


QUESTIONS = [
    question(1, "Who was born first, Ana or Bo?", "Ana", "comparison", BORN),
    question(2, "Who was born first, Ana or Bo?", "Bo", "comparison", BORN),  # a wrong gold answer
    question(3, "Are Ana and Bo from the same country?", "no", "comparison", FROM),
    question(4, "Who was born first, Ana or Bo?", "Ana", "comparison"),
    question(5, "Which of Ana and Bo has the bigger dog?", "Ana", "comparison"),
    question(6, "Where was the friend of Ana born?", "Brill", "bridge", BORN),
]


def test_recognised_and_decided_are_counted_by_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(tmp_path / "questions.jsonl", QUESTIONS)
    arguments = ["--datasets", f"people={tmp_path / 'questions.jsonl'}", "--json"]
    monkeypatch.setattr("sys.argv", ["derived_comparisons.py", *arguments])

    main()

    found = json.loads(capsys.readouterr().out.splitlines()[-1])["people"]
    assert list(found) == ["bridge", "comparison", "all"]
    assert found["comparison"] == {
        "questions": 5, "with evidences": 3, "recognised": 4, "decided": 3, "decided right": 2,
    }  # fmt: skip
    assert found["bridge"]["recognised"] == found["bridge"]["decided"] == 0
    assert found["all"]["questions"] == 6
