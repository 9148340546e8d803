"""Development splits: nothing shared with train, nothing lost, the same in every run."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from data_gen.facts.held_out import QuestionGroups, choose_dev, leak_keys
from data_gen.sources.arguments import NamedPath
from data_gen.split_questions import QuestionSplit
from models.formats.records import QuestionRecord, read_records, write_records
from models.formats.triples import Triple

ROOT = Path(__file__).resolve().parents[2]
people = st.integers(0, 12).map(lambda number: f"Ann {number}")
records = st.builds(
    QuestionRecord,
    id=st.one_of(
        st.integers(0, 99).map(lambda number: f"q{number}"),
        st.builds(lambda a, b: f"2hop__{a}_{b}", st.integers(0, 20), st.integers(0, 20)),
    ),
    question=st.integers(0, 60).map(lambda number: f"Who knows {number}?"),
    answer=people,
    evidences=st.lists(st.builds(Triple, people, st.just("knows"), people), max_size=2),
)
Split = dict[str, list[QuestionRecord]]


def split(
    questions: list[QuestionRecord], fraction: float, seed: int = 0, exclude: Any = ()
) -> tuple[Split, dict[str, Any]]:
    """Both parts as written, and the card."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_records(folder / "in.jsonl", questions)
        write_records(folder / "test.jsonl", exclude)
        made = QuestionSplit(argparse.Namespace(
            questions=[NamedPath("contract", str(folder / "in.jsonl"))], dev_fraction=fraction,
            exclude=[folder / "test.jsonl"], seed=seed, skip_bad=False,
        ))  # fmt: skip
        counts = made.write(folder)
        parts = {
            part: list(read_records(folder / f"{part}.jsonl", QuestionRecord)) for part in counts
        }
        assert counts == {part: len(own) for part, own in parts.items()}
        return parts, made.card(counts)


def keys(questions: list[QuestionRecord]) -> set[str]:
    return {key for record in questions for _, key in leak_keys(record)}


def lines(questions: list[QuestionRecord]) -> list[str]:
    return sorted(json.dumps(record.to_json()) for record in questions)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(records, min_size=1, max_size=40), st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]),
    st.integers(0, 3), st.randoms(),
)  # fmt: skip
def test_parts_share_nothing_and_nothing_is_lost(
    questions: list[QuestionRecord], fraction: float, seed: int, random: Any
) -> None:
    parts, card = split(questions, fraction, seed)
    assert not keys(parts["train"]) & keys(parts["dev"])
    left_out = sum(card["left_out"].values())
    assert len(parts["train"]) + len(parts["dev"]) + left_out == len(questions)
    written = lines(parts["train"] + parts["dev"])
    every = lines(questions)
    assert all(written.count(line) <= every.count(line) for line in written)
    if not left_out:
        assert written == every
    wanted = round(fraction * len(questions))
    # Twins of one id are taken together, so that dev may come out larger by them.
    twins = len(questions) - len({record.id for record in questions})
    assert 0.9 * wanted - 1 <= len(parts["dev"]) <= wanted + twins
    shuffled = random.sample(questions, len(questions))
    again, _ = split(shuffled, fraction, seed)
    assert {part: lines(own) for part, own in again.items()} == {
        part: lines(own) for part, own in parts.items()
    }


@given(st.lists(records, max_size=30))
def test_groups_are_those_of_a_search_from_question_to_question(
    questions: list[QuestionRecord],
) -> None:
    found = QuestionGroups()
    for record in questions:
        found.add(record)
    groups = found.groups()
    expected: list[tuple[set[str], set[int]]] = []
    for number, record in enumerate(questions):
        own, members = keys([record]), {number}
        touching = [group for group in expected if group[0] & own]
        for other, numbers in touching:
            own, members = own | other, members | numbers
        expected = [group for group in expected if group not in touching] + [(own, members)]
    partition = {frozenset(members) for _, members in expected}
    numbers = range(len(questions))
    assert {
        frozenset(n for n in numbers if groups.of[n] == groups.of[m]) for m in numbers
    } == partition
    assert sorted(groups.sizes) == sorted(map(len, partition))
    assert choose_dev(groups, 0.5, 0).sum() <= round(0.5 * len(questions))


def single(number: int, person: int) -> QuestionRecord:
    evidences = [Triple(f"Ann {person}", "knows", "Bo")]
    return QuestionRecord(f"q{number}", f"Who {number}?", str(number), evidences=evidences)


def test_one_large_group_costs_train_questions_that_are_counted() -> None:
    hub = Triple("All", "know", "Bo")
    chained = [
        QuestionRecord(
            f"q{n}", f"Who {n}?", str(n),
            evidences=[Triple("Ann", f"knows {n}", "Bo"), Triple("Ann", f"knows {n + 1}", "Bo")],
        )
        for n in range(100)
    ]  # fmt: skip
    parts, card = split(chained, 0.1)
    assert len(parts["dev"]) == 10 and card["groups"]["questions of the largest"] == 100
    assert card["groups"]["dev, taken out of groups"] == 10
    left_out = card["left_out"]["shares an evidence triple with a dev question"]
    assert 10 <= left_out <= 20 and len(parts["train"]) == 90 - left_out
    # All share one fact: whoever is in dev, nobody can stay.
    star = [QuestionRecord(f"q{n}", f"Who {n}?", str(n), evidences=[hub]) for n in range(20)]
    parts, card = split(star, 0.1)
    assert len(parts["dev"]) == 2 and not parts["train"] and sum(card["left_out"].values()) == 18


def test_sizes_seeds_and_test_questions() -> None:
    questions = [single(n, n // 2) for n in range(400)]
    chosen = []
    for seed in (0, 1):
        parts, card = split(questions, 0.1, seed)
        assert (len(parts["train"]), len(parts["dev"])) == (360, 40)
        assert card["left_out"] == {} and card["groups"]["groups"] == 200
        chosen.append({record.id for record in parts["dev"]})
    assert chosen[0] != chosen[1]
    _, card = split(questions, 0.1, exclude=[single(0, 0), single(999, 7)])
    assert card["left_out"] == {
        "a test question": 1, "shares an evidence triple with a test question": 3
    }  # fmt: skip
    assert sum(card["splits"].values()) == 396


def test_the_command_writes_what_builders_read(tmp_path: Path) -> None:
    questions = [single(n, n // 2) for n in range(40)]
    write_records(tmp_path / "in.jsonl", questions)
    command = [sys.executable, str(ROOT / "data_gen/split_questions.py"), "--out", "out"]
    run = [*command, "--questions", "2wikimultihopqa=in.jsonl", "--dev-fraction", "0.2", "--json"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["splits"] == {"train": 32, "dev": 8}
    card = json.loads((tmp_path / "out/card.json").read_text(encoding="utf-8"))
    assert card["sources"][0]["licence"] == "Apache-2.0" and card["sources"][0]["records"] == 40
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "card.json", "card.md", "dev.jsonl", "train.jsonl"
    ]  # fmt: skip
    (tmp_path / "in.jsonl").write_text('{"id": "x"}\n', encoding="utf-8")
    failed = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert failed.returncode == 1 and "in.jsonl:1" in failed.stderr.splitlines()[-1]
    assert "Traceback" not in failed.stderr
    assert (tmp_path / "out/card.json").is_file()
