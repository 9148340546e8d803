"""Each labelling function on sentences of the kind it is for, and on ones it must leave alone."""

# ruff: noqa: E501 - example sentences stay whole
import json
from collections import defaultdict

import pytest

from data_gen.facts.solving_steps import evidence_steps
from data_gen.labelling.labels import (
    LABELLING_FUNCTIONS,
    RELATIONS_IN_USE,
    Agreement,
    measure_labels,
    weak_triples,
)
from data_gen.sources.open_source import read_questions
from models.formats.records import PassageRecord, read_records
from models.formats.triples import Triple
from tests.shared_data import shared_data_file

FINDS = [
    (
        "date of birth",
        "Jim Ball (born 16 February 1942) is an English actor.",
        ["16 February 1942"],
    ),
    ("date of birth", "A Ba( 11 May 1928 – 9 May 1997) was a Finnish poet.", ["11 May 1928"]),
    ("date of birth", "A Ba (born Kim Ba on 26 July 1960) is a Tamil director.", ["26 July 1960"]),
    ("date of birth", "A Ba is a Dutch singer. He was born on 3 May 1901.", ["3 May 1901"]),
    (
        "date of birth",
        "Lee M( December 13, 1851 November 18, 1934) was a lawyer.",
        ["December 13, 1851"],
    ),
    ("date of death", "A Ba( 11 May 1928 – 9 May 1997) was a Finnish poet.", ["9 May 1997"]),
    ("date of death", "Jo II (died 19 December 1127) was a prince.", ["19 December 1127"]),
    (
        "date of death",
        "A B (born 5 April 1937, died 25 September 2004) was a nun.",
        ["25 September 2004"],
    ),
    (
        "place of birth",
        "A B (November 28, 1892, in Atlantic City, New Jersey – December 26, 1962, in Reno) was an actor.",
        ["Atlantic City"],
    ),
    (
        "place of death",
        "A B (November 28, 1892, in Atlantic City, New Jersey – December 26, 1962, in Reno) was an actor.",
        ["Reno"],
    ),
    (
        "place of birth",
        "A B (born 20 October 1962 in Žilina) is a Slovak film director.",
        ["Žilina"],
    ),
    ("country of citizenship", "A B is a Vietnamese-born French film director.", ["French"]),
    ("country of citizenship", "A B (born 1962) was a Hungarian director.", ["Hungarian"]),
    ("occupation", "A B (born 1962) was a Hungarian film director and poet.", ["film director"]),
    (
        "father",
        "A B (1401 – 1455) was the eldest son of John Beaufort and his wife.",
        ["John Beaufort"],
    ),
    (
        "father",
        "A B is a poet, the daughter of King Albert II, Margrave of Meissen.",
        ["Albert II, Margrave of Meissen"],
    ),
    (
        "mother",
        "Jo II (died 1127) was the third son of Prince Jo I and Queen Ann Roe.",
        ["Queen Ann Roe"],
    ),
    ("mother", "A B (born 1962) is a singer. Her mother was Lillian Elliott.", ["Lillian Elliott"]),
    (
        "spouse",
        "A B (born 1962) is an actress. She is married to Polish film director Roman Roe.",
        ["Roman Roe"],
    ),
    ("child", "A B (1914 – 1980) was a director. His son, Lamberto Bava, acts.", ["Lamberto Bava"]),
    (
        "cause of death",
        "A B (1914 – 1980) was a poet. He died of a heart attack.",
        ["heart attack"],
    ),
    (
        "director",
        "X is a 1934 American film directed by P. N. Menon and starring Al Roe.",
        ["P. N. Menon"],
    ),
    ("director", "X is a 1991 film written and directed by Jo de la Roe.", ["Jo de la Roe"]),
    (
        "director",
        "X is a film directed by Polish director Jan Roe and Max Doe.",
        ["Jan Roe", "Max Doe"],
    ),
    ("producer", "X is a film directed by Al Roe and produced by Max Doe.", ["Max Doe"]),
    ("publication date", "X is a 1934 American drama film.", ["1934"]),
    ("publication date", "X is a Hungarian film. It was released in 1968.", ["1968"]),
    ("country of origin", "X is a 1957 French silent film.", ["French"]),
    ("performer", '"X" is a song by American singer Stan Rogers from his album.', ["Stan Rogers"]),
    ("composer", "X is an Indian film. The music was composed by Al Roe.", ["Al Roe"]),
    ("country", "X is a village in Gmina Y, within Z County, Poland.", ["Poland"]),
    ("inception", "X is a publisher. Founded in 1969 it is small.", []),
    ("inception", "X is a publisher founded in 1969 in San Francisco.", ["1969"]),
    ("publisher", "X is a magazine published by Rip Off Press.", ["Rip Off Press"]),
]

LEAVES_ALONE = [
    ("date of birth", "X is a 1934 American film (released 3 May 1934) directed by Al Roe."),
    ("date of birth", "The Battle of X (3 May 1500 – 9 May 1500) is a song."),
    ("date of birth", "Kang (reigned 1020 – 996 BC) is a village."),
    ("date of death", "A B (born 16 February 1942) is an English actor."),
    ("place of birth", "A B is a poet. His mother comes from Kent."),
    ("place of death", "A B (1900 – 1950) was a poet. He died in May 1950."),
    ("country of citizenship", "X is a 1957 French film about an American singer."),
    ("country of citizenship", "A B (born 1962) lives in Rome."),
    ("father", "A B (1900 – 1950) was a poet. He married Ann Roe, daughter of John Doe."),
    ("father", "X is a 1936 film about the son of John Doe."),
    ("mother", "A B (born 1962) is the son of John Doe."),
    ("spouse", "A B (1900 – 1950) was the son of John Doe and his wife Ann Roe."),
    ("spouse", "A B (1593 – 1620) was the wife of the king of Denmark."),
    ("director", "A B (born 1962) is a director. His play was directed by Al Roe."),
    ("director", "X is a film that was never finished."),
    ("publication date", "A B is a singer who released an album in 1968."),
    ("country of origin", "A B (born 1962) is an American singer."),
    ("performer", '"X" is a song written by Al Roe.'),
    ("composer", "A B (born 1962) is a singer. His music was composed by Al Roe."),
    ("country", "A B (born 1962 in Poland) is a singer in Poland."),
]


@pytest.mark.parametrize(("relation", "text", "objects"), FINDS)
def test_finds_what_the_sentence_says(relation: str, text: str, objects: list[str]) -> None:
    assert LABELLING_FUNCTIONS[relation]("A B", text) == objects


@pytest.mark.parametrize(("relation", "text"), LEAVES_ALONE)
def test_leaves_other_sentences_alone(relation: str, text: str) -> None:
    assert LABELLING_FUNCTIONS[relation]("A B", text) == []


def test_objects_are_words_of_the_text_and_the_subject_is_the_title() -> None:
    text = "Gennadi Gerasimov (3 March 1930, Yelabuga – 14 September 2010, Moscow) was a diplomat."
    assert weak_triples("Gerasimov (diplomat)", text) == [
        Triple("Gerasimov (diplomat)", "date of birth", "3 March 1930"),
        Triple("Gerasimov (diplomat)", "date of death", "14 September 2010"),
        Triple("Gerasimov (diplomat)", "place of birth", "Yelabuga"),
        Triple("Gerasimov (diplomat)", "place of death", "Moscow"),
    ]


def test_a_function_is_wrong_when_the_annotation_has_another_object() -> None:
    passages = {"A": "A (born 3 May 1901) is a poet.", "B": "B (born 4 May 1901) is a poet."}
    evidences = {("A", "date of birth"): {"3 May 1901"}, ("B", "date of birth"): {"5 May 1901"}}
    measured = {row.relation: row for row in measure_labels(passages, evidences)}
    assert measured["date of birth"] == Agreement("date of birth", 2, 2, 1, 1)
    assert measured["date of birth"].precision == 0.5


@pytest.mark.slow
def test_functions_in_use_are_precise_on_real_annotation() -> None:
    questions = read_questions(
        "2wikimultihopqa", shared_data_file("qa/2wikimultihopqa_train.jsonl"), lambda error: None
    )
    corpus = shared_data_file("corpus/2wikimultihopqa.jsonl")
    passages = {p.title: p for p in read_records(corpus, PassageRecord)}
    evidences: dict[tuple[str, str], set[str]] = defaultdict(set)
    for question in questions:
        for step in evidence_steps(question, passages):
            evidences[step.fact.subject, step.fact.predicate].add(step.fact.object)
    texts = {title: passage.text for title, passage in passages.items()}
    rows = [row for row in measure_labels(texts, evidences) if row.fired >= 10]
    weak = {row.relation: row.precision for row in rows if row.relation in RELATIONS_IN_USE}
    assert len(weak) >= 10
    assert {name: value for name, value in weak.items() if value < 0.85} == {}, json.dumps(weak)
