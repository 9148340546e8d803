"""Text-to-triples sources: WebNLG, WikiOFGraph, TekGen and our contract."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import RecordError
from data_gen.sources.open_source import TRIPLE_SOURCES, read_triples
from data_gen.sources.texts import read_contract_triples
from models.formats.records import TriplesSample, write_records
from models.formats.triples import Triple, format_triple
from tests.shared_data import shared_data_file

ENTRY = """<entry category="Airport" eid="Id1" size="1">
  <originaltripleset><otriple>x | y | z</otriple></originaltripleset>
  <modifiedtripleset><mtriple>{triple}</mtriple></modifiedtripleset>
  <lex comment="good" lid="Id1">Aarhus airport serves
    Aarhus &amp; more.</lex>
  <lex comment="good" lid="Id2"><text>It serves Aarhus.</text></lex>
  <lex comment="good" lid="Id3" lang="ru">Орхус.</lex>
</entry>"""
GOOD_ENTRY = ENTRY.format(triple='Aarhus_Airport | cityServed | "Aarhus, Denmark"')


def write_webnlg(path: Path, *entries: str) -> Path:
    text = f"<benchmark><entries>{''.join(entries)}</entries></benchmark>"
    path.write_text(text, encoding="utf-8")
    return path


def test_webnlg_file_and_folder(tmp_path: Path) -> None:
    (tmp_path / "1triples").mkdir()
    path = write_webnlg(tmp_path / "1triples" / "Airport.xml", GOOD_ENTRY)
    samples = list(read_triples("webnlg", path))
    assert [sample.text for sample in samples] == [
        "Aarhus airport serves Aarhus & more.",
        "It serves Aarhus.",
    ]
    assert samples[0].id == "Airport/Airport/1/Id1/Id1"
    assert samples[0].triples == [Triple("Aarhus Airport", "cityServed", "Aarhus, Denmark")]
    [first, _] = read_triples("webnlg", tmp_path)
    assert first.id == "1triples/Airport/Airport/1/Id1/Id1"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (ENTRY.format(triple="a | b"), "'mtriple'.*2 parts"),
        (ENTRY.format(triple="a |   | c"), "blank predicate"),
        ("<entry eid='Id9'><lex>t</lex></entry>", "'modifiedtripleset': holds no mtriple"),
        (GOOD_ENTRY.replace("<text>It serves Aarhus.</text>", " "), "'lex': has no text"),
    ],
)
def test_bad_webnlg_entry(entry: str, message: str, tmp_path: Path) -> None:
    path = write_webnlg(tmp_path / "w.xml", GOOD_ENTRY, entry)
    with pytest.raises(RecordError, match=message) as caught:
        list(read_triples("webnlg", path))
    assert str(caught.value).startswith(f"{path}[1] (entry Id")
    errors: list[RecordError] = []
    assert len(list(read_triples("webnlg", path, errors.append))) == 2
    assert len(errors) == 1


def test_malformed_xml_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "w.xml"
    path.write_text("<benchmark>\n<entries>\n</benchmark>", encoding="utf-8")
    with pytest.raises(RecordError, match=r"w\.xml:3: field '\(XML\)'"):
        list(read_triples("webnlg", path, lambda error: None))


TEXT, TRIPLES = "Ada, of London.", [Triple("Ada", "born in", "London (UK)"), Triple("A", "b", "c")]
TAGGED = ", ".join(f"(<S> {t.subject}| <P> {t.predicate}| <O> {t.object})" for t in TRIPLES)


def write_table(path: Path, row: dict[str, Any]) -> Path:
    """One row as JSON Lines, a JSON array, CSV, TSV or Parquet, by suffix."""
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), path)
    elif path.suffix in (".csv", ".tsv"):
        with open(path, "w", encoding="utf-8", newline="") as file:
            dialect = csv.excel_tab if path.suffix == ".tsv" else csv.excel
            writer = csv.DictWriter(file, list(row), dialect=dialect)
            writer.writeheader()
            writer.writerow(row)
    else:
        text = json.dumps([row] if path.suffix == ".json" else row)
        path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "tsv", "parquet"])
def test_wikiofgraph_forms(suffix: str, tmp_path: Path) -> None:
    path = write_table(tmp_path / f"w.{suffix}", {"triplet": TAGGED, "text": TEXT})
    [sample] = read_triples("wikiofgraph", path)
    assert (sample.text, sample.triples) == (TEXT, TRIPLES)
    assert sample.id.startswith("w:")


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv", "parquet"])
def test_tekgen_forms_and_qualifiers(suffix: str, tmp_path: Path) -> None:
    triples: Any = [["Ada", "born in", "London"], ["Ada", "Award Y", "received on", "1990"]]
    if suffix in ("csv", "tsv"):
        triples = json.dumps(triples)
    row = {"triples": triples, "serialized_triples": "Ada born in London", "sentence": TEXT}
    [sample] = read_triples("tekgen", write_table(tmp_path / f"t.{suffix}", row))
    assert sample.text == TEXT
    assert sample.triples == [
        Triple("Ada", "born in", "London"),
        Triple("Ada", "Award Y received on", "1990"),
    ]


def test_tekgen_json_lines_called_tsv(tmp_path: Path) -> None:
    path = tmp_path / "quadruples-test.tsv"
    path.write_text('{"triples": [["a", "b", "c"]], "sentence": "s"}\n', encoding="utf-8")
    [sample] = read_triples("tekgen", path)
    assert sample == TriplesSample("quadruples-test:1", "s", [Triple("a", "b", "c")])


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("wikiofgraph", {"triplet": "(<S> a| <P> b)", "text": "t"}, "1 malformed besides 0"),
        ("wikiofgraph", {"triplet": TAGGED + ", (<S> a", "text": "t"}, "1 malformed besides 2"),
        ("wikiofgraph", {"triplet": " ", "text": "t"}, "'triplet': holds no triple"),
        ("wikiofgraph", {"triplet": TAGGED}, "'text': missing"),
        ("wikiofgraph", {"text": "t"}, "'triplet': missing"),
        ("tekgen", {"triples": [["a", "b"]], "sentence": "s"}, r"'triples\[0\]'"),
        ("tekgen", {"triples": [["a", "b", 3]], "sentence": "s"}, r"'triples\[0\]'"),
        ("tekgen", {"triples": "[[", "sentence": "s"}, "'triples': malformed JSON"),
        ("tekgen", {"triples": [], "sentence": "s"}, "'triples': holds no triple"),
        ("tekgen", {"triples": [["a", "b", "c"]], "sentence": ""}, "'text': is blank"),
        ("contract", {"text": "t"}, "'triples': missing"),
        ("contract", {"text": "t", "triples": [["a", "b", ""]]}, "blank object"),
        ("contract", ["not", "an object"], "not a JSON object"),
    ],
)
def test_bad_row_is_named_or_skipped(name: str, row: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    good = json.dumps({"text": "t", "sentence": "t", "triples": [["a", "b", "c"]]})
    path.write_text(f"{good}\n{json.dumps(row)}\n", encoding="utf-8")
    with pytest.raises(RecordError, match=message) as caught:
        list(read_triples(name, path))
    assert str(caught.value).startswith(f"{path}:2: field ")
    errors: list[RecordError] = []
    assert len(list(read_triples(name, path, errors.append))) == 1
    assert len(errors) == 1


def test_contract_filter_and_title(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    rows = [
        {"text": "He.", "title": "Ada", "triples": [["a", "b", "c"]], "dataset": "x"},
        {"id": "own", "text": "It.", "triples": [], "dataset": "y"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    [first, second] = read_triples("contract", path)
    assert (first.id, first.text) == ("c:1", "Ada: He.")
    assert (second.id, second.text, second.triples) == ("own", "It.", [])
    assert list(read_contract_triples(path, {"y"})) == [second]
    assert list(read_contract_triples(path, {"z"})) == []


parts = st.text(min_size=1).filter(str.strip)
triple_lists = st.lists(st.builds(Triple, parts, parts, parts), max_size=3)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(samples=st.lists(st.builds(TriplesSample, parts, parts, triple_lists), min_size=1))
def test_contract_round_trip_file_and_world(samples: list[TriplesSample], tmp_path: Path) -> None:
    write_records(tmp_path / "triples.jsonl", samples)
    assert list(read_triples("contract", tmp_path / "triples.jsonl")) == samples
    assert list(read_triples("world", tmp_path)) == samples


def test_our_own_tags_are_read_too(tmp_path: Path) -> None:
    row = {"triples": ", ".join(map(format_triple, TRIPLES)), "text": TEXT}
    [sample] = read_triples("wikiofgraph", write_table(tmp_path / "w.jsonl", row))
    assert sample.triples == TRIPLES


def test_unknown_name_and_missing_path(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'dart' is unknown.*webnlg"):
        read_triples("dart", tmp_path)
    for name in TRIPLE_SOURCES:
        with pytest.raises(FileNotFoundError):
            read_triples(name, tmp_path / "absent.xml")


@pytest.mark.parametrize(
    ("file", "good", "bad"),
    # One of the models' triples in the silver file has an empty object.
    [("train", 44738, 0), ("dev", 4208, 0), ("test", 12338, 0), ("silver_openie", 2155, 1)],
)
def test_public_data_is_read_whole(file: str, good: int, bad: int) -> None:
    errors: list[RecordError] = []
    path = shared_data_file(f"triples/{file}.jsonl")
    ids = [sample.id for sample in read_triples("contract", path, errors.append)]
    assert (len(ids), len(set(ids)), len(errors)) == (good, good, bad)


def test_public_data_filtered_by_data_set() -> None:
    path = shared_data_file("triples/train.jsonl")
    names = {"tekgen_sample", "wikiofgraph_sample"}
    assert sum(1 for _ in read_contract_triples(path, names)) == 999 + 550
