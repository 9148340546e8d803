"""Rows of files: streamed arrays, malformed lines, tables; and data sets by `datasets`."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import RecordError
from data_gen.sources.hub import HubReference, parse_hub_reference
from data_gen.sources.open_source import read_questions
from data_gen.sources.rows import _ArrayReader, iterate_json_array, read_rows

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    items=st.lists(values, max_size=6),
    chunk_size=st.integers(1, 40),
    indent=st.none() | st.integers(0, 2),
    ascii_only=st.booleans(),
)
def test_array_equals_json_load_whatever_the_piece(
    items: list[Any], chunk_size: int, indent: int | None, ascii_only: bool, tmp_path: Path
) -> None:
    path = tmp_path / "array.json"
    text = json.dumps(items, indent=indent, ensure_ascii=ascii_only)
    path.write_bytes(b" " + text.encode("utf-8", "surrogatepass") + b"\n")
    assert list(iterate_json_array(path, chunk_size)) == items


@pytest.mark.parametrize("chunk_size", [3, 1 << 20])
@pytest.mark.parametrize(
    ("text", "read", "problem"),
    [
        ('[{"a": 1}, {"a": }]', 1, "malformed JSON"),
        ('[{"a": 1}, {"a": "un', 1, "malformed JSON"),
        ('[{"a": 1}', 1, "the array is cut"),
        ('[{"a": 1}, ', 1, "malformed JSON"),
        ('[{"a": 1} {"a": 2}]', 1, "expected ',' or ']'"),
        ('[{"a": 1}] tail', 1, "text follows"),
        ('{"a": 1}', 0, "expected '['"),
    ],
)
def test_damaged_array_names_the_item(
    text: str, read: int, problem: str, chunk_size: int, tmp_path: Path
) -> None:
    path = tmp_path / "array.json"
    path.write_text(text, encoding="utf-8")
    items = iterate_json_array(path, chunk_size)
    assert [next(items) for _ in range(read)] == [{"a": 1}] * read
    with pytest.raises(RecordError, match=re.escape(problem)) as caught:
        next(items)
    assert caught.value.where == f"{path}[{read}]"


def test_damage_early_in_a_long_array_is_found_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "array.json"
    path.write_text('[{"a": oops}, ' + '{"a": 1}, ' * 1000 + "{}]", encoding="utf-8")
    with open(path, encoding="utf-8") as file:
        reader = _ArrayReader(file, str(path), 64)
        with pytest.raises(RecordError):
            list(reader.items())
        assert len(reader.buffer) < 1000


def test_malformed_lines_are_named_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n{"a": \n{"a": "\xff"}\n{"a": 2}')
    errors: list[RecordError] = []
    rows = list(read_rows(path, errors.append))
    assert [row.value for row in rows] == [{"a": 1}, {"a": 2}]
    assert [row.fallback_id for row in rows] == ["x:1", "x:5"]
    assert [error.where for error in errors] == [f"{path}:3", f"{path}:4"]
    assert "UTF-8" in str(errors[1])
    with pytest.raises(RecordError, match="malformed JSON"):
        list(read_rows(path))


def test_tables(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('text,triples\n"a, ""b""",c\nd\ne,f\n', encoding="utf-8")
    (tmp_path / "t.tsv").write_text('text\tn\n"a" b\t1\n"x ""y"""\t2\n', encoding="utf-8")
    errors: list[RecordError] = []
    rows = [row.value for row in read_rows(tmp_path / "t.csv", errors.append)]
    assert rows == [{"text": 'a, "b"', "triples": "c"}, {"text": "e", "triples": "f"}]
    assert [error.where for error in errors] == [f"{tmp_path / 't.csv'}:3"]
    texts = [row.value["text"] for row in read_rows(tmp_path / "t.tsv")]
    assert texts == ['"a" b', 'x "y"']


def test_damaged_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(RecordError, match=r"x\.parquet\[0\].*not readable as Parquet"):
        list(read_rows(tmp_path / "x.parquet"))


def test_hub_reference() -> None:
    assert parse_hub_reference("hub:a/b:train") == HubReference("a/b", None, "train")
    reference = parse_hub_reference("hub:a/b:distractor:validation")
    assert (reference.config, reference.split) == ("distractor", "validation")
    assert str(reference) == "hub:a/b:distractor:validation"
    for bad in ("hub:a/b", "a/b:train", "hub:a/b::train", "hub:a:b:c:d"):
        with pytest.raises(ValueError, match="write hub:"):
            parse_hub_reference(bad)


SENTENCES = [["One.", "Two."], ["Three."]]
HUB_ROWS: dict[str, dict[str, Any]] = {
    "hotpotqa": {
        "id": "h1",
        "question": "q",
        "answer": "a",
        "type": "bridge",
        "supporting_facts": {"title": ["T", "U"], "sent_id": [1, 0]},
        "context": {"title": ["T", "U"], "sentences": SENTENCES},
    },
    "2wikimultihopqa": {
        "id": "w1",
        "question": "q",
        "answer": "a",
        "type": "bridge",
        "supporting_facts": [{"title": "T", "sent_id": 1}, {"title": "U", "sent_id": 0}],
        "context": [
            {"title": title, "content": content}
            for title, content in zip("TU", SENTENCES, strict=True)
        ],
        "evidences": [{"fact": "T", "relation": "r", "entity": "U"}],
    },
    "musique": {
        "id": "2hop__1_2",
        "question": "q",
        "answer": "a",
        "answer_aliases": [],
        "answerable": True,
        "paragraphs": [
            {"idx": i, "title": "TU"[i], "paragraph_text": "p", "is_supporting": True}
            for i in range(2)
        ],
        "question_decomposition": [
            {"id": 5, "question": "s", "answer": "t", "paragraph_support_idx": 1}
        ],
    },
}


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", HUB_ROWS)
def test_hub_rows_are_mapped(
    name: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "set"
    folder.mkdir()
    if form == "jsonl":
        (folder / "train.jsonl").write_text(json.dumps(HUB_ROWS[name]) + "\n", encoding="utf-8")
    else:
        table = pyarrow.Table.from_pylist([HUB_ROWS[name]])
        pyarrow.parquet.write_table(table, folder / "train.parquet")
    [record] = read_questions(name, f"hub:{folder}:train")
    assert [title for title, _ in record.context] == ["T", "U"]
    assert record.supporting_facts == [("T", 0 if name == "musique" else 1), ("U", 0)]
    if name == "2wikimultihopqa":
        assert record.evidences[0].object == "U"
    if name == "musique":
        assert record.question_decomposition[0].paragraph_support_idx == 1


def test_hub_errors_name_the_data_set_and_the_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    bad = {**HUB_ROWS["hotpotqa"], "supporting_facts": {"title": ["T"], "sent_id": [5]}}
    (tmp_path / "train.jsonl").write_text(json.dumps(bad) + "\n", encoding="utf-8")
    with pytest.raises(RecordError, match=r"hub:.*:train\[0\]: field 'supporting_facts\[0\]'"):
        list(read_questions("hotpotqa", f"hub:{tmp_path}:train"))
    with pytest.raises(RecordError, match="cannot be opened"):
        list(read_questions("hotpotqa", f"hub:{tmp_path}:test"))
