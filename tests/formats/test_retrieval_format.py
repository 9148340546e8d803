"""What a retriever learns from: round trips, and errors that name the place."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import RecordError
from models.formats.records import read_records
from models.formats.retrieval import RetrievalSample, TitledText

TEXTS = st.text(min_size=1).filter(str.strip)
PASSAGES = st.builds(TitledText, st.text(), TEXTS)
RECORD = {
    "id": "q1/retrieve/0",
    "query": "Who made Dawn?",
    "positive": {"title": "Dawn", "text": "Ana Lis made it."},
    "negatives": [{"title": "", "text": "A lake."}],
}


@given(st.builds(RetrievalSample, TEXTS, TEXTS, PASSAGES, st.lists(PASSAGES), st.text()))
def test_a_sample_comes_back(sample: RetrievalSample) -> None:
    assert RetrievalSample.from_json(json.loads(json.dumps(sample.to_json()))) == sample


def test_passages_read_as_an_index_has_them() -> None:
    sample = RetrievalSample.from_json(RECORD)
    assert sample.positive.written == "Dawn: Ana Lis made it."
    assert sample.negatives[0].written == "A lake."
    assert (sample.source_id, sample.source) == ("q1", "")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"query": " "}, "field 'query': is blank. Write the question"),
        ({"query": None}, "field 'query': missing"),
        ({"positive": None}, "field 'positive': missing. Add the supporting passage"),
        ({"positive": "Dawn"}, "field 'positive': has the wrong form. Write {title, text}"),
        ({"positive": {"title": "Dawn"}}, "field 'positive': has the wrong form"),
        ({"positive": {"title": "Dawn", "text": " "}}, "field 'positive': has the wrong form"),
        ({"negatives": {}}, "field 'negatives': not a list. Write a list of {title, text}"),
        ({"negatives": [RECORD["positive"], "x"]}, "field 'negatives[1]': has the wrong form"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(RECORD) + "\n" + json.dumps({**RECORD, **changed}) + "\n")
    with pytest.raises(RecordError) as error:
        list(read_records(path, RetrievalSample))
    assert f"{path}:2: {said}" in str(error.value)
