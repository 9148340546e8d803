"""The parts of an audit against plain reference forms of themselves."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.licences import data_subsets
from data_gen.audits.findings import Choice, Example, Place, Reservoir
from data_gen.audits.subqueries import NameSearch, named_answer, names
from data_gen.audits.support import Support, support
from data_gen.audits.table import (
    chosen,
    first_of_each_value,
    keys_with_two_values,
    later_repeats,
    spread_figures,
    text_hash,
)
from data_gen.facts.entities import mentions
from data_gen.facts.held_out import question_wording, wording
from data_gen.sources.arguments import NamedPath, known_licence, source_entry
from data_gen.sources.texts import file_subsets
from data_gen.streaming.counts import spread_of
from models.formats.planning import HistoryStep
from models.formats.prompts import TASK_INSTRUCTIONS, with_task_instruction
from models.formats.triples import Triple
from tests.data_gen.audited_sets import write_lines

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=40)
WORDS = st.lists(st.sampled_from(["Ann", "the", "Roe", "of", "Brill", "a", "(film)"]), max_size=7)


def columns(pairs: list[tuple[int, int]]) -> tuple[Any, Any]:
    keys = np.array([key for key, _ in pairs], dtype=np.uint64)
    return keys, np.array([value for _, value in pairs], dtype=np.uint64)


@given(PAIRS)
def test_grouping_equals_a_dictionary_s(pairs: list[tuple[int, int]]) -> None:
    keys, values = columns(pairs)
    groups: dict[int, set[int]] = {}
    for key, value in pairs:
        groups.setdefault(key, set()).add(value)
    shared = sorted(key for key, group in groups.items() if len(group) > 1)
    assert keys_with_two_values(keys, values).tolist() == shared
    repeats = [pair in pairs[:position] for position, pair in enumerate(pairs)]
    assert later_repeats(keys, values).tolist() == repeats
    for key in groups:
        firsts = sorted(pairs.index((key, value)) for value in groups[key])
        assert first_of_each_value(keys, values, np.uint64(key), 9) == firsts


@given(st.lists(st.integers(0, 500), max_size=60))
def test_counted_spread_equals_that_of_the_kept_values(values: list[int]) -> None:
    figures = spread_figures(Counter(values))
    assert figures.pop("count", 0) == len(values)
    assert figures == spread_of(Counter(values))


@given(WORDS, WORDS)
def test_an_answer_is_found_by_its_hash_where_its_words_are(
    text: list[str], answer: list[str]
) -> None:
    named = named_answer(" ".join(answer))
    if named is not None:
        assert names(" ".join(text), named) == mentions(" ".join(text), " ".join(answer))


@given(st.lists(WORDS, max_size=4), st.lists(WORDS, max_size=4))
def test_names_are_found_in_passages_as_words_that_stand_together(
    names_: list[list[str]], texts: list[list[str]]
) -> None:
    search = NameSearch()
    entities = [" ".join(words) for words in names_ if words]
    for step, entity in enumerate(entities):
        search.add(step, [entity])
    passages = [" ".join(words) for words in texts]
    _, held = search.search(passages)
    # Articles alone are no name to look for.
    expected = [s for s, e in enumerate(entities) if any(mentions(p, e) for p in passages)]
    assert held.tolist() == expected


@pytest.mark.parametrize("answer", ["yes", "No", "B", " ", "7"])
def test_answers_that_are_no_names_are_not_looked_for(answer: str) -> None:
    assert named_answer(answer) is None


@given(st.text(), st.text())
def test_hashes_tell_texts_apart(first: str, second: str) -> None:
    assert (text_hash(first) == text_hash(second)) == (first == second)


def test_examples_depend_on_the_seed_alone_and_every_one_has_its_chance() -> None:
    def kept(seed: int) -> list[Place]:
        reservoir = Reservoir(Choice(2, seed), "x")
        for line in range(10):
            reservoir.offer(Example((Place(0, line),)))
        assert reservoir.seen == 10
        return [example.places[0] for example in reservoir.examples()]

    assert kept(3) == kept(3)
    draws = [place.line for seed in range(500) for place in kept(seed)]
    assert all(60 < draws.count(line) < 140 for line in range(10))
    items = np.arange(100, dtype=np.uint64)
    assert chosen(items, Choice(5, 1)) == chosen(items, Choice(5, 1)) == sorted(
        set(chosen(items, Choice(5, 1)))
    )  # fmt: skip


@given(st.text(alphabet="aB c.,-?É\t\n", max_size=20))
def test_wording_does_not_see_case_spacing_or_punctuation(text: str) -> None:
    words = wording(text)
    assert wording(words) == words
    assert wording(f"  {text.upper()} ") == wording(text.upper()) == words
    if any(character.isalnum() for character in text):
        assert wording(f"{text}?!") == words


def test_wording_keeps_what_has_no_words_apart() -> None:
    assert len({wording(text) for text in ("?", "!", "+ -", "")}) == 4
    assert wording("Ｆｉｌｍ") == wording("film")


@pytest.mark.parametrize("dataset", TASK_INSTRUCTIONS)
def test_task_instructions_are_no_part_of_a_question(dataset: str) -> None:
    asked = with_task_instruction("Why is it so?", dataset)
    assert asked != "Why is it so?"
    assert question_wording(asked) == question_wording("Why is it so?")


def step(subquery: str, *triples: tuple[str, str, str]) -> HistoryStep:
    return HistoryStep(subquery, tuple(Triple(*triple) for triple in triples))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (step("Who directed The Zone (2017 Film)?", ("Zone", "x", "y")), Support.ABOUT),
        (step("Who directed it?", ("Lake", "directed by", "Roe")), Support.ABOUT),
        (step("Who founded Brill?", ("Roe", "founder of", "the Brill (town)")), Support.ABOUT),
        (step("Who founded Brill?", ("It", "was Brill founded by", "Roe")), Support.ABOUT),
        (step("Who founded Ann Brill?", ("Lake", "Ann", "Brill")), Support.ELSEWHERE),
        (step("Who founded Brill?", ("Brillon", "founder", "x")), Support.ELSEWHERE),
        (step("who founded it?", ("Lake", "country", "Poland")), Support.ELSEWHERE),
        (step("Who founded Brill?"), Support.EMPTY),
        (step("Where was Ann Roe born?"), Support.NOTHING_NEW),
        (step("Where was Ann Roe born?", ("Lake", "country", "x")), Support.NOTHING_NEW),
        (step("Where was Max Moss born?"), Support.EMPTY),
    ],
)
def test_support(asked: HistoryStep, expected: Support) -> None:
    # What an earlier step has a fact about is its subject; its object was only named.
    earlier = step("Q", ("Ann Roe", "father", "Max Moss"))
    assert support([earlier, asked], 1) is expected


def test_sources_name_their_licences(tmp_path: Path) -> None:
    records = [
        {"text": "a", "triples": [], "dataset": "x", "licence": "MIT"},
        {"text": "b", "triples": [], "dataset": "x"},
        {"text": "c", "triples": [], "dataset": "y", "licence": "CC BY-NC-SA 4.0"},
    ]
    file = write_lines(tmp_path / "texts.jsonl", records)
    licences = {row["licence"] for row in file_subsets(file)}
    assert licences == {"MIT", "not stated", "CC BY-NC-SA 4.0"}
    assert file_subsets(file, ["y"]) == [
        {"subset": "y", "licence": "CC BY-NC-SA 4.0", "records": 1}
    ]
    source = NamedPath("contract", str(file))
    assert source_entry(source, 3)["licence"] == "not stated"
    entry = source_entry(source, 3, file_subsets(file, ["x"]))
    assert entry["licence"] == "MIT; not stated"
    rows = data_subsets([entry])
    assert [(row["subset"], row["licence"], row["records"]) for row in rows] == [
        ("x", "MIT", 1), ("x", "not stated", 1)
    ]  # fmt: skip
    assert {row["sha256"] for row in rows} == {entry["sha256"]}
    assert known_licence("contract", "data/arc_challenge.jsonl") == "CC BY-SA 4.0"
    assert known_licence("musique", "any.jsonl") == "CC BY 4.0"
    assert known_licence("contract", "worlds.jsonl") is None
