"""Entities replaced by others of their type, everywhere alike."""

import json
from pathlib import Path

import pytest

from data_gen.facts.entities import entity_type
from data_gen.facts.entity_shuffle import EntityShuffle, name_of
from models.formats.records import PassageRecord, QuestionRecord, read_records
from models.formats.triples import Triple
from tests.data_gen.test_build_commands import run, write_lines
from tests.shared_data import shared_data_file

CORPUS = [
    PassageRecord("1", "Ed Bren", "Ed Bren (born 1 June 2001) is an actor. Bren was in Rush."),
    PassageRecord("2", "Ida Holt", "Ida Holt (born 3 May 1950) is an actress."),
    PassageRecord("3", "The Visit", "The Visit is a 2015 film with Ed Bren, by Ida Holt."),
    PassageRecord("4", "Dawn (film)", "Dawn is a 1990 film. Dawn won."),
    PassageRecord("5", "Dawn (song)", "Dawn is a 1991 song."),
    PassageRecord("6", "Torino", "Torino is a city in Italy."),
    PassageRecord("7", "Torino FC", "Torino FC is a club in Torino."),
]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Ed Bren (born 1 June 2001) is an Australian actor.", "person"),
        ("Dawn is a 2012 American thriller film directed by Ed Bren.", "work"),
        ("Los Angeles is a city magazine published monthly.", "work"),
        ("Xinhua () is a township of Fengqing County, short of the border.", "place"),
        ("Rush was a Canadian rock band formed in Toronto.", "group"),
        ("Ecballium is a genus of flowering plants with a single species.", "genus"),
        ("The 1990 season was the 41st season of rugby.", "season"),
        ("Nothing.", "other"),
        ("", "other"),
    ],
)
def test_types(text: str, kind: str) -> None:
    assert entity_type(text) == kind


def test_every_title_gets_another_of_its_type() -> None:
    shuffle = EntityShuffle(CORPUS)
    for passage in CORPUS:
        found = shuffle.by_title[passage.title]
        assert found.type == entity_type(passage.text)
        same_type = sum(f.type == found.type for f in shuffle.by_title.values())
        assert (found.title != passage.title) == (same_type > 1)
    replaced = [found.title for found in shuffle.by_title.values()]
    assert sorted(replaced) == sorted(shuffle.by_title)


def test_names_change_everywhere_alike_family_names_too() -> None:
    shuffle = EntityShuffle(CORPUS)
    visit = name_of(shuffle.title("The Visit"))
    assert shuffle.passage(CORPUS[2]).text == f"{visit} is a 2015 film with Ida Holt, by Ed Bren."
    assert shuffle.passage(CORPUS[0]).text == (
        "Ida Holt (born 1 June 2001) is an actor. Holt was in Rush."
    )
    song = name_of(shuffle.title("Dawn (song)"))
    assert shuffle.text("Dawn is a 1991 song.", "Dawn (song)") == f"{song} is a 1991 song."


@pytest.mark.parametrize(
    "text",
    ["Bren is unknown here.", "Edward Bren", "Torino Street", "At dawn, Dawn", "Ed Brens", "Rush"],
)
def test_what_may_not_be_the_entity_stays(text: str) -> None:
    assert EntityShuffle(CORPUS).text(text) == text


def test_the_longer_name_wins() -> None:
    shuffle = EntityShuffle([*CORPUS, PassageRecord("8", "Real FC", "Real FC is a club.")])
    assert shuffle.text("He left Torino FC.") == "He left Real FC."


def test_seeds_differ_and_repeat() -> None:
    corpus = [
        PassageRecord(str(n), f"Person {n}", f"Person {n} (born 1 May 1990) is an actor.")
        for n in range(30)
    ]
    titles = [[EntityShuffle(corpus, seed).title(p.title) for p in corpus] for seed in (0, 0, 1)]
    assert titles[0] == titles[1] != titles[2]


def test_a_question_agrees_with_its_context() -> None:
    record = QuestionRecord(
        "q", "Who was in The Visit by Ida Holt?", "Ed Bren", ["Bren"],
        context=[(p.title, [p.text]) for p in CORPUS[:3]],
        supporting_facts=[("The Visit", 0)],
    )  # fmt: skip
    made = EntityShuffle(CORPUS).question(record)
    assert made.answer == "Ida Holt" and made.question.endswith("by Ed Bren?")
    assert made.supporting_facts[0][0] in dict(made.context)
    assert any(made.answer in " ".join(sentences) for _, sentences in made.context)
    annotated = QuestionRecord("q", "?", "a", evidences=[Triple("a", "b", "c")])
    with pytest.raises(ValueError, match="only HotpotQA"):
        EntityShuffle(CORPUS).question(annotated)


def read_variant(folder: Path) -> tuple[list[QuestionRecord], list[PassageRecord]]:
    return (
        list(read_records(folder / "questions.jsonl", QuestionRecord)),
        list(read_records(folder / "corpus.jsonl", PassageRecord)),
    )


def test_command_writes_four_variants(tmp_path: Path) -> None:
    question = {
        "id": "q", "question": "Who was in The Visit?", "answer": "Ed Bren",
        "context": [[p.title, [p.text]] for p in CORPUS[:4]],
        "supporting_facts": [["The Visit", 0]],
    }  # fmt: skip
    questions = write_lines(tmp_path / "q.jsonl", [question])
    corpus = write_lines(tmp_path / "c.jsonl", [p.to_json() for p in CORPUS])
    done = run(
        "build_hotpot_variants.py", "--questions", questions, "--corpus", corpus, "--json",
        "--out", tmp_path / "out", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert (figures["passages, dist"], figures["passages, full"]) == (4, 7)
    sizes = {"dist": (4, 4), "full": (1, 7), "shuffle_dist": (4, 4), "shuffle_full": (1, 7)}
    for name, (paragraphs, passages) in sizes.items():
        [record], found = read_variant(tmp_path / "out" / name)
        assert (len(record.context), len(found)) == (paragraphs, passages)
        titles = {passage.title for passage in found}
        assert {title for title, _ in record.context} <= titles
        assert (record.answer == "Ed Bren") == (not name.startswith("shuffle"))


@pytest.mark.slow
def test_real_questions_keep_their_answers(tmp_path: Path) -> None:
    questions = shared_data_file("qa/hotpotqa_test.jsonl")
    done = run("build_hotpot_variants.py", "--questions", questions, "--out", tmp_path / "out",
               "--json", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["questions that name another entity"] > 0.4
    answered = []
    for name in ("dist", "shuffle_dist"):
        records, _ = read_variant(tmp_path / "out" / name)
        told = [" ".join(s for _, sentences in r.context for s in sentences) for r in records]
        answered.append(sum(r.answer in t for r, t in zip(records, told, strict=True)))
    assert answered[1] >= 0.95 * answered[0]
