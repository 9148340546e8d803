"""The synthetic world: what it says is true, told where it says, and asked without a shortcut."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.scripted_world.gold_world import Solver
from data_gen.build_world import build_world
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord, QuestionRecord, TriplesSample, read_records

SPLITS = ("train", "dev", "test")


@dataclass
class Built:
    folder: Path
    questions: dict[str, list[QuestionRecord]]
    corpus: list[PassageRecord]
    samples: list[TriplesSample]
    card: dict[str, object]

    @property
    def all_questions(self) -> list[QuestionRecord]:
        return [record for split in SPLITS for record in self.questions[split]]


def _read(folder: Path) -> Built:
    return Built(
        folder,
        {s: list(read_records(folder / f"questions_{s}.jsonl", QuestionRecord)) for s in SPLITS},
        list(read_records(folder / "corpus.jsonl", PassageRecord)),
        list(read_records(folder / "triples.jsonl", TriplesSample)),
        json.loads((folder / "card.json").read_text(encoding="utf-8")),
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("world") / "out"
    build_world(400, 7, folder, progress=False)
    return _read(folder)


def _solver(built: Built) -> Solver:
    return Solver(triple for sample in built.samples for triple in sample.triples)


def test_an_independent_solver_agrees_with_every_answer(built: Built) -> None:
    solver = _solver(built)
    for record in built.all_questions:
        assert solver.answers(record) == {record.answer}, record


def test_every_question_is_asked_once_and_all_types_occur(built: Built) -> None:
    records = built.all_questions
    assert len(records) == 400
    assert len({record.id for record in records}) == len({r.question for r in records}) == 400
    assert {record.type for record in records} == {
        "single",
        "bridge",
        "comparison",
        "bridge_comparison",
        "yes_no",
        "intersection",
        "self_contained",
    }
    assert {len(record.evidences) for record in records} == {0, 1, 2, 3, 4}


def test_gold_triples_stand_in_their_passage(built: Built) -> None:
    for passage, sample in zip(built.corpus, built.samples, strict=True):
        assert passage.id == sample.id
        assert sample.text == passage_text(passage.title, passage.text)
        assert sample.triples
        for triple in sample.triples:
            assert triple.subject in sample.text
            assert triple.object in sample.text
            # One end is what the passage is about; the other is named in its text.
            assert passage.title in (triple.subject, triple.object)


def test_a_fact_is_told_once_and_relations_are_single_valued(built: Built) -> None:
    told = [(t.subject, t.predicate) for sample in built.samples for t in sample.triples]
    assert len(told) == len(set(told))
    titles = [passage.title for passage in built.corpus]
    assert len(titles) == len(set(titles))


def test_passages_are_short(built: Built) -> None:
    for passage in built.corpus:
        assert 20 <= len(passage.text.split()) <= 90, passage.text


def test_supporting_sentences_hold_the_evidence(built: Built) -> None:
    for record in built.all_questions:
        context = dict(record.context)
        assert len(record.context) == len(context) == 8
        assert len(record.question_decomposition) == len(record.evidences)
        told = [(title, context[title][line]) for title, line in record.supporting_facts]
        for triple, step in zip(record.evidences, record.question_decomposition, strict=True):
            assert step.paragraph_support_idx is not None
            title, sentences = record.context[step.paragraph_support_idx]
            assert title in (triple.subject, triple.object)
            found = [line for at, line in told if at == title]
            other = triple.subject if title == triple.object else triple.object
            assert any(other in line for line in found), (triple, found)
            assert any(line in sentences for line in found)


def test_steps_name_what_is_known_and_lead_to_the_answer(built: Built) -> None:
    for record in built.all_questions:
        for triple, step in zip(record.evidences, record.question_decomposition, strict=True):
            assert "#" not in step.question
            if record.type != "intersection":
                assert triple.subject in step.question
                assert step.answer == triple.object
        if record.type in ("single", "bridge"):
            assert record.question_decomposition[-1].answer == record.answer
            assert record.evidences[0].subject in record.question


def test_no_shortcut(built: Built) -> None:
    texts = {passage.title: passage.text for passage in built.corpus}
    for record in built.all_questions:
        if record.type in ("single", "bridge", "intersection"):
            assert record.answer not in record.question
        if record.type == "bridge":
            for step in record.question_decomposition[:-1]:
                assert step.answer not in record.question
                title, _ = record.context[step.paragraph_support_idx or 0]
                assert f" {record.answer}" not in texts[title], record


def test_answers_are_balanced(built: Built) -> None:
    records = built.all_questions
    said = Counter(r.answer for r in records if r.type == "yes_no")
    assert abs(said["yes"] - said["no"]) <= 3
    for type_name in ("comparison", "bridge_comparison"):
        chosen = [r for r in records if r.type == type_name]
        first = sum(_mentioned_first(record) for record in chosen)
        assert abs(2 * first - len(chosen)) <= 6


def _mentioned_first(record: QuestionRecord) -> bool:
    names = {record.evidences[0].subject, record.evidences[len(record.evidences) // 2].subject}
    return min(names, key=record.question.index) == record.answer


def test_no_evidence_chain_is_shared_between_questions(built: Built) -> None:
    chains = [frozenset(r.evidences) for r in built.all_questions if r.evidences]
    assert len(chains) == len(set(chains))
    for split in SPLITS:
        assert built.questions[split]


def test_card_counts_what_was_written(built: Built) -> None:
    card = built.card
    records = built.all_questions
    assert card["questions"] == 400
    assert card["splits"] == {split: len(built.questions[split]) for split in SPLITS}
    assert card["types"] == dict(Counter(record.type for record in records))
    assert card["hops"] == {
        str(hops): n for hops, n in sorted(Counter(len(r.evidences) for r in records).items())
    }
    assert card["triples"] == sum(len(sample.triples) for sample in built.samples)
    assert card["passages"] == len(built.corpus) == card["entities"]


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 60), entities=st.integers(150, 300))
def test_any_seed_and_size_gives_a_sound_world(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, entities: int
) -> None:
    folder = tmp_path_factory.mktemp("any") / "out"
    build_world(count, seed, folder, entities=entities, progress=False)
    world = _read(folder)
    assert len(world.all_questions) == count
    assert len(world.corpus) == entities
    solver = _solver(world)
    for record in world.all_questions:
        assert solver.answers(record) == {record.answer}, record
