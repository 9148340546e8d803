"""Targets of passages: alignment, order, completion, what is left out; sub-questions in words."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import RecordError
from data_gen.facts.aligned_passages import aligned_sample, shortened, supporting_titles
from data_gen.facts.entities import compatible_relations, entity_key, mentions, same_fact
from data_gen.facts.passage_triples import PassageTriples, canonical_triples, read_extracted
from data_gen.sources.splits import check_fractions, split_of
from models.facts.subqueries import natural_question, relation_question, step_triple
from models.formats.prompts import passage_text
from models.formats.records import DecompositionStep, PassageRecord, QuestionRecord, TriplesSample
from models.formats.triples import Triple
from tests.data_gen.whole_lists import facts_by_title, weak_samples

TEXT = "Denys Roe (born 3 May 1967 in Montreal) is a Canadian filmmaker. His son is Max Roe."
ROE = PassageRecord("2", "Denys Roe", TEXT)


def test_targets_follow_the_text_and_annotation_goes_before_weak_labels() -> None:
    record = QuestionRecord(
        "q",
        "?",
        "Max Roe",
        context=[("Denys Roe", [TEXT])],
        supporting_facts=[("Denys Roe", 0)],
        evidences=[
            Triple("Denys Roe", "child", "Max Roe"),
            Triple("Denys Roe", "date of birth", "May 1967"),
        ],
    )
    facts = facts_by_title([record, record], {})
    sample = aligned_sample("2wikimultihopqa", ROE, facts.pop("Denys Roe"))
    assert not facts
    assert sample.text == passage_text("Denys Roe", TEXT)
    assert sample.triples == [
        Triple("Denys Roe", "date of birth", "May 1967"),
        Triple("Denys Roe", "place of birth", "Montreal"),
        Triple("Denys Roe", "country of citizenship", "Canadian"),
        Triple("Denys Roe", "child", "Max Roe"),
    ]


def test_facts_that_the_text_does_not_state_are_left_out() -> None:
    record = QuestionRecord("q", "?", "x", evidences=[Triple("Denys Roe", "child", "Ann Roe")])
    assert facts_by_title([record], {"Denys Roe": ROE}) == {}


def test_decompositions_give_facts_where_they_name_a_relation() -> None:
    record = QuestionRecord(
        "m",
        "?",
        "Montreal",
        context=[("Zone", ["Zone is by Denys Roe."]), ("Denys Roe", [TEXT])],
        question_decomposition=[
            DecompositionStep("Who made Zone?", "Denys Roe", 0),
            DecompositionStep("#1 >> place of birth", "Montreal", 1),
        ],
    )
    facts = [Triple("Denys Roe", "place of birth", "Montreal")]
    assert facts_by_title([record], {}) == {"Denys Roe": facts}
    assert supporting_titles([record]) == {"Zone", "Denys Roe"}


def test_weak_only_targets_need_two_triples() -> None:
    poor = PassageRecord("3", "Lake", "Lake is a lake in Poland.")
    samples = weak_samples([poor, ROE, ROE], seed=0)
    assert [len(sample.triples) for sample in samples] == [4, 4]


@given(st.lists(st.sampled_from(["Montreal", "Max Roe", "3 May 1967", "nowhere"]), max_size=6))
def test_canonical_order_depends_on_the_text_alone(objects: list[str]) -> None:
    triples = [Triple("Denys Roe", "p", value) for value in objects]
    ordered = canonical_triples(TEXT, triples)
    assert ordered == canonical_triples(TEXT, list(reversed(triples)))
    assert len(ordered) == len(set(triples))


def test_cut_texts_state_what_is_kept() -> None:
    sample = TriplesSample(
        "s", TEXT, [Triple("a", "p", "Montreal"), Triple("a", "child", "Max Roe")]
    )
    cut = shortened(sample, 13)
    assert cut.text == TEXT.split(" His")[0]
    assert cut.triples == [Triple("a", "p", "Montreal")]
    assert shortened(sample, 100) is sample


def test_extracted_triples_are_found_by_content_and_by_id(tmp_path: Path) -> None:
    file = tmp_path / "extracted.jsonl"
    lines = [
        {"id": "x", "text": passage_text("Denys Roe", TEXT), "triples": [["a", "b", "c"]]},
        {"title": "T", "text": "text", "triples": [["d", "e", "f"]]},
        {"id": "9", "triples": [["g", "h", "i"]]},
    ]
    file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    triples = PassageTriples(file)
    assert triples.of(ROE) == [Triple("a", "b", "c")]
    assert triples.of(PassageRecord("1", "T", "text")) == [Triple("d", "e", "f")]
    assert triples.of(PassageRecord("9", "U", "other")) == [Triple("g", "h", "i")]
    assert triples.of(PassageRecord("8", "Lake", "Lake is in Poland.")) == []
    assert triples.counts == {"extracted": 3, "annotated and weak": 1}


def test_a_broken_extraction_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "extracted.jsonl"
    file.write_text('{"id": "a", "triples": []}\n{"id": "b", "tri\n', encoding="utf-8")
    with pytest.raises(RecordError, match=r"extracted\.jsonl:2"):
        list(read_extracted(file))


def test_same_fact_ignores_writing_but_not_relation() -> None:
    fact = Triple("The Zone (2017 film)", "director", "Denys Roe")
    assert same_fact(fact, Triple("the zone", "Directed by", "Denys  roe"))
    assert not same_fact(fact, Triple("the zone", "composer", "Denys Roe"))
    assert not same_fact(fact, Triple("the zone", "director", "Denys Roes"))
    assert compatible_relations("birthDate", "date of birth")
    assert not compatible_relations("date of birth", "date of death")
    assert entity_key("(2017)") != ""
    assert mentions("He met Denys Roe.", "denys roe")
    assert not mentions("insufficient", "sufficient")


def test_questions_in_words() -> None:
    assert relation_question("director", "Zone") == "Who directed Zone?"
    assert relation_question("colour", "Zone") == "What is the colour of Zone?"
    assert natural_question("Zone >> spouse") == "Who is the spouse of Zone?"
    assert (
        natural_question("who issued the Tamworth manifesto ?")
        == "Who issued the Tamworth manifesto?"
    )
    assert step_triple("Who issued the Tamworth manifesto?", "Robert Peel", "T") == Triple(
        "Robert Peel", "issued", "the Tamworth manifesto"
    )
    assert step_triple("Who is the king of X?", "Jo", "X") == Triple("X", "is the king of X", "Jo")
    assert step_triple("When was X chartered?", "1701", "X") == Triple(
        "X", "was X chartered", "1701"
    )


@given(st.text(min_size=1), st.integers(0, 5))
def test_a_split_depends_on_the_id_alone(question: str, seed: int) -> None:
    split = split_of(question, seed, (0.5, 0.3, 0.2))
    assert split == split_of(question, seed, (0.5, 0.3, 0.2))
    assert split_of(question, seed, (1.0, 0.0, 0.0)) == "train"
    assert split_of(question, seed, (0.0, 0.0, 1.0)) == "test"


def test_shares_of_splits_are_near_those_asked_for() -> None:
    splits = [split_of(str(number)) for number in range(5000)]
    assert 0.92 < splits.count("train") / 5000 < 0.96
    assert "test" not in splits
    with pytest.raises(ValueError, match="sum to"):
        check_fractions([0.5, 0.2, 0.2])
