"""Parquet holds what JSON Lines held, `datasets` loads it, and its card says where it came from."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_gen import to_parquet
from data_gen.builds import parquet as parquet_rows
from data_gen.builds.parquet import licence_ids
from data_gen.sources.open_source import read_triples
from models.formats.planning import HistoryStep
from models.formats.records import (
    ConditionSample,
    RasSample,
    Record,
    TriplesSample,
    write_records,
)
from models.formats.triples import Triple
from tests.data_gen.build_inputs import write_inputs
from tests.data_gen.test_build_commands import run
from tests.data_gen.test_build_pins import BUILDERS

CARD: dict[str, Any] = {"title": "Samples", "splits": {}, "sources": []}


def built(folder: Path, case: str) -> Path:
    builder, name = case.split(" ")
    module, cases = BUILDERS[builder]
    module.main([*cases(write_inputs(folder))[name], "--out", str(folder / "built")])
    return folder / "built"


def write_built(folder: Path, splits: dict[str, list[Any]]) -> Path:
    """A built folder of these records, which may be lines that are no records."""
    folder.mkdir()
    for name, records in splits.items():
        lines = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records]
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    card = {**CARD, "splits": {name: len(records) for name, records in splits.items()}}
    (folder / "card.json").write_text(json.dumps(card), encoding="utf-8")
    return folder


def convert(source: Path, out: Path) -> Path:
    to_parquet.main([str(source), "--out", str(out)])
    return out


def refused(source: Path, out: Path) -> str:
    with pytest.raises(SystemExit) as error:
        to_parquet.main([str(source), "--out", str(out)])
    assert not out.exists() and not [p for p in out.parent.iterdir() if p.name.startswith(".")]
    return str(error.value)


def objects(file: Path) -> list[Any]:
    # Not splitlines, which takes more for a line's end than a line break.
    return [json.loads(line) for line in file.read_bytes().split(b"\n") if line]


def without_nulls(value: Any) -> Any:
    """What a row says without its fields of no value, which JSON Lines leave out."""
    if isinstance(value, dict):
        return {name: without_nulls(own) for name, own in value.items() if own is not None}
    return [without_nulls(own) for own in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "case", ["build_subq sampled", "build_triples chosen", "build_conditions plain"]
)
def test_parquet_holds_what_json_lines_held(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Several row groups a file.
    monkeypatch.setattr(parquet_rows, "ROWS_OF_A_GROUP", 7)
    source = built(tmp_path, case)
    out = convert(source, tmp_path / "out")
    splits = json.loads((source / "card.json").read_text(encoding="utf-8"))["splits"]
    assert [name for name in splits if (out / f"{name}.parquet").is_file()] == [
        name for name, count in splits.items() if count
    ]
    for file in out.glob("*.parquet"):
        rows = pyarrow.parquet.read_table(file).to_pylist()
        assert without_nulls(rows) == objects(source / f"{file.stem}.jsonl")
    assert pyarrow.parquet.ParquetFile(out / "train.parquet").num_row_groups > 3
    assert (out / "card.json").read_bytes() == (source / "card.json").read_bytes()


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
triples = st.lists(st.builds(Triple, texts, texts, texts), max_size=2)
filled = texts.filter(str.strip)
stated = st.lists(st.builds(Triple, filled, filled, filled), max_size=2)
shown = st.lists(texts, max_size=2).map(tuple)
steps = st.lists(st.builds(HistoryStep, texts, triples.map(tuple), shown), max_size=2)
records = st.one_of(
    st.lists(st.builds(RasSample, texts, st.just("plan"), texts, steps, texts), min_size=1),
    st.lists(st.builds(TriplesSample, texts, texts, stated), min_size=1),
    st.lists(
        st.builds(ConditionSample, texts, texts, st.just("c"), texts, st.just("r")), min_size=1
    ),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=records)
def test_any_record_comes_back(records: list[Record], tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    write_records(file, records)
    writer = parquet_rows.RowWriter(file)
    assert writer.write(file, tmp_path / "train.parquet") == len(records)
    rows = pyarrow.parquet.read_table(tmp_path / "train.parquet").to_pylist()
    assert [
        type(record).from_json(row) for record, row in zip(records, rows, strict=True)
    ] == records
    assert without_nulls(rows) == objects(file)


def test_datasets_loads_the_folder_and_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    source = built(tmp_path, "build_conditions plain")
    assert (source / "test.jsonl").stat().st_size == 0
    out = convert(source, tmp_path / "out")
    cache = str(tmp_path / "cache")
    for loaded in (
        datasets.load_dataset(str(out), cache_dir=cache),
        datasets.load_dataset(
            "parquet",
            data_files={name: str(out / f"{name}.parquet") for name in ("train", "dev")},
            cache_dir=cache,
        ),
    ):
        assert list(loaded) == ["train", "dev"]
        for name, rows in loaded.items():
            assert list(rows) == objects(source / f"{name}.jsonl")
    streamed = datasets.load_dataset(str(out), split="train", streaming=True)
    assert next(iter(streamed)) == objects(source / "train.jsonl")[0]


def test_our_own_reader_takes_it_as_a_source(tmp_path: Path) -> None:
    source = built(tmp_path, "build_triples plain")
    out = convert(source, tmp_path / "out")
    read = list(read_triples("contract", out / "train.parquet"))
    assert [sample.to_json() for sample in read] == objects(source / "train.jsonl")


def test_the_page_has_a_head_that_the_hub_reads(tmp_path: Path) -> None:
    source = built(tmp_path, "build_triples plain")
    out = convert(source, tmp_path / "out")
    page = (out / "README.md").read_text(encoding="utf-8")
    _, head, body = page.split("---\n", 2)
    parsed = yaml.safe_load(head)
    assert parsed["license"] == ["unknown", "cc-by-4.0", "other", "apache-2.0"]
    [config] = parsed["configs"]
    assert config["config_name"] == "default"
    assert [row["split"] for row in config["data_files"]] == ["train", "dev"]
    assert all((out / row["path"]).is_file() for row in config["data_files"])
    assert parsed["size_categories"] == ["n<1K"]
    card = json.loads((source / "card.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256((out / "train.parquet").read_bytes()).hexdigest()
    assert f"| train | {card['splits']['train']} | {digest} |" in body
    assert "Without records, so without a file: test." in body
    for row in card["sources"]:
        assert row["sha256"] in body and row["licence"] in body and f"| {row['records']} |" in body


def test_a_revision_of_the_hub_is_the_version(tmp_path: Path) -> None:
    source = write_built(tmp_path / "built", {"train": [{"id": "a", "text": "t", "triples": []}]})
    row = {"name": "wikiofgraph", "file": "WikiOFGraph@1f2e:train", "sha256": "", "records": 1,
           "licence": "CC BY 4.0"}  # fmt: skip
    card = {**CARD, "sources": [row]}
    (source / "card.json").write_text(json.dumps(card), encoding="utf-8")
    page = (convert(source, tmp_path / "out") / "README.md").read_text(encoding="utf-8")
    assert "| wikiofgraph | WikiOFGraph@1f2e:train | 1f2e | - | CC BY 4.0 | 1 |" in page


def test_licences_are_told_one_by_one() -> None:
    rows = [{"licence": "CC BY 4.0; MIT"}, {"licence": "CC BY-SA 2.0"}, {"licence": "not stated"}]
    assert licence_ids(rows) == ["cc-by-4.0", "mit", "other", "unknown"]
    assert licence_ids([]) == ["unknown"]


def test_records_of_texts_alone_need_no_schema_of_their_own(tmp_path: Path) -> None:
    rows = [{"id": "a", "prompt": "p", "label": "l"}, {"id": "b", "prompt": "q", "label": "m"}]
    out = convert(write_built(tmp_path / "built", {"train": rows}), tmp_path / "out")
    assert pyarrow.parquet.read_table(out / "train.parquet").to_pylist() == rows
    for bad, words in (
        ({"id": "c", "prompt": 3, "label": "n"}, "train.jsonl:3: field 'prompt': is int"),
        ({"id": "c", "prompt": "r"}, "train.jsonl:3: field '(record)': has other fields"),
    ):
        source = tmp_path / f"bad{len(words)}"
        assert words in refused(write_built(source, {"train": [*rows, bad]}), tmp_path / "bad_out")


GOOD = {"id": "a", "text": "t", "triples": [["a", "b", "c"]]}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([GOOD] * 30 + [{**GOOD, "triples": [["a", "b"]]}], ":31: field 'triples[0]'"),
        ([GOOD] * 30 + ["{not JSON"], ":31: field '(line)': malformed JSON"),
        ([GOOD, '{"id": "\\ud800", "text": "t", "triples": []}'], ":2: field '(record)': cannot"),
        ([{"id": "a", "size": 3}], ":1: field '(record)': of no known contract (fields: id, size)"),
        (["[]"], ":1: field '(record)'"),
    ],
)
def test_a_broken_record_in_the_middle_is_named_and_nothing_is_left(
    rows: list[Any], words: str, tmp_path: Path
) -> None:
    message = refused(write_built(tmp_path / "built", {"train": rows}), tmp_path / "out")
    assert message.startswith("error: ") and f"train.jsonl{words}" in message


def test_what_is_no_built_folder_is_said(tmp_path: Path) -> None:
    assert "card.json: no such file" in refused(tmp_path / "none", tmp_path / "out")
    empty = write_built(tmp_path / "empty", {"train": []})
    assert "no split has a record" in refused(empty, tmp_path / "out")
    cut = write_built(tmp_path / "cut", {"train": [GOOD, GOOD]})
    (cut / "train.jsonl").write_text(json.dumps(GOOD) + "\n", encoding="utf-8")
    assert "has 1 records" in (message := refused(cut, tmp_path / "out")) and "says 2" in message
    (cut / "card.json").write_text('{"shard": 1, "title": "x"}', encoding="utf-8")
    assert "a shard's card. Merge the shards first" in refused(cut, tmp_path / "out")
    (cut / "card.json").write_text("[]", encoding="utf-8")
    assert "card.json: has no 'title'" in refused(cut, tmp_path / "out")


def test_the_command_line(tmp_path: Path) -> None:
    source = built(tmp_path, "build_subq world")
    done = run("to_parquet.py", source, "--json", "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])["rows"]
    assert rows == {"train": len(objects(source / "train.jsonl"))}
