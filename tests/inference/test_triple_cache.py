"""The cache keeps what was extracted, apart by model, across processes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.indexes.extraction import CacheError, TripleCache
from inference.retrieval.passages import Passage
from models.formats.passages import passage_key
from models.formats.triples import Triple

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
