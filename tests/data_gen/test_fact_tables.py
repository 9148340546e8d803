"""Passages rewritten as tables of labels and values."""

import json
from pathlib import Path

import pytest

from data_gen.samples.conditions import as_table, is_table
from models.formats.records import TriplesSample
from models.formats.triples import Triple
from models.processors.passages import by_passage
from tests.data_gen.test_build_commands import run
from tests.data_gen.test_build_conditions import read_all

FILM = TriplesSample(
    "w:1",
    "Seed: Seed is a film by Ann Lee, shot in Norway. Ann Lee was born in Oslo.",
    [
        Triple("Seed", "director", "Ann Lee"),
        Triple("Seed", "country of origin", "Norway"),
        Triple("Seed", "cast member", "Bo Ek"),
        Triple("Seed", "cast member", "Al Ro"),
        Triple("Ann Lee", "place of birth", "Oslo"),
    ],
)


def test_a_table_holds_the_facts_of_its_title_row_by_row() -> None:
    made = as_table(FILM, 0)
    assert made is not None and made == as_table(FILM, 0)
    table, rows = made
    assert table.text.startswith("Seed: ") and "Oslo" not in table.text
    by_object = {fact.object: row for fact, row in zip(table.triples, rows, strict=True)}
    assert by_object.pop("Ann Lee") == "Directed by Ann Lee"
    assert by_object.pop("Norway") == "Country Norway"
    assert by_object == dict.fromkeys(("Bo Ek", "Al Ro"), "Starring Bo Ek Al Ro")
    places = [table.text.index(row) for row in rows]
    assert places == sorted(places)


def test_a_passage_with_one_row_stays_as_it_is() -> None:
    one = TriplesSample("w:2", FILM.text, [FILM.triples[0], FILM.triples[4]])
    assert as_table(one, 0) is None


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
def test_so_many_are_chosen_as_asked(chance: float) -> None:
    samples = [TriplesSample(f"w:{number}", "", []) for number in range(2000)]
    chosen = sum(is_table(sample, chance, 0) for sample in samples)
    assert abs(chosen / 2000 - chance) < 0.04


def test_the_command_writes_tables_whose_rows_are_proofs(tmp_path: Path) -> None:
    made = run("build_world.py", "--questions", "8", "--out", tmp_path / "world", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    arguments = ("--source", f"world={tmp_path / 'world'}", "--tokenizer", "words")
    bad = run("build_conditions.py", *arguments, "--tables", "2", "--out", "x", cwd=tmp_path)
    assert bad.returncode == 2 and "give a number from 0 to 1" in bad.stderr
    arguments = (*arguments, "--tables", "0.5", "--fractions", "1,0,0", "--out", tmp_path / "out")
    done = run("build_conditions.py", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    passages = list(by_passage(read_all(tmp_path / "out")["train"]))
    tables = [p for p in passages if not p.text.endswith(".")]
    assert 0.3 < len(tables) / len(passages) < 0.7
    proofs = [(p.text, triplet.proof) for p in tables for triplet in p.triplets]
    assert all(proof and proof in text and len(proof) < len(text) for text, proof in proofs)
    card = json.loads((tmp_path / "out" / "card.json").read_text(encoding="utf-8"))
    assert card["kinds"]["rewritten as a table"] == len(tables)
