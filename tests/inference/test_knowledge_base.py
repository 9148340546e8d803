"""The knowledge base: cleaning, merging, resuming, adding, and what is refused."""

import json
from dataclasses import replace
from math import log
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.build_kb import confidence, without_merged
from inference.engines.contract import Completion
from inference.indexes.growing import DuplicateDocumentError
from inference.indexes.knowledge_base.entries import Entry, EntryTable, clean_output, condition_key
from inference.indexes.knowledge_base.store import (
    KnowledgeBase,
    KnowledgeBaseError,
    Output,
    OutputLog,
    extend,
)
from inference.retrieval.passages import IndexMismatchError, Passage
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.conditions import ConditionTriplet, format_conditions

PASSAGE = "Dus Lakh: Dus Lakh is a 1966 film. It was directed by D. Goel."
DIRECTOR = ConditionTriplet(
    "Dus Lakh; director", "It was directed by D. Goel.", "D. Goel directed Dus Lakh"
)
YEAR = ConditionTriplet("Dus Lakh; year", "", "Dus Lakh is a 1966 film")
ENCODER = load_sentence_encoder("hash")


def output(number: int, *triplets: ConditionTriplet, was_cut: bool = False) -> Output:
    return Output(f"d{number}", "Dus Lakh", PASSAGE, format_conditions(triplets), was_cut)


def test_good_triplets_pass() -> None:
    cleaned = clean_output(format_conditions([DIRECTOR, YEAR]), PASSAGE)
    assert cleaned.triplets == [DIRECTOR, YEAR]
    assert not cleaned.dropped


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Dus Lakh was directed by D. Goel.", "not a complete triplet"),
        ("[C] Dus Lakh [P] [P] [R] a film", "not a complete triplet"),
        ("[C] Dus Lakh [P] [C] [R] a film", "not a complete triplet"),
        ("[C] Dus Lakh [P] a film [R] ", "not a complete triplet"),
        ("[C] ... [P] [R] a 1966 film", "empty condition"),
        ("[C] Dus Lakh [P] [R] --", "empty conclusion"),
        (f"[C] {'Dus Lakh ' * 20} [P] [R] a film", "condition too long"),
        (f"[C] Dus Lakh [P] {'film ' * 200}[R] a film", "proof too long"),
        (f"[C] Dus Lakh [P] [R] {'film' * 400}", "conclusion too long"),
        (f"[C] Dus Lakh [P] [R] {'film ' * 2500}", "conclusion too long"),
        (
            "[C] Dus Lakh [P] [R] Der Regisseur heisst Herr Goel",
            "conclusion not in the passage's words",
        ),
        ("[C] Dus Lakh [P] [R] 这部电影由戈埃尔执导", "conclusion not in the passage's words"),
    ],
)
def test_bad_output_is_counted_and_dropped(text: str, reason: str) -> None:
    cleaned = clean_output(text, PASSAGE)
    assert not cleaned.triplets
    assert cleaned.dropped[reason] >= 1


@given(st.text(max_size=300) | st.text("[]CPR a\\\n", max_size=200))
def test_no_text_raises(text: str) -> None:
    clean_output(text, PASSAGE)


def test_repeats_and_what_was_cut_off_are_dropped() -> None:
    text = format_conditions([DIRECTOR, DIRECTOR, YEAR])
    cleaned = clean_output(text, PASSAGE, was_cut=True)
    assert cleaned.triplets == [DIRECTOR]
    assert cleaned.dropped == {"the same triplet again": 1, "cut off at the token limit": 1}


def test_words_of_unspaced_scripts_count_by_character() -> None:
    text = "[C] 東京; 国 [P] [R] 東京は日本にある。"
    assert clean_output(text, "東京: 東京は日本の首都である。").triplets


def test_near_identical_conditions_merge_and_keep_every_source() -> None:
    table = EntryTable()
    table.add(DIRECTOR, "d1")
    table.add(ConditionTriplet("The Dus Lakh: Director!", "", "D. Goel directed Dus Lakh."), "d2")
    table.add(ConditionTriplet("dús lakh; director", "p", "Ravi directed Dus Lakh."), "d3")
    table.add(YEAR, "d1")
    assert [entry.condition for entry in table.entries] == ["Dus Lakh; director", "Dus Lakh; year"]
    first = table.entries[0]
    assert [(claim.conclusion, claim.sources) for claim in first.claims] == [
        ("D. Goel directed Dus Lakh", ["d1", "d2"]),
        ("Ravi directed Dus Lakh.", ["d3"]),
    ]
    assert first.sources == ["d1", "d2", "d3"] and table.merged == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("X; date of birth", "X; date of death"),
        ("1990 season", "1991 season"),
        ("A of B", "B of A"),
    ],
)
def test_conditions_that_differ_in_a_word_stay_apart(one: str, other: str) -> None:
    assert condition_key(one) != condition_key(other)


def test_a_base_is_the_same_in_one_go_and_in_two(tmp_path: Path) -> None:
    outputs = [output(1, DIRECTOR), output(2, YEAR, DIRECTOR), output(3)]
    whole = extend(None, outputs, ENCODER)
    extend(None, outputs[:1], ENCODER).save(tmp_path / "kb")
    loaded = KnowledgeBase.load(tmp_path / "kb", ENCODER)
    grown = extend(loaded, outputs[1:], ENCODER)
    grown.save(tmp_path / "kb")
    again = KnowledgeBase.load(tmp_path / "kb", ENCODER)
    assert again.entries == whole.entries
    assert (
        again.about["counts"]
        == whole.about["counts"]
        == {
            "documents": 3,
            "documents without a triplet": 1,
            "triplets": 3,
            "merged into a condition that was there": 1,
            "entries": 2,
        }
    )
    queries = ["Dus Lakh; year", "director"]
    found = [[(h.entry.condition, h.score) for h in hits] for hits in again.search(queries, 2)]
    expected = [[(h.entry.condition, h.score) for h in hits] for hits in whole.search(queries, 2)]
    assert found == expected
    assert found[0][0][0] == "Dus Lakh; year"


def test_a_base_tells_its_documents_and_one_from_before_those_of_its_count(tmp_path: Path) -> None:
    outputs = {each.id: each for each in (output(1, DIRECTOR), output(2), output(3, YEAR))}
    extend(None, list(outputs.values())[:2], ENCODER).save(tmp_path)
    base = KnowledgeBase.load(tmp_path, ENCODER)
    assert base.documents == ["d1", "d2"]
    # Wherever they stand in the log by now.
    shifted = {name: outputs[name] for name in ("d3", "d2", "d1")}
    assert [each.id for each in without_merged(shifted, base)] == ["d3"]
    (tmp_path / "base" / "documents.json").unlink()
    old = KnowledgeBase.load(tmp_path, ENCODER)
    assert old.documents is None
    assert extend(old, [], ENCODER).documents is None
    new = without_merged(outputs, old)
    assert [each.id for each in new] == ["d3"]
    assert extend(old, new, ENCODER).documents == ["d1", "d2", "d3"]
    assert without_merged(outputs, None) == list(outputs.values())


def test_only_conditions_are_searched() -> None:
    base = extend(None, [output(1, DIRECTOR, YEAR)], ENCODER)
    assert [passage.text for passage in base.retriever.passages] == [
        "Dus Lakh; director",
        "Dus Lakh; year",
    ]


def test_nothing_usable_is_an_error() -> None:
    with pytest.raises(KnowledgeBaseError, match="no usable triplet in 2 documents"):
        extend(None, [output(1), output(2)], ENCODER)


def test_outputs_below_the_least_confidence_are_left_out_and_counted() -> None:
    outputs = [
        replace(output(number, triplet), confidence=sure)
        for number, (triplet, sure) in enumerate([(DIRECTOR, 0.9), (YEAR, 0.4), (YEAR, None)])
    ]
    everything = extend(None, outputs, ENCODER)
    assert len(everything.entries) == 2
    sure = extend(None, outputs, ENCODER, 0.5)
    assert [entry.condition for entry in sure.entries] == [DIRECTOR.condition]
    assert sure.about["counts"]["documents below the least confidence"] == 2
    with pytest.raises(KnowledgeBaseError, match=r"confidence of 0\.5, and 0\.0 was given"):
        extend(sure, outputs, ENCODER)


def test_confidence_is_the_geometric_mean_of_the_tokens_probabilities() -> None:
    done = Completion("x", (1, 2), 1, 2, "stop", [log(0.9), log(0.4)])
    assert confidence(done) == pytest.approx((0.9 * 0.4) ** 0.5)
    assert confidence(replace(done, logprobs=None)) is None


def test_another_encoder_is_refused_with_both_names(tmp_path: Path) -> None:
    extend(None, [output(1, DIRECTOR)], ENCODER).save(tmp_path)
    minilm = load_sentence_encoder("minilm")
    with pytest.raises(IndexMismatchError, match=r"hash[\s\S]*minilm"):
        KnowledgeBase.load(tmp_path, minilm)
    with pytest.raises(IndexMismatchError, match=r"hash[\s\S]*minilm"):
        extend(KnowledgeBase.load(tmp_path, ENCODER), [output(2, YEAR)], minilm)
    with pytest.raises(KnowledgeBaseError, match="holds no knowledge base"):
        KnowledgeBase.load(tmp_path / "nowhere", ENCODER)


def test_a_log_survives_a_kill_and_knows_its_documents(tmp_path: Path) -> None:
    path = tmp_path / "outputs.jsonl"
    OutputLog(path).append([output(1, DIRECTOR), output(2, YEAR)])
    with path.open("a", encoding="utf-8") as handle:
        handle.write('{"id": "d3", "text": "half')
    log = OutputLog(path)
    assert list(log.outputs) == ["d1", "d2"]
    passages = [Passage(f"d{n}", "Dus Lakh", PASSAGE) for n in (1, 3, 3)]
    new, known = log.missing(passages)
    assert ([p.id for p in new], known) == (["d3"], 2)
    log.append([output(3)])
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["d1", "d2", "d3"]


@pytest.mark.parametrize("ids", [("d1",), ("d9", "d9")])
def test_two_documents_under_one_id_are_refused(ids: tuple[str, ...], tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "outputs.jsonl")
    log.append([output(1, DIRECTOR)])
    passages = [Passage(name, "Other", f"Text {place}.") for place, name in enumerate(ids)]
    with pytest.raises(DuplicateDocumentError, match=ids[-1]):
        log.missing(passages)


def test_an_entry_reads_back() -> None:
    table = EntryTable()
    table.add(DIRECTOR, "d1")
    assert Entry.from_json(json.loads(json.dumps(table.entries[0].to_json()))) == table.entries[0]
