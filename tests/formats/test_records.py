"""Records round-trip through their files, and a broken one is named."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats.planning import HistoryStep
from models.formats.records import (
    DecompositionStep,
    InstructionSample,
    PassageRecord,
    QuestionRecord,
    RasSample,
    RecordError,
    TriplesSample,
    read_records,
    write_records,
)
from models.formats.topics import OfferedChoice
from models.formats.triples import Triple

TEXT = st.text()
TRIPLES = st.lists(st.builds(Triple, TEXT, TEXT, TEXT))
QUESTIONS = st.builds(
    QuestionRecord,
    TEXT,
    TEXT,
    TEXT,
    st.lists(TEXT),
    TEXT,
    st.lists(st.tuples(TEXT, st.lists(TEXT))),
    st.lists(st.tuples(TEXT, st.integers())),
    TRIPLES,
    st.lists(st.builds(DecompositionStep, TEXT, TEXT, st.none() | st.integers())),
)
SAMPLES = st.builds(
    RasSample,
    TEXT,
    st.sampled_from(["plan", "answer"]),
    TEXT,
    st.lists(st.builds(HistoryStep, TEXT, TRIPLES.map(tuple))),
    TEXT,
)
FILLED = TEXT.filter(str.strip)
NAMES = st.lists(FILLED, min_size=1, unique=True)
CHOICES = st.builds(
    lambda question_id, number, question, topic, names: OfferedChoice(
        f"{question_id}/{number}", question, "subtopics" if topic else "topics", topic, names,
        names[: number + 1][::-1],
    ),
    TEXT.filter(bool), st.integers(0, 5), TEXT, st.just("") | FILLED, NAMES,
)  # fmt: skip
RECORDS = (
    QUESTIONS
    | CHOICES
    | SAMPLES
    | st.builds(PassageRecord, TEXT, TEXT, TEXT)
    | st.builds(TriplesSample, TEXT, TEXT, st.lists(st.builds(Triple, FILLED, FILLED, FILLED)))
    | st.builds(
        InstructionSample,
        TEXT,
        st.sampled_from(InstructionSample.tasks),
        *[FILLED] * 2,
    )
)


@given(RECORDS)
def test_round_trip_through_json(
    record: QuestionRecord
    | RasSample
    | PassageRecord
    | TriplesSample
    | InstructionSample
    | OfferedChoice,
) -> None:
    text = json.dumps(record.to_json())
    assert type(record).from_json(json.loads(text)) == record


def test_files_round_trip(tmp_path: Path) -> None:
    passages = [PassageRecord("1", "T", "a\nb"), PassageRecord("2", "", "\u2028")]
    assert write_records(tmp_path / "corpus.jsonl", passages) == 2
    assert list(read_records(tmp_path / "corpus.jsonl", PassageRecord)) == passages


@pytest.mark.parametrize(
    ("line", "field", "problem"),
    [
        ('{"id": "a", "question": "q"', "(line)", "malformed JSON"),
        ('["a"]', "(record)", "not a JSON object"),
        ('{"id": "a", "answer": "b"}', "question", "missing"),
        ('{"id": "a", "question": {}, "answer": "b"}', "question", "is dict, not a string"),
        ('{"id": "a", "question": "q", "answer": []}', "answer", "empty list"),
        ('{"id": "a", "question": "q", "answer": "b", "context": 3}', "context", "not a list"),
        (
            '{"id": "a", "question": "q", "answer": "b", "evidences": [["s", "p"]]}',
            "evidences[0]",
            "wrong form",
        ),
        (
            '{"id": "a", "question": "q", "answer": "b", "question_decomposition": ["Who?"]}',
            "question_decomposition[0]",
            "wrong form",
        ),
        ("[" * 100_000, "(line)", "malformed JSON"),
        ('{"id": ' + "1" * 5_000 + "}", "(line)", "malformed JSON"),
    ],
)
def test_broken_line_is_named(tmp_path: Path, line: str, field: str, problem: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(f'{{"id": "0", "question": "q", "answer": "a"}}\n\n{line}\n')
    with pytest.raises(RecordError) as caught:
        list(read_records(path, QuestionRecord))
    message = str(caught.value)
    assert message.startswith(f"{path}:3: field '{field}': ")
    assert problem in message


@pytest.mark.parametrize("blank", ["", " "])
def test_a_triple_with_a_blank_field_is_named(tmp_path: Path, blank: str) -> None:
    path = tmp_path / "triples.jsonl"
    record = {"id": "a", "text": "t", "triples": [["s", "p", "o"], ["s", "p", blank]]}
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(RecordError, match=r"triples\.jsonl:1: field 'triples\[1\]'"):
        list(read_records(path, TriplesSample))


def test_a_byte_order_mark_is_no_part_of_a_record(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "1", "text": "a"}\r\n', encoding="utf-8-sig", newline="")
    assert [record.id for record in read_records(path, PassageRecord)] == ["1"]


def test_broken_lines_can_be_skipped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "1", "text": "a"}\n{"id": "2"}\n{"id": "3", "text": "c"}\n')
    errors: list[RecordError] = []
    records = list(read_records(path, PassageRecord, on_error=errors.append))
    assert [record.id for record in records] == ["1", "3"]
    assert [error.where for error in errors] == [f"{path}:2"]


def test_unknown_task_is_refused() -> None:
    with pytest.raises(RecordError, match="Write 'plan' or 'answer'"):
        RasSample.from_json({"id": "a", "task": "guess", "question": "q", "label": "x"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"task": "guess"}, "Write one of subquery, decompose"),
        ({"task": "judge"}, "is 'judge', the nearest is 'judge_gap'"),
        ({"label": " "}, "'label': is blank"),
    ],
)
def test_a_broken_instruction_sample_is_named(change: dict[str, str], said: str) -> None:
    record = {"id": "q/1/decompose/0", "task": "decompose", "prompt": "p", "label": "l"}
    assert InstructionSample.from_json(record).source_id == "q/1"
    with pytest.raises(RecordError, match=said):
        InstructionSample.from_json({**record, **change})


@pytest.mark.parametrize("sample_id", ["q/1/plan/2", "q/1/answer"])
def test_question_id_of_a_sample(sample_id: str) -> None:
    assert RasSample(sample_id, "plan", "q", [], "x").question_id == "q/1"


def test_failed_writing_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    write_records(path, [PassageRecord("1", "t", "a")])

    def broken() -> "list[PassageRecord]":
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_records(path, (record for _ in "a" for record in broken()))
    assert [p.name for p in tmp_path.iterdir()] == ["corpus.jsonl"]
    assert len(list(read_records(path, PassageRecord))) == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": "a"}, "'id': is 'a'"),
        ({"id": "a/"}, "'id': is 'a/'"),
        ({"level": "themes"}, "'level': is 'themes'. Write 'topics' or 'subtopics'"),
        ({"level": "subtopics"}, "'topic': is '' for subtopics"),
        ({"topic": "Arts"}, "'topic': is 'Arts' for topics"),
        ({"names": []}, "'names': no name in it"),
        ({"names": ["Cinema", 3]}, r"'names\[1\]': has the wrong form"),
        ({"names": ["Cinema", "Cinema"]}, "'names': holds a name twice"),
        ({"chosen": []}, "'chosen': no name in it"),
        ({"chosen": ["Music"]}, "'chosen': \"Music\" is not among 'names'"),
    ],
)
def test_an_offered_choice_that_cannot_be_is_named(change: dict[str, object], problem: str) -> None:
    right = {"id": "a/0", "question": "q", "level": "topics", "names": ["Cinema"],
             "chosen": ["Cinema"]}  # fmt: skip
    assert OfferedChoice.from_json(right).question_id == "a"
    with pytest.raises(RecordError, match=f"^f.jsonl:3: field {problem}"):
        OfferedChoice.from_json({**right, **change}, "f.jsonl:3")


def test_a_label_holds_no_more_than_may_be_chosen() -> None:
    names = [f"Topic {number}" for number in range(30)]
    choice = OfferedChoice("a/0", "q", "topics", "", names, names[::-1])
    assert json.loads(choice.label) == {"topics": names[:19:-1]}
    under = OfferedChoice("a/1", "q", "subtopics", "Arts", names, names[::-1])
    assert len(json.loads(under.label)["subtopics"]) == 25
