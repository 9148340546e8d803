"""The cache keeps what was extracted, apart by model, across processes."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from inference.indexes.extraction import TripleCache
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
