"""benchmarks/growing_index.py: the parts that need no model."""

from pathlib import Path

from benchmarks.growing_index import forget, same_index
from inference.indexes.extraction import TripleCache
from inference.indexes.propositions.index import PropositionIndex
from inference.indexes.propositions.parts import Document
from inference.retrieval.passages import Passage
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.passages import passage_key
from models.formats.triples import Triple

PASSAGES = [Passage(f"p{n}", f"Film {n}", f"Film {n} is by Ana {n}.") for n in range(4)]
DOCUMENTS = [
    Document(p.id, passage_key(p), (Triple(p.title, "director", f"Ana {n}"),))
    for n, p in enumerate(PASSAGES)
]


def index_in(folder: Path, *parts: list[Document]) -> Path:
    index = PropositionIndex(load_sentence_encoder("hash"))
    for documents in parts:
        index.save_part(folder, index.add(documents), "extractor")
    return folder


def test_a_forgotten_passage_is_extracted_again(tmp_path: Path) -> None:
    cache = TripleCache(tmp_path / "all.sqlite", "model")
    cache.put({passage_key(p): ([Triple(p.title, "is", "a film")], 0) for p in PASSAGES})
    cache.close()
    forget(tmp_path / "all.sqlite", PASSAGES[2:], tmp_path / "some.sqlite")
    left = TripleCache(tmp_path / "some.sqlite", "model")
    assert set(left.get([passage_key(p) for p in PASSAGES])) == set(map(passage_key, PASSAGES[:2]))
    assert len(TripleCache(tmp_path / "all.sqlite", "model")) == 4


def test_indexes_are_compared_by_what_they_hold(tmp_path: Path) -> None:
    grown = index_in(tmp_path / "grown", DOCUMENTS[:3], DOCUMENTS[3:])
    fresh = index_in(tmp_path / "fresh", DOCUMENTS)
    other = index_in(tmp_path / "other", DOCUMENTS[:3])
    encoder = load_sentence_encoder("hash")
    same = same_index(grown, fresh, encoder)
    assert (same["propositions"], same["same_propositions"]) == (4, True)
    assert same["vectors_max_abs_diff"] < 1e-6
    differs = same_index(grown, other, encoder)
    assert (differs["same_propositions"], differs["vectors_max_abs_diff"]) == (False, None)
