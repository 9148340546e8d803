"""Which text-to-triples samples are left out: gaps in the labels, too much of the common."""

import pytest

from data_gen.labelling.labels import unlabelled_relations
from models.formats.records import TriplesSample
from models.formats.triples import Triple
from tests.data_gen.whole_lists import balanced

LIFE = "Ada Roe: Ada Roe (3 May 1901 in Pesmes – 22 May 1946 in Lyon) was a French poet."
SCORE = "Dawn: Dawn is a 1991 film. The music was composed by Jo Lind."


def facts(subject: str, *relations: str) -> list[Triple]:
    return [Triple(subject, relation, "x") for relation in relations]


@pytest.mark.parametrize(
    ("text", "held", "missing"),
    [
        (LIFE, [], ["place of birth", "place of death"]),
        (LIFE, ["place of birth"], ["place of death"]),
        (LIFE, ["place of birth", "place of death"], []),
        ("Ada Roe: Ada Roe (1901 – 1946) was a French poet.", [], []),
        ("Ada: Ada is a singer. She is married to Bo Lind.", [], ["spouse"]),
        ("Ada: Ada was the daughter of Bo Lind and Cy Lind.", ["father"], ["mother"]),
        ("Ada: Ada was the daughter of Bo Lind.", [], ["father"]),
        (SCORE, ["director"], ["composer"]),
        ("Dawn: Dawn is a 1991 film directed by Jo Lind.", ["director"], []),
    ],
)
def test_a_told_relation_without_a_label_is_named(
    text: str, held: list[str], missing: list[str]
) -> None:
    assert unlabelled_relations(text, facts(text.split(":")[0], *held)) == missing


def test_rare_relations_stay_and_common_ones_stop() -> None:
    samples = [
        TriplesSample(f"s{i}", f"text {i}", facts("A", "director", *["spouse"][: i % 10 == 0]))
        for i in range(200)
    ]
    kept = balanced(samples, 40, seed=3)
    assert sum("spouse" in {t.predicate for t in s.triples} for s in kept) == 20
    assert 40 <= len(kept) <= 60
    assert kept == [sample for sample in samples if sample in kept]
    assert kept == balanced(list(reversed(samples)), 40, seed=3)[::-1]
