"""The counts of a card add up: from the lines of the input to the samples of the splits."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from data_gen.builds.shards import ITEMS
from data_gen.builds.triples import QA_SOURCES
from tests.data_gen.build_inputs import write_inputs, write_lines
from tests.data_gen.test_build_pins import BUILDERS

# What becomes of candidates, whatever source they are of.
DROPPED = (
    "nothing stated within the limit of words",
    "same text again",
    "left out: common relations alone",
    "left out: tells a relation without a label",
)
REFUSED = (
    "left out: supports a test question",
    "left out: states none of its triples",
    "too many triples",
)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def build(builder: str, arguments: list[str], out: str = "out") -> dict[str, Any]:
    module, _ = BUILDERS[builder]
    module.main([*arguments, "--out", out])
    card: dict[str, Any] = json.loads(Path(out, "card.json").read_text(encoding="utf-8"))
    return card


def lines(*paths: Path) -> int:
    return sum(bool(line.strip()) for path in paths for line in path.read_bytes().split(b"\n"))


def given(arguments: list[str]) -> list[Path]:
    """The files of questions that a build reads, its sources and those without retrieval."""
    options = list(pairwise(arguments))
    paths = [Path(value.partition("=")[2]) for name, value in options if name == "--source"]
    paths += [Path(value) for name, value in options if name == "--no-retrieval"]
    return [f for path in paths for f in (path.glob("questions_*") if path.is_dir() else [path])]


@pytest.mark.parametrize("case", ["contexts", "corpus", "sampled", "world"])
def test_every_question_and_every_sample_is_accounted_for(case: str) -> None:
    _, cases = BUILDERS["build_subq"]
    arguments = cases(write_inputs(Path()))[case]
    card = build("build_subq", arguments)
    counts = card["counts"]
    left_out = {name: count for name, count in counts.items() if name.startswith("left out: ")}
    assert sum(row["records"] for row in card["sources"]) == counts["questions"]
    skipped = sum(card["skipped_records"].values())
    assert lines(*given(arguments)) == counts["questions"] + sum(left_out.values()) + skipped
    assert case == "world" or {"left out: same id again", "left out: a test question"} <= {*counts}
    assert ("left out: beyond the limit" in counts) == (case in ("corpus", "sampled"))
    build("build_subq", [*arguments, "--shard", "1/1"], "shard")
    with open(Path("shard", ITEMS), encoding="utf-8") as items:
        made = sum(len(json.loads(line)["samples"]) for line in items)
    dropped = ("prompts that came again", "contradictory samples dropped", "samples not chosen")
    assert made == sum(card["splits"].values()) + sum(counts.get(name, 0) for name in dropped)
    assert ("samples not chosen" in counts) == (case == "sampled")


def taken(card: dict[str, Any], name: str) -> int:
    """The candidates of one source that limits and caps leave."""
    kinds = card["kinds"]
    if name not in QA_SOURCES:
        return int(kinds[name])
    made = kinds[f"{name}, annotated and completed"] + kinds[f"{name}, weak labels alone"]
    return int(made - kinds.get(f"{name}, beyond the cap", 0))


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--grounded", "--cap", "contract=9", "--cap", "tekgen=99"],
        ["--max-words", "12", "--balance", "6"],
        ["--exclude", "exclude_texts.jsonl", "--fractions", "0.5,0.3,0.2"],
    ],
)
def test_every_text_is_accounted_for(more: list[str]) -> None:
    paths = write_inputs(Path())
    sentence = json.loads(paths["texts"].read_text(encoding="utf-8").splitlines()[2])["text"]
    question = {"id": "t", "question": "Who?", "answer": "Ann", "supporting_facts": [["Ann", 0]]}
    title, _, rest = f"Ann: {sentence}".partition(": ")
    write_lines(Path("exclude_texts.jsonl"), [{**question, "context": [[title, [rest]]]}])
    foreign = {"text": "It rained.", "triples": [["Ann", "is in", "Bonn"]], "dataset": "x"}
    late = "It had rained for a very long time on that day. Ann is in Bonn."
    with open(paths["texts"], "a", encoding="utf-8") as file:
        for row in (foreign, {**foreign, "text": late}):
            file.write(json.dumps(row) + "\n")
        file.write("{not JSON\n")
    names = {"contract": "texts", "wikiofgraph": "pairs", "tekgen": "tekgen"}
    arguments = ["--tokenizer", "words", "--skip-bad", *more]
    for name, file_name in names.items():
        arguments += ["--source", f"{name}={paths[file_name]}"]
    card = build("build_triples", arguments)
    kinds = card["kinds"]
    read = {row["name"]: row["records"] for row in card["sources"]}
    assert lines(*(paths[name] for name in names.values())) == sum(read.values()) + 1
    assert card["skipped_records"] == {"contract": 1}
    beyond = sum(kinds.get(f"{name}, beyond the cap", 0) for name in names)
    kept = sum(taken(card, name) for name in names)
    assert sum(read.values()) == kept + beyond + sum(kinds.get(name, 0) for name in REFUSED)
    assert sum(card["splits"].values()) == kept - sum(kinds.get(name, 0) for name in DROPPED)
    assert bool(beyond) == ("--cap" in more)
    assert ("left out: states none of its triples" in kinds) == ("--grounded" in more)
    assert ("nothing stated within the limit of words" in kinds) == ("--max-words" in more)
    assert kinds["too many triples"] > 0 and kinds["same text again"] > 0


@pytest.mark.parametrize(
    ("builder", "case"),
    [("build_triples", "chosen"), *(("build_conditions", n) for n in ("plain", "few", "tables"))],
)
def test_every_passage_is_accounted_for(builder: str, case: str) -> None:
    _, cases = BUILDERS[builder]
    paths = write_inputs(Path())
    arguments = cases(paths)[case]
    card = build(builder, arguments)
    kinds = card["kinds"]
    names = {row["name"] for row in card["sources"]}
    kept = sum(taken(card, name) for name in names)
    kept -= sum(kinds.get(name, 0) for name in DROPPED)
    if builder == "build_triples":
        assert all(kinds[name] > 0 for name in (*DROPPED[1:], f"{QA_SOURCES[0]}, beyond the cap"))
        assert sum(card["splits"].values()) == kept
        return
    assert card["figures"]["passages"] == kept - kinds.get("left out: another source's passage", 0)
    assert sum(card["splits"].values()) == card["figures"]["triplets"]
    hotpot = sum(row["records"] for row in card["sources"] if row["name"] == "hotpotqa")
    beyond = kinds.get("left out: a question beyond the limit", 0)
    assert lines(paths["hotpot"], paths["hotpot_more"]) == hotpot + beyond
    assert bool(beyond) == (case == "few")
