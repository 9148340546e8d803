"""Shards put together are the whole build, byte for byte; what is no whole set is refused."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.shards import WHOLE, Shard, shard
from data_gen import merge_shards
from data_gen.builds.shards import ITEMS
from tests.data_gen.build_inputs import wiki, write_inputs, write_lines
from tests.data_gen.test_build_commands import run
from tests.data_gen.test_build_pins import BUILDERS, PINS, hashes

CASES = json.loads(PINS.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Cards name broken records by the path that was given, so the paths are relative.
    monkeypatch.chdir(tmp_path)


def make(case: str, part: str, out: str, *more: str) -> Path:
    builder, name = case.split(" ")
    module, cases = BUILDERS[builder]
    paths = {name: Path(path) for name, path in _inputs().items()}
    module.main([*cases(paths)[name], *more, "--shard", part, "--out", out])
    return Path(out)


def _inputs() -> dict[str, str]:
    if not Path("paths.json").exists():
        written = {name: str(path) for name, path in write_inputs(Path()).items()}
        Path("paths.json").write_text(json.dumps(written), encoding="utf-8")
    paths: dict[str, str] = json.loads(Path("paths.json").read_text(encoding="utf-8"))
    return paths


def merge(*folders: Path | str) -> dict[str, str]:
    merge_shards.main([*map(str, folders), "--out", "merged"])
    return hashes(Path("merged"))


def refused(*folders: Path | str) -> str:
    """The one line of a merge that is refused; nothing is written."""
    with pytest.raises(SystemExit) as error:
        merge(*folders)
    assert not Path("merged").exists()
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]
    return str(error.value)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("case", CASES)
def test_merged_shards_are_the_whole_build(case: str, count: int) -> None:
    shards = [make(case, f"{number}/{count}", f"part{number}") for number in range(1, count + 1)]
    # In whatever order they are named.
    assert merge(*reversed(shards)) == CASES[case]


def test_every_shard_does_a_part_of_the_work() -> None:
    case = "build_subq contexts"
    own = [make(case, f"{n}/3", f"part{n}") for n in (1, 2, 3)]
    cards = [json.loads((folder / "card.json").read_text(encoding="utf-8")) for folder in own]
    records = [card["records"]["own"] for card in cards]
    assert all(records) and sum(records) == cards[0]["records"]["all"]
    assert [card["files"][ITEMS]["lines"] for card in cards] == records
    assert [(card["shard"], card["of"]) for card in cards] == [(1, 3), (2, 3), (3, 3)]
    assert len({card["options_sha256"] for card in cards}) == 1
    assert all(len(row["sha256"]) == 64 for card in cards for row in card["inputs"])
    page = (own[0] / "card.md").read_text(encoding="utf-8")
    assert "# Shard 1 of 3 of a build by build_subq.py" in page


def test_more_shards_than_questions() -> None:
    write_lines(Path("one.jsonl"), [wiki(1), wiki(2)])
    arguments = ("--source", "2wikimultihopqa=one.jsonl", "--tokenizer", "words")
    module, _ = BUILDERS["build_subq"]
    module.main([*arguments, "--out", "whole"])
    for number in range(1, 8):
        module.main([*arguments, "--shard", f"{number}/7", "--out", f"part{number}"])
    assert merge(*(f"part{number}" for number in range(1, 8))) == hashes(Path("whole"))


def test_a_passage_keeps_what_an_earlier_source_s_question_saw_of_it() -> None:
    """The case that would go wrong: shards that do not know each other's look-ups."""
    # MuSiQue's questions annotate the passages that 2WikiMultihopQA's looked up before.
    case = "build_subq contexts"
    for count in (2, 9):
        shards = [make(case, f"{n}/{count}", f"{count}/{n}") for n in range(1, count + 1)]
        assert merge(*shards) == CASES[case]


@given(st.text(max_size=5), st.integers(1, 9))
def test_every_record_is_one_shard_s(record_id: str, count: int) -> None:
    owners = [n for n in range(1, count + 1) if Shard(n, count).owns(record_id)]
    assert len(owners) == 1
    assert WHOLE.owns(record_id)


def test_records_are_dealt_evenly() -> None:
    counts = Counter(
        n for i in range(4000) for n in range(1, 5) if Shard(n, 4).owns(f"question {i}")
    )
    assert all(900 < count < 1100 for count in counts.values())


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/", "/2", "a/2", "-1/2", "1/0", "1/2/3"])
def test_a_shard_that_cannot_be_is_refused_with_the_form(text: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="as 3/8"):
        shard(text)
    assert shard("2/2") == Shard(2, 2)


CASE = "build_triples plain"


def test_a_missing_shard_is_named() -> None:
    folders = [make(CASE, f"{number}/4", f"part{number}") for number in (1, 4)]
    message = refused(*folders)
    assert "missing: 2/4, 3/4" in message and "part1/card.json: shard 1/4" in message
    assert "Make them with --shard" in message


def test_two_shards_with_one_number_are_named() -> None:
    folders = [make(CASE, "1/2", name) for name in ("a", "b")]
    message = refused(*folders)
    assert "b/card.json: shard 1/2: the same number as a" in message
    assert "Give each shard once" in message
    # One folder named twice is no better.
    assert "the same number as a" in refused("a", "a")


def test_shards_of_other_counts_are_refused() -> None:
    message = refused(make(CASE, "1/2", "a"), make(CASE, "2/3", "b"))
    assert "b/card.json: shard 2/3: one of 3 shards" in message


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--seed", "7"), "--seed is 7, in a/card.json: shard 1/2 0"),
        (("--weak-only-limit", "3"), "--weak-only-limit is 3"),
        (("--balance", "9"), "--balance is 9"),
        (("--max-words", "9"), "--max-words is 9"),
        (("--source", "tekgen=tekgen.tsv"), "--source is ["),
    ],
)
def test_shards_of_other_options_are_refused(more: tuple[str, ...], words: str) -> None:
    message = refused(make(CASE, "1/2", "a"), make(CASE, "2/2", "b", *more))
    assert message.startswith("error: b/card.json: shard 2/2: ") and words in message
    assert "Make both with the same options" in message


def test_where_the_files_lie_and_where_the_shard_goes_does_not_matter() -> None:
    make(CASE, "1/2", "parts/a")
    elsewhere = Path("elsewhere")
    elsewhere.mkdir()
    write_inputs(elsewhere)
    module, cases = BUILDERS["build_triples"]
    paths = {name: elsewhere / path for name, path in _inputs().items()}
    module.main([*cases(paths)["plain"], "--shard", "2/2", "--json", "--out", "parts/b"])
    assert merge("parts/a", "parts/b") == CASES[CASE]


def test_shards_of_other_inputs_are_refused() -> None:
    make(CASE, "1/2", "a")
    with open("pairs.jsonl", "a", encoding="utf-8") as file:
        file.write('{"triplet": "(<S> a| <P> b| <O> c)", "text": "a b c"}\n')
    make(CASE, "2/2", "b")
    message = refused("a", "b")
    assert "b/card.json: shard 2/2: --source pairs.jsonl has sha256 " in message
    assert "Make both from the same file" in message


def test_a_data_set_that_changed_between_shards_is_noticed() -> None:
    """A hub's data set has no sha256 here; its records tell."""
    Path("set").mkdir()
    rows = [{"triplet": f"(<S> a| <P> b| <O> {n})", "text": f"a b {n}"} for n in range(9)]
    for number, changed in ((1, rows), (2, [*rows[:-1], {**rows[-1], "text": "a b 8!"}])):
        write_lines(Path("set/train.jsonl"), changed)
        source = ("--source", "wikiofgraph=hub:set:train", "--tokenizer", "words")
        module, _ = BUILDERS["build_triples"]
        module.main([*source, "--shard", f"{number}/2", "--out", f"part{number}"])
    assert "shard 2/2: read other records than part1" in refused("part1", "part2")


def test_shards_of_two_builders_are_refused() -> None:
    message = refused(make(CASE, "1/2", "a"), make("build_subq world", "2/2", "b"))
    assert "made by build_subq.py, a/card.json: shard 1/2 by build_triples.py" in message


def damaged(name: str, change: Callable[[bytes], bytes]) -> str:
    """What a merge says when a file of the second shard is not what was written."""
    folders = [make(CASE, f"{number}/2", f"part{number}") for number in (1, 2)]
    path = folders[1] / name
    path.write_bytes(change(path.read_bytes()))
    return refused(*folders)


def test_a_cut_file_is_named() -> None:
    message = damaged(ITEMS, lambda data: data[: len(data) // 2])
    assert message.startswith("error: part2/items.jsonl: not what was written")
    assert "make shard 2/2 again" in message


def test_an_altered_file_is_named() -> None:
    assert "part2/items.jsonl" in damaged(ITEMS, lambda data: data.replace(b"Ann", b"Eva", 1))


def test_a_missing_file_and_a_broken_card_are_named() -> None:
    folders = [make(CASE, f"{number}/2", f"part{number}") for number in (1, 2)]
    (folders[1] / ITEMS).unlink()
    assert "part2/card.json: shard 2/2: items.jsonl is missing" in refused(*folders)
    (folders[0] / "card.json").write_text("{", encoding="utf-8")
    assert "part1/card.json: not JSON" in refused(*folders)
    (folders[0] / "card.json").unlink()
    assert "part1: holds no card.json" in refused(*folders)
    assert "part9: holds no card.json" in refused(folders[0].with_name("part9"))


def card_of(folder: Path) -> dict[str, Any]:
    card: dict[str, Any] = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    return card


def test_a_shard_of_another_version_and_a_whole_build_are_refused() -> None:
    folder = make(CASE, "1/1", "a")
    card = card_of(folder)
    (folder / "card.json").write_text(json.dumps({**card, "format": 99}), encoding="utf-8")
    assert "a shard in format 99" in refused(folder)
    module, cases = BUILDERS["build_subq"]
    paths = {name: Path(path) for name, path in _inputs().items()}
    module.main([*cases(paths)["world"], "--out", "whole"])
    assert "whole/card.json: not a shard's card" in refused("whole")


def test_an_item_of_another_shard_is_named_even_where_its_card_agrees() -> None:
    """The hash of the file says that it is what was written; the deal says that it is not right."""
    folders = [make(CASE, f"{number}/2", f"part{number}") for number in (1, 2)]
    cards = [card_of(folder) for folder in folders]
    shutil.copyfile(folders[0] / ITEMS, folders[1] / ITEMS)
    cards[1]["files"] = cards[0]["files"]
    (folders[1] / "card.json").write_text(json.dumps(cards[1]), encoding="utf-8")
    message = refused(*folders)
    assert "part2/items.jsonl:1: " in message and "belongs to another shard than 2/2" in message


def test_the_shards_are_not_overwritten() -> None:
    folder = make(CASE, "1/1", "a")
    with pytest.raises(SystemExit, match="is one of the shards"):
        merge_shards.main([str(folder), "--out", "a"])
    assert (folder / ITEMS).is_file()


def test_the_command_line(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    arguments = ("--source", "musique=musique.jsonl", "--tokenizer", "words")
    for number in (1, 2):
        done = run(
            "build_conditions.py", *arguments, "--shard", f"{number}/2", "--json",
            "--out", f"part{number}", cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["shard"] == number
    done = run("merge_shards.py", "part1", "part2", "--json", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["splits"]["train"] > 10
    done = run("merge_shards.py", "part1", "--out", "again", cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: part1/card.json: shard 1/2: beside it these shards")
