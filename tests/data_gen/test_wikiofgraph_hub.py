"""WikiOFGraph as the hub keeps it: streamed, in shards, from a local folder in the same layouts."""

import json
from pathlib import Path
from typing import Any

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest

from data_gen import build_triples, merge_shards
from data_gen.sources.arguments import source_file
from data_gen.sources.hub import HubReference, parse_hub_reference
from models.formats.records import TriplesSample, read_records
from tests.data_gen.build_inputs import write_lines
from tests.data_gen.test_build_pins import hashes

pytest.importorskip("datasets")
ROWS = 300


def row(number: int) -> dict[str, Any]:
    triplet = f"(<S> Hms albury {number}| <P> Built for| <O> Royal navy), (<S> A| <P> b| <O> C)"
    return {"triplet": triplet, "text": f"HMS Albury {number} was built for the Royal Navy."}


def json_lines(folder: Path) -> None:
    write_lines(folder / "WikiOFGraph_train.jsonl", map(row, range(ROWS)))
    write_lines(folder / "WikiOFGraph_test.jsonl", map(row, range(ROWS, ROWS + 9)))


def parquet(folder: Path) -> None:
    (folder / "data").mkdir()
    for part in range(2):
        rows = [row(number) for number in range(ROWS // 2 * part, ROWS // 2 * (part + 1))]
        path = folder / "data" / f"train-0000{part}-of-00002.parquet"
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=40)
    test = [row(number) for number in range(ROWS, ROWS + 9)]
    path = folder / "data" / "test-00000-of-00001.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(test), path)


@pytest.fixture(params=[json_lines, parquet])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "WikiOFGraph"
    folder.mkdir()
    request.param(folder)
    return folder


def build(folder: Path, *more: str) -> Path:
    source = f"wikiofgraph=hub:{folder}:train"
    build_triples.main(["--source", source, "--tokenizer", "words", *more])
    return Path(more[-1])


def test_every_pair_becomes_a_sample(folder: Path) -> None:
    out = build(folder, "--fractions", "0.9,0.1,0", "--out", "out")
    card = json.loads((out / "card.json").read_text(encoding="utf-8"))
    assert card["kinds"] == {"wikiofgraph": ROWS, "left out: common relations alone": 0}
    [source] = card["sources"]
    assert source["file"] == "WikiOFGraph:train" and source["records"] == ROWS
    assert source["licence"] == "CC BY 4.0"
    samples = {s.id: s for s in read_records(out / "train.jsonl", TriplesSample)}
    assert len(samples) == card["splits"]["train"] > 200
    sample = next(iter(samples.values()))
    assert [triple.predicate for triple in sample.triples] == ["Built for", "b"]


def test_grounded_pairs_in_shards_are_the_whole_build(folder: Path) -> None:
    build(folder, "--grounded", "--out", "whole")
    for number in (1, 2, 3):
        build(folder, "--grounded", "--shard", f"{number}/3", "--out", f"part{number}")
    merge_shards.main(["part1", "part2", "part3", "--out", "merged"])
    assert hashes(Path("merged")) == hashes(Path("whole"))
    [sample, *_] = read_records(Path("merged/train.jsonl"), TriplesSample)
    # "A" and "C" are not in the text.
    assert [triple.predicate for triple in sample.triples] == ["Built for"]


def test_only_what_is_asked_for_is_read(folder: Path) -> None:
    """A limit stops the stream: a broken row behind it is never met."""
    if (folder / "WikiOFGraph_train.jsonl").exists():
        with open(folder / "WikiOFGraph_train.jsonl", "a", encoding="utf-8") as file:
            file.write('{"triplet": "(<S> a", "text": "t"}\n')
    out = build(folder, "--limit", "20", "--fractions", "1,0,0", "--out", "out")
    assert len(list(read_records(out / "train.jsonl", TriplesSample))) == 20


def test_a_broken_row_in_the_middle_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [*map(row, range(50)), {"triplet": "(<S> a| <P> b", "text": "t"}, *map(row, range(9))]
    write_lines(tmp_path / "train.jsonl", rows)
    with pytest.raises(SystemExit, match=r"hub:.*:train\[50\]: field 'triplet': 1 malformed"):
        build(tmp_path, "--out", "out")
    assert [path.name for path in tmp_path.iterdir()] == ["train.jsonl"]
    out = build(tmp_path, "--skip-bad", "--out", "out")
    card = json.loads((out / "card.json").read_text(encoding="utf-8"))
    assert card["skipped_records"] == {"wikiofgraph": 1}


def test_a_revision_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = parse_hub_reference("hub:a/b@refs/convert/parquet:train")
    assert reference == HubReference("a/b", None, "train", "refs/convert/parquet")
    assert str(reference) == "hub:a/b@refs/convert/parquet:train"
    assert source_file("hub:andreaKIM/WikiOFGraph@1f2e:train") == "WikiOFGraph@1f2e:train"
    assert source_file("hub:a/b:config:train") == "b:config:train"
    # A folder may have such a name.
    (tmp_path / "a@b").mkdir()
    assert parse_hub_reference(f"hub:{tmp_path}/a@b:train").revision is None
