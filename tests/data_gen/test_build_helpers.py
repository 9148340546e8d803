"""build_helpers.py as it is run: by path, task by task, on fixtures and on real data."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from models.formats.helpers import NOTHING, parse_gap, parse_subquery
from models.formats.query_triplets import name_free, parse_query_triplets
from models.formats.records import InstructionSample, read_records
from models.formats.topics import parse_topic
from tests.data_gen.test_build_commands import question, run, run_anew, write_lines
from tests.shared_data import shared_data_file

QUICK = ("--tokenizer", "words", "--json")


def build(task: str, folder: Path, *arguments: str | Path, start: Any = run) -> dict[str, Any]:
    """Run the command; its summary."""
    done = start(
        "build_helpers.py", "--task", task, *arguments, "--out", folder, *QUICK, cwd=folder.parent
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def read_all(folder: Path) -> dict[str, list[InstructionSample]]:
    names = ("train", "dev", "test")
    return {name: list(read_records(folder / f"{name}.jsonl", InstructionSample)) for name in names}


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "questions.jsonl", [question(number) for number in range(12)])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "world"
    made = run("build_world.py", "--questions", "60", "--out", folder, cwd=folder.parent)
    assert made.returncode == 0, made.stderr
    return folder


def test_subqueries_are_those_of_each_document(questions: Path, tmp_path: Path) -> None:
    # Without evidences, which all of these questions share.
    test = write_lines(tmp_path / "test.jsonl", [{**question(3), "evidences": []}])
    arguments = ("--source", f"2wikimultihopqa={questions}", "--exclude", test,
                 "--fractions", "0.6,0.4,0")  # fmt: skip
    summary = build("subquery", tmp_path / "out", *arguments)
    splits = read_all(tmp_path / "out")
    assert summary["splits"] == {name: len(samples) for name, samples in splits.items()}
    owners = [{s.source_id for s in samples} for samples in splits.values()]
    assert owners[0] and owners[1] and not owners[0] & owners[1]
    assert owners[0] | owners[1] == {f"q{number}" for number in range(12)} - {"q3"}
    by_id = {s.id: s for samples in splits.values() for s in samples}
    first, second = by_id["q1/subquery/0"], by_id["q1/subquery/1"]
    assert first.label == "Who directed Zone 1?"
    assert first.prompt.startswith("Document: Zone 1: Zone is a 2017")
    assert second.label == "Where was Denys Roe born?"
    assert "Asked: Who directed Zone 1?\nSub-query:\n" in second.prompt
    assert all(parse_subquery(sample.label) == sample.label for sample in by_id.values())
    card = json.loads((tmp_path / "out" / "card.json").read_text(encoding="utf-8"))
    assert card["counts"]["left out: a test question"] == 1
    assert card["figures"]["samples"] == len(by_id) and card["samples_to_read"]
    build("subquery", tmp_path / "again", *arguments, start=run_anew)
    for name in ("train.jsonl", "dev.jsonl", "card.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_documents_of_questions_without_text_are_looked_up(tmp_path: Path) -> None:
    tree = {
        "id": None, "question": "Where was the director of Zone born?", "answer": None,
        "predicted_answer": "Montreal", "form": "LLM question tree (silver)", "dataset": "musique",
        "sub_questions": [
            {"question": "Who directed Zone?", "answer": "Denys Roe", "sons": []},
            {"question": "Where was he born?", "answer": "Paris", "sons": []},
            {"question": "Where was Denys Roe born?", "answer": "Montreal", "sons": []},
            {"question": "Where was the director born?", "answer": "Montreal", "sons": [0, 2]},
        ],
    }  # fmt: skip
    other = {"form": "QDMR", "question": "q", "answer": None}
    source = write_lines(tmp_path / "trees.jsonl", [tree, other])
    corpus = write_lines(
        tmp_path / "corpus.jsonl",
        [
            {"id": "1", "title": "Zone (film)", "text": "Zone is a film directed by Denys Roe."},
            {"id": "2", "title": "Denys Roe", "text": "Denys Roe was born in Montreal."},
            {"id": "3", "title": "Paris", "text": "Paris is where many were born."},
        ],
    )
    arguments = ("--source", f"subquestions={source}", "--corpus", f"hotpotqa={corpus}")
    build("subquery", tmp_path / "out", *arguments, "--fractions", "1,0,0")
    samples = read_all(tmp_path / "out")["train"]
    assert {s.id: s.label for s in samples} == {
        "musique/trees:1/subquery/0": "Who directed Zone?",
        "musique/trees:1/subquery/2": "Where was Denys Roe born?",
    }
    last = next(s for s in samples if s.id.endswith("/2"))
    assert last.prompt.startswith("Document: Denys Roe: ")
    assert "Asked: Who directed Zone?\nAsked: Where was he born?\n" in last.prompt


def test_a_question_of_two_sources_is_taken_once(questions: Path, tmp_path: Path) -> None:
    again = {**question(1), "id": "other", "question": question(1)["question"].upper()}
    more = write_lines(tmp_path / "more.jsonl", [again, question(20)])
    arguments = ("--source", f"2wikimultihopqa={questions}", "--source", f"musique={more}")
    summary = build("subquery", tmp_path / "out", *arguments)
    assert summary["counts"]["left out: the same question again"] == 1
    sources = {s.source_id for split in read_all(tmp_path / "out").values() for s in split}
    assert sources == {*(f"q{number}" for number in range(12)), "q20"}


def test_decompositions_of_a_world(world: Path, tmp_path: Path) -> None:
    summary = build("decompose", tmp_path / "out", "--source", f"world={world}")
    samples = [s for split in read_all(tmp_path / "out").values() for s in split]
    assert len(samples) > 30 and summary["counts"]["left out: no facts annotated"] > 0
    held_out = {json.loads(line)["id"] for line in (world / "questions_test.jsonl").open()}
    assert held_out and not held_out & {sample.source_id for sample in samples}
    for sample in samples:
        parsed = parse_query_triplets(sample.label)
        assert parsed.triplets and not parsed.malformed
        # Every placeholder that has a name is introduced by a triplet that can be searched.
        described = [field for t in name_free(parsed.triplets) for field in t.placeholders]
        named = [p for t in parsed.triplets for p in t.placeholders if p != "?"]
        assert sum(field != "?" for field in described) == len(named) - len(set(named))


def test_resolutions_of_a_world(world: Path, tmp_path: Path) -> None:
    options = ("--nothing-rate", "0.5", "--propositions-rate", "0.5", "--passages", "2")
    build("resolve", tmp_path / "out", "--source", f"world={world}", *options)
    samples = read_all(tmp_path / "out")["train"]
    told = [sample for sample in samples if sample.label != NOTHING]
    assert 0.3 < len(told) / len(samples) < 0.7
    propositions = 0
    for sample in samples:
        *context, asked, _, _ = sample.prompt.split("\n")
        [triplet] = parse_query_triplets(asked.removeprefix("Open: ")).triplets
        assert triplet.state == "searchable"
        by_facts = len(context) > 2 or ": " not in context[0].removeprefix("Passage: ")
        propositions += by_facts
        if sample in told:
            [filled] = parse_query_triplets(sample.label).triplets
            [value] = [f for f, o in zip(filled.fields, triplet.fields, strict=True) if f != o]
            assert any(value in line for line in context)
        else:
            assert context
    assert 0.2 < propositions / len(samples) < 0.8


def test_judgements_of_a_world(world: Path, tmp_path: Path) -> None:
    build("judge_gap", tmp_path / "out", "--source", f"world={world}", "--fractions", "1,0,0")
    samples = read_all(tmp_path / "out")["train"]
    states: dict[str, list[InstructionSample]] = {}
    for sample in sorted(samples, key=lambda s: int(s.id.rpartition("/")[2])):
        states.setdefault(sample.source_id, []).append(sample)
    for own in states.values():
        missing = [parse_gap(sample.label).missing for sample in own]
        assert [len(one) for one in missing] == list(range(len(own) - 1, -1, -1))
        for sample, still in zip(own, missing, strict=True):
            shown = {line for line in sample.prompt.split("\n") if line.startswith("Known: ")}
            assert not shown & {f"Known: {' | '.join(t.fields)}" for t in still}
    assert any(len(own) == 1 for own in states.values()), "a question that needs no fact"


def test_topics_of_a_world_keep_an_entity_in_one_split(world: Path, tmp_path: Path) -> None:
    arguments = ("--source", f"world={world}", "--fractions", "0.5,0.5,0", "--limit", "60")
    summary = build("topic", tmp_path / "out", *arguments)
    assert summary["counts"]["entities"] == 60
    splits = read_all(tmp_path / "out")
    entities = [{s.source_id for s in splits[name]} for name in ("train", "dev")]
    assert entities[0] and entities[1] and not entities[0] & entities[1]
    for sample in [*splits["train"], *splits["dev"]]:
        sentence, entity = sample.prompt.split("\n")[:2]
        assert parse_topic(sample.label)
        assert entity.removeprefix("Entity: ").split(" ")[-1] in sentence
    kinds: dict[str, set[str]] = {s.source_id: set() for s in splits["train"]}
    for sample in splits["train"]:
        kinds[sample.source_id].add(sample.label)
    assert all(len(labels) == 1 for labels in kinds.values())
    assert len({label for labels in kinds.values() for label in labels}) > 3


def offered(number: int, question_id: str, **change: Any) -> list[dict[str, Any]]:
    """A question's choice of topics and of subtopics."""
    asked = {"question": f"Who directed Zone {number}?", **change}
    kinds = [f"Kind {n:02}" for n in range(12)]
    return [
        {"id": f"{question_id}/0", **asked, "level": "topics", "topic": "",
         "names": ["Arts", "Cinema", "Music"], "chosen": ["Music", "Cinema"]},
        {"id": f"{question_id}/1", **asked, "level": "subtopics", "topic": "Cinema",
         "names": kinds, "chosen": [kinds[number]]},
    ]  # fmt: skip


def test_choices_of_topics_are_those_of_the_file(tmp_path: Path) -> None:
    lines = [line for n in range(10) for line in offered(n, f"q{n}")]
    again = [*offered(3, "other"), *offered(4, "q4", question="Who else?"), *offered(11, "q11")]
    first = write_lines(tmp_path / "choices.jsonl", lines)
    second = write_lines(tmp_path / "more.jsonl", again)
    test = write_lines(tmp_path / "test.jsonl", [{**question(2), "id": "q2"}])
    arguments = ("--source", f"choices={first}", "--source", f"choices={second}",
                 "--exclude", test, "--fractions", "0.5,0.5,0")  # fmt: skip
    summary = build("choose_topics", tmp_path / "out", *arguments)
    assert summary["counts"]["questions of choices"] == 10
    assert summary["counts"]["left out: a test question"] == 1
    assert summary["counts"]["left out: same id again"] == 1
    assert summary["counts"]["left out: the same question again"] == 1
    splits = read_all(tmp_path / "out")
    owners = [{s.source_id for s in splits[name]} for name in ("train", "dev")]
    assert owners[0] and owners[1] and not owners[0] & owners[1]
    assert owners[0] | owners[1] == {f"q{n}" for n in (0, 1, *range(3, 10), 11)}
    by_id = {s.id: s for samples in splits.values() for s in samples}
    assert len(by_id) == 20
    topics, under = by_id["q5/choose_topics/0"], by_id["q5/choose_topics/1"]
    assert topics.prompt == (
        'Allowed topics: ["Arts", "Cinema", "Music"]\nQuestion: Who directed Zone 5?\n'
        "Chosen topics:\n"
    )
    assert topics.label == '{"topics": ["Music", "Cinema"]}'
    assert under.prompt.startswith('Allowed subtopics of Cinema: ["Kind 00", ')
    assert under.label == '{"subtopics": ["Kind 05"]}'
    limited = build("choose_topics", tmp_path / "few", *arguments[:2], "--limit", "3")
    assert limited["counts"]["questions of choices"] == 3 and limited["figures"]["samples"] == 6


def fails(tmp_path: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    done = run("build_helpers.py", *arguments, "--out", tmp_path / "o", *QUICK, cwd=tmp_path)
    assert done.returncode != 0 and not (tmp_path / "o").exists()
    assert "Traceback" not in done.stderr
    return done


def test_what_cannot_be_built_is_said(questions: Path, world: Path, tmp_path: Path) -> None:
    source = ("--source", f"2wikimultihopqa={questions}")
    assert "only a world says" in fails(tmp_path, "--task", "topic", *source).stderr
    plain = write_lines(tmp_path / "hotpot.jsonl", [{**question(1), "evidences": []}])
    said = fails(tmp_path, "--task", "decompose", "--source", f"hotpotqa={plain}").stderr
    assert "no annotation for the task decompose" in said
    assert "invalid choice" in fails(tmp_path, "--task", "guess", *source).stderr
    changed = tmp_path / "world"
    changed.mkdir()
    for path in world.iterdir():
        (changed / path.name).write_bytes(path.read_bytes())
    card = json.loads((changed / "card.json").read_text(encoding="utf-8"))
    (changed / "card.json").write_text(json.dumps({**card, "seed": 5}), encoding="utf-8")
    said = fails(tmp_path, "--task", "topic", "--source", f"world={changed}").stderr
    assert "not the world" in said


def test_choices_that_cannot_be_built_from_are_said(questions: Path, tmp_path: Path) -> None:
    choose = ("--task", "choose_topics", "--source")
    said = fails(tmp_path, *choose, f"2wikimultihopqa={questions}").stderr
    assert "Give choices=FILE, which inference/offer_topics.py wrote" in said
    lines = [*offered(0, "q0"), *offered(1, "q1")]
    lines[2] |= {"level": "themes"}
    broken = write_lines(tmp_path / "broken.jsonl", lines)
    said = fails(tmp_path, *choose, f"choices={broken}").stderr
    assert f"{broken}:3: field 'level': is 'themes'" in said
    summary = build("choose_topics", tmp_path / "out", "--source", f"choices={broken}",
                    "--skip-bad")  # fmt: skip
    assert summary["figures"]["samples"] == 3
    card = json.loads((tmp_path / "out" / "card.json").read_text(encoding="utf-8"))
    assert card["skipped_records"] == {"choices": 1}
    empty = write_lines(tmp_path / "empty.jsonl", [])
    assert "no annotation for the task" in fails(tmp_path, *choose, f"choices={empty}").stderr
    said = fails(tmp_path, "--task", "decompose", "--source", f"choices={broken}").stderr
    assert "it is for --task choose_topics alone" in said


@pytest.mark.slow
def test_real_data(tmp_path: Path) -> None:
    sources = [
        f"--source={name}={shared_data_file(f'{file}.jsonl')}"
        for name, file in (
            ("2wikimultihopqa", "qa/2wikimultihopqa_train"),
            ("musique", "qa/musique_train"),
            ("musique", "extra/musique_decompositions"),
        )
    ]
    summary = build("decompose", tmp_path / "out", *sources, "--skip-bad")
    assert summary["figures"]["samples"] > 1500
    assert summary["counts"]["questions of musique"] > 300
    assert summary["figures"]["output_tokens"]["max"] < 80
