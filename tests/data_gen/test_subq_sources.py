"""Which triples a passage of a corpus gets."""

from pathlib import Path

from data_gen.builds.questions import world_triples
from data_gen.facts.passage_triples import PassageTriples
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord, TriplesSample, write_records
from models.formats.triples import Triple


def write_world(folder: Path, town: str) -> tuple[PassageRecord, Triple]:
    """A world of one passage, which has the same id in each."""
    passage = PassageRecord("p000000", town, f"{town} is a town in {town}land.")
    fact = Triple(town, "country", f"{town}land")
    text = passage_text(passage.title, passage.text)
    write_records(folder / "triples.jsonl", [TriplesSample(passage.id, text, [fact])])
    return passage, fact


def test_worlds_whose_passages_share_ids_keep_their_own_triples(tmp_path: Path) -> None:
    folders = [tmp_path / "world1", tmp_path / "world2"]
    made = [write_world(folder, town) for folder, town in zip(folders, ("Aro", "Bel"), strict=True)]
    triples = PassageTriples()
    for folder in folders:
        world_triples(folder, [passage for passage, _ in made], triples)
    assert [triples.of(passage) for passage, _ in made] == [[fact] for _, fact in made]
