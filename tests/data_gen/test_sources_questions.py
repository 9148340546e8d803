"""Question sources: official and contract forms, bad records, and the public data as it is."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import RecordError
from data_gen.sources.checks import check_supporting_facts
from data_gen.sources.open_source import QUESTION_SOURCES, read_questions
from models.formats.records import DecompositionStep, QuestionRecord, write_records
from models.formats.triples import Triple
from tests.shared_data import shared_data_file

HOTPOT: dict[str, Any] = {
    "_id": "5a8b",
    "question": "Which band had the drummer of “Counterparts”?",
    "answer": "Rush",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": [["Counterparts", 0], ["Neil Peart", 1]],
    "context": [
        ["Counterparts", ["Counterparts is an album.", " It is by Rush."]],
        ["Neil Peart", ["Neil Peart was a drummer.", " He played in Rush."]],
    ],
}
TWOWIKI: dict[str, Any] = {
    **HOTPOT,
    "evidences": [["Counterparts", "performer", "Rush"], ["Neil Peart", "member of", "Rush"]],
    "evidences_id": [["Q1", "performer", "Q2"], ["Q3", "member of", "Q2"]],
    "answer_id": "Q2",
}
MUSIQUE: dict[str, Any] = {
    "id": "2hop__1_2",
    "paragraphs": [
        {"idx": 0, "title": "Rush", "paragraph_text": "Rush is a band.", "is_supporting": True},
        {"idx": 1, "title": "Rush", "paragraph_text": "A rush is a plant.", "is_supporting": False},
        {"idx": 2, "title": "Peart", "paragraph_text": "He drummed.", "is_supporting": True},
    ],
    "question": "Where was the drummer of Rush born?",
    "question_decomposition": [
        {"id": 1, "question": "Rush >> drummer", "answer": "Peart", "paragraph_support_idx": 0},
        {"id": 2, "question": "#1 >> born", "answer": "Hamilton", "paragraph_support_idx": 2},
    ],
    "answer": "Hamilton",
    "answer_aliases": ["Hamilton, Ontario"],
    "answerable": True,
}
OFFICIAL = {"hotpotqa": HOTPOT, "2wikimultihopqa": TWOWIKI, "musique": MUSIQUE}


def write_official(folder: Path, name: str, *records: Any) -> Path:
    """The records in the official file's form: one array, or JSON Lines for MuSiQue."""
    path = folder / f"{name}.json"
    lines = "\n".join(map(json.dumps, records))
    path.write_text(lines if name == "musique" else json.dumps(list(records)), encoding="utf-8")
    return path


def read_one(name: str, path: Path) -> QuestionRecord:
    [record] = read_questions(name, path)
    return record


@pytest.mark.parametrize("name", OFFICIAL)
def test_official_and_contract_forms_give_the_same_record(name: str, tmp_path: Path) -> None:
    record = read_one(name, write_official(tmp_path, name, OFFICIAL[name]))
    write_records(tmp_path / "contract.jsonl", [record])
    assert read_one(name, tmp_path / "contract.jsonl") == record
    assert read_one("contract", tmp_path / "contract.jsonl") == record


def test_official_fields_arrive_unchanged(tmp_path: Path) -> None:
    record = read_one("2wikimultihopqa", write_official(tmp_path, "2wikimultihopqa", TWOWIKI))
    assert (record.id, record.answer, record.type) == ("5a8b", "Rush", "bridge")
    assert record.context[1] == ("Neil Peart", ["Neil Peart was a drummer.", " He played in Rush."])
    assert record.supporting_facts == [("Counterparts", 0), ("Neil Peart", 1)]
    assert record.evidences[0] == Triple("Counterparts", "performer", "Rush")


def test_musique_paragraphs_become_context_by_idx(tmp_path: Path) -> None:
    shuffled = {**MUSIQUE, "paragraphs": MUSIQUE["paragraphs"][::-1]}
    record = read_one("musique", write_official(tmp_path, "musique", shuffled))
    assert record == read_one("musique", write_official(tmp_path, "musique", MUSIQUE))
    assert [title for title, _ in record.context] == ["Rush", "Rush", "Peart"]
    assert record.supporting_facts == [("Rush", 0), ("Peart", 0)]
    assert record.question_decomposition[1] == DecompositionStep("#1 >> born", "Hamilton", 2)
    assert record.type == "2hop" and record.answers == ["Hamilton", "Hamilton, Ontario"]


def test_parquet_with_json_strings_equals_the_official_file(tmp_path: Path) -> None:
    official = read_one("2wikimultihopqa", write_official(tmp_path, "2wikimultihopqa", TWOWIKI))
    fields = ("context", "supporting_facts", "evidences")
    row = {**TWOWIKI, **{field: json.dumps(TWOWIKI[field]) for field in fields}}
    table = pyarrow.Table.from_pylist([{k: v for k, v in row.items() if isinstance(v, str)}])
    pyarrow.parquet.write_table(table, tmp_path / "dev.parquet")
    assert read_one("2wikimultihopqa", tmp_path / "dev.parquet") == official


@pytest.mark.parametrize(
    ("source", "row"),
    [
        ("answers", {"id": "1", "question": "q", "answers": ["a", "b"]}),
        (
            "paragraphs",
            {
                "id": "1",
                "question": "q",
                "answer": "a",
                "answer_aliases": ["b"],
                "paragraphs": [
                    {"title": "t", "text": "x", "is_supporting": True},
                    {"title": "u", "text": "y", "is_supporting": False},
                ],
            },
        ),
    ],
)
def test_contract_variants(source: str, row: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text(json.dumps(row), encoding="utf-8")
    record = read_one("contract", tmp_path / "v.jsonl")
    assert record.answers == ["a", "b"]
    if source == "paragraphs":
        assert record.context == [("t", ["x"]), ("u", ["y"])]
        assert record.supporting_facts == [("t", 0)]


def test_multiple_choice_becomes_letters_and_a_missing_id_the_line(tmp_path: Path) -> None:
    row = {"question": "Hot?", "choices": {"1": "ice", "2": "fire"}, "answer": "2"}
    (tmp_path / "arc.jsonl").write_text("\n" + json.dumps(row), encoding="utf-8")
    record = read_one("contract", tmp_path / "arc.jsonl")
    assert record.id == "arc:2"
    assert record.question == "Hot?\nA: ice\nB: fire"
    assert record.answers == ["B", "fire"]


def test_world_folder_is_read_split_by_split(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        record = QuestionRecord(id=split, question="q", answer="a")
        write_records(tmp_path / f"questions_{split}.jsonl", [record])
    assert [record.id for record in read_questions("world", tmp_path)] == ["dev", "train"]
    with pytest.raises(FileNotFoundError, match="build_world"):
        read_questions("world", tmp_path / "..").__next__()


text = st.text(min_size=1).filter(str.strip)
sentence_lists = st.lists(st.text(), min_size=1, max_size=3)


@st.composite
def question_records(draw: Callable[[st.SearchStrategy[Any]], Any]) -> QuestionRecord:
    context = draw(st.lists(st.tuples(st.text(), sentence_lists), max_size=3))
    places = [(title, i) for title, sentences in context for i in range(len(sentences))]
    support = st.sampled_from(range(len(context))) if context else st.none()
    step = st.builds(DecompositionStep, text, st.text(), st.none() | support)
    facts = st.lists(st.sampled_from(places), max_size=3) if places else st.just([])
    return QuestionRecord(
        id=draw(text),
        question=draw(text),
        answer=draw(text),
        answer_aliases=draw(st.lists(st.text(), max_size=2)),
        type=draw(st.text()),
        context=context,
        supporting_facts=draw(facts),
        evidences=draw(st.lists(st.builds(Triple, text, text, text), max_size=2)),
        question_decomposition=draw(st.lists(step, max_size=2)),
    )


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(question_records(), min_size=1, max_size=3))
def test_contract_round_trip(records: list[QuestionRecord], tmp_path: Path) -> None:
    write_records(tmp_path / "r.jsonl", records)
    assert list(read_questions("contract", tmp_path / "r.jsonl")) == records


def broken(name: str, **changes: Any) -> dict[str, Any]:
    """An official record with fields replaced, or removed where the value is None."""
    record = {**OFFICIAL[name], **changes}
    return {field: value for field, value in record.items() if value is not None}


BAD: list[tuple[str, Any, str]] = [
    ("hotpotqa", broken("hotpotqa", question=None), "'question': missing"),
    ("hotpotqa", broken("hotpotqa", answer=None), "'answer': missing"),
    ("hotpotqa", broken("hotpotqa", answer="  "), "'answer': is blank"),
    ("hotpotqa", broken("hotpotqa", context=None), "'context': missing"),
    ("hotpotqa", broken("hotpotqa", context=7), "'context': has the wrong form"),
    ("hotpotqa", broken("hotpotqa", context=[["t"]]), r"'context\[0\]'"),
    ("hotpotqa", broken("hotpotqa", question=["q"]), "'question': is list"),
    ("hotpotqa", broken("hotpotqa", supporting_facts=None), "'supporting_facts': missing"),
    ("hotpotqa", broken("hotpotqa", supporting_facts=[["Nobody", 0]]), "titled 'Nobody'"),
    ("hotpotqa", broken("hotpotqa", supporting_facts=[["Neil Peart", 2]]), "out of range"),
    ("hotpotqa", broken("hotpotqa", supporting_facts=[["Neil Peart", -1]]), "out of range"),
    ("hotpotqa", "a text", "not a JSON object"),
    ("2wikimultihopqa", broken("2wikimultihopqa", evidences=[["a", "b"]]), r"'evidences\[0\]'"),
    ("2wikimultihopqa", broken("2wikimultihopqa", evidences=[["a", " ", "c"]]), "blank predicate"),
    ("2wikimultihopqa", broken("2wikimultihopqa", context="[[1"), "'context': has the wrong form"),
    ("musique", broken("musique", answerable=False), "'answerable'"),
    ("musique", broken("musique", paragraphs=[{"idx": 0, "title": "t"}]), r"'paragraphs\[0\]'"),
    ("musique", broken("musique", paragraphs=MUSIQUE["paragraphs"][1:]), "idx runs"),
    (
        "musique",
        broken("musique", question_decomposition=[{"question": "q", "paragraph_support_idx": 3}]),
        r"'question_decomposition\[0\].paragraph_support_idx': 3 is out of range",
    ),
    ("contract", {"id": "1", "question": "q", "answers": []}, "'answer': is an empty list"),
    ("contract", {"question": "q", "answer": "C", "choices": {"A": "x"}}, "none of the choices"),
    ("contract", {"question": "q", "answer": "A", "choices": ["x"]}, "'choices'"),
]


@pytest.mark.parametrize(("name", "record", "message"), BAD)
def test_bad_record_is_named_or_skipped(
    name: str, record: Any, message: str, tmp_path: Path
) -> None:
    good = OFFICIAL.get(name, {"id": "1", "question": "q", "answer": "a"})
    path = write_official(tmp_path, "musique" if name == "contract" else name, good, record)
    place = f"{path}[1]" if path.read_text()[0] == "[" else f"{path}:2"
    with pytest.raises(RecordError, match=message) as caught:
        list(read_questions(name, path))
    assert str(caught.value).startswith(f"{place}: field ")
    errors: list[RecordError] = []
    assert len(list(read_questions(name, path, errors.append))) == 1
    assert [error.where for error in errors] == [place]


def test_repeated_titles_need_one_paragraph_with_the_sentence() -> None:
    context = [("Rush", ["one"]), ("Rush", ["one", "two"])]
    record = QuestionRecord("1", "q", "a", context=context, supporting_facts=[("Rush", 1)])
    check_supporting_facts(record, "here")
    check_supporting_facts(QuestionRecord("1", "q", "a", supporting_facts=[("x", 9)]), "here")


def test_unknown_name_and_missing_file_are_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'squad' is unknown, the nearest is .*hotpotqa"):
        read_questions("squad", tmp_path / "x")
    for name in QUESTION_SOURCES:
        with pytest.raises(FileNotFoundError, match="no such file"):
            read_questions(name, tmp_path / "x.jsonl")
    with pytest.raises(IsADirectoryError, match="Name one data file"):
        read_questions("hotpotqa", tmp_path)


SHARED = [
    ("hotpotqa", "qa/hotpotqa_train", 2014, 0),
    ("hotpotqa", "qa/hotpotqa_test", 300, 0),
    ("2wikimultihopqa", "qa/2wikimultihopqa_train", 1268, 6),
    ("2wikimultihopqa", "qa/2wikimultihopqa_test", 150, 0),
    ("musique", "qa/musique_train", 350, 0),
    ("musique", "qa/musique_test", 80, 0),
    ("contract", "qa/popqa", 667, 0),
    ("contract", "qa/arc_challenge", 981, 0),
    ("contract", "qa/medical_story_qa", 906, 0),
    ("contract", "qa/multihop_rag", 667, 0),
    ("contract", "qa/eli5_sample", 667, 0),
    ("2wikimultihopqa", "extra/2wikimultihopqa_evidences", 3378, 0),
    ("musique", "extra/musique_decompositions", 2217, 0),
    # 2,703 of these decompositions come without the question's answer.
    ("contract", "extra/subquestions", 4128, 2703),
    # Of the decompositions these are question trees.
    ("subquestions", "extra/subquestions", 1406, 0),
]


@pytest.mark.parametrize(("name", "file", "good", "bad"), SHARED)
def test_public_data_is_read_whole(name: str, file: str, good: int, bad: int) -> None:
    errors: list[RecordError] = []
    records: Iterator[QuestionRecord] = read_questions(
        name, shared_data_file(f"{file}.jsonl"), errors.append
    )
    assert (sum(1 for _ in records), len(errors)) == (good, bad)
