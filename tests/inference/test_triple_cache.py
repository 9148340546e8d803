"""The cache keeps what was extracted, apart by model, across processes."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.sqlite import UnmergedLogError
from inference.indexes.extraction import CacheError, TripleCache
from inference.retrieval.passages import Passage
from models.formats.passages import passage_key
from models.formats.triples import Triple
from tests.inference.read_only import WAYS, read_only

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.builds(Triple, TEXT, TEXT, TEXT)))
def test_round_trip(triples: list[Triple]) -> None:
    cache = TripleCache(None, "m")
    cache.put({"k": (triples, 2)})
    assert cache.get(["k", "absent"]) == {"k": triples}
    assert (len(cache), cache.malformed()) == (1, 2)
    cache.close()


def test_reopens_and_tells_models_apart(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cache.sqlite"
    first = TripleCache(path, "one")
    first.put({"k": ([Triple("a", "b", "c")], 0)})
    # A second connection reads while the first is open, as a second process would.
    second = TripleCache(path, "one")
    assert second.get(["k"]) == {"k": [Triple("a", "b", "c")]}
    assert TripleCache(path, "two").get(["k"]) == {}


def test_many_keys_in_one_call() -> None:
    cache = TripleCache(None, "m")
    cache.put({str(i): ([], 0) for i in range(1200)})
    assert len(cache.get([str(i) for i in range(1300)])) == 1200


def test_key_depends_on_what_the_model_reads() -> None:
    assert passage_key(Passage("1", "T", "a  b")) == passage_key(Passage("2", "T", "a b"))
    assert passage_key(Passage("1", "T", "a")) != passage_key(Passage("1", "U", "a"))


@pytest.mark.parametrize(
    "use",
    [
        lambda cache: cache.get(["900"]),
        lambda cache: cache.put({"900": ([], 1)}),
        lambda cache: cache.malformed(),
        len,
    ],
    ids=["get", "put", "malformed", "len"],
)
def test_a_file_damaged_behind_its_beginning_is_told(
    use: Callable[[TripleCache], object], tmp_path: Path
) -> None:
    path = tmp_path / "cache.sqlite"
    first = TripleCache(path, "m")
    first.put({str(i): ([Triple("a" * 300, "b", "c")], 0) for i in range(1000)})
    first.close()
    page = 4096
    content = path.read_bytes()
    path.write_bytes(content[:page] + b"\xff" * (len(content) - page))
    damaged = TripleCache(path, "m")
    with pytest.raises(CacheError, match="with --cache, or remove this one") as caught:
        use(damaged)
    assert str(path) in str(caught.value)
    damaged.close()


def test_a_full_disk_is_told_and_what_was_stored_stays(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    cache = TripleCache(path, "m")
    cache.put({"k": ([Triple("a", "b", "c")], 0)})
    # SQLite says the same of a file at its limit as of a disk.
    cache._connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(CacheError, match=r"disk is full.*, or free some space; TRIVIUM_CACHE"):
        cache.put({str(i): ([Triple("a" * 300, "b", "c")], 0) for i in range(1000)})
    cache.close()
    assert TripleCache(path, "m").get(["k", "0"]) == {"k": [Triple("a", "b", "c")]}


def test_a_folder_where_the_cache_should_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match="unable to open database file"):
        TripleCache(tmp_path, "m")
    with pytest.raises(CacheError, match="Name another file with --cache"):
        (tmp_path / "file").write_text("")
        TripleCache(tmp_path / "file" / "cache.sqlite", "m")


@pytest.mark.parametrize("way", WAYS)
def test_a_cache_that_may_only_be_read_gives_what_it_has_and_keeps_nothing(
    way: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a folder, 100% #1?" / "cache.sqlite"
    first = TripleCache(path, "m")
    first.put({"k": ([Triple("a", "b", "c")], 2)})
    first.close()
    before = path.read_bytes()
    with read_only(path.parent, way):
        cache = TripleCache(path, "m")
        for _ in range(2):
            cache.put({"new": ([], 1)})
            assert cache.get(["k", "new"]) == {"k": [Triple("a", "b", "c")]}
        assert (len(cache), cache.malformed()) == (1, 2)
        cache.close()
    assert [r.getMessage() for r in caplog.records] == [
        f"{path} may only be read: what is extracted is not kept"
    ]
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == before


@pytest.mark.parametrize("way", WAYS)
def test_changes_that_wait_in_a_log_are_told_where_it_cannot_be_merged(
    way: str, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    path = place / "cache.sqlite"
    cache = TripleCache(tmp_path / path.name, "m")
    cache.put({"k": ([Triple("a", "b", "c")], 0)})
    for name in (path.name, f"{path.name}-wal"):
        shutil.copy(tmp_path / name, place / name)
    cache.close()
    with (
        read_only(place, way),
        pytest.raises(UnmergedLogError, match=r"wait in cache\.sqlite-wal.*Open it once where it"),
    ):
        TripleCache(path, "m")
    opened = TripleCache(path, "m")
    assert opened.get(["k"]) == {"k": [Triple("a", "b", "c")]}
    opened.close()
    with read_only(place, way):
        assert TripleCache(path, "m").get(["k"]) == {"k": [Triple("a", "b", "c")]}


def test_a_log_is_read_where_the_file_that_shares_it_lies_beside_it(tmp_path: Path) -> None:
    cache = TripleCache(tmp_path / "here" / "cache.sqlite", "m")
    cache.put({"k": ([Triple("a", "b", "c")], 0)})
    with read_only(tmp_path / "here"):
        other = TripleCache(tmp_path / "here" / "cache.sqlite", "m")
        other.put({"new": ([], 1)})
        assert other.get(["k", "new"]) == {"k": [Triple("a", "b", "c")]}
        other.close()
    cache.close()


def test_no_cache_where_none_can_be_made_is_told(tmp_path: Path) -> None:
    with (
        read_only(tmp_path),
        pytest.raises(CacheError, match=r"unable to open .* with --cache, or make this one writ"),
    ):
        TripleCache(tmp_path / "cache.sqlite", "m")
    path = tmp_path / "cache.sqlite"
    sqlite3.connect(path).close()
    path.touch()
    with (
        read_only(tmp_path),
        pytest.raises(CacheError, match=r"readonly database.* or make this one writable"),
    ):
        TripleCache(path, "m")
