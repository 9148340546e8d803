"""Small files and components under the names that the documentation's commands use."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from inference.indexes.extraction import TripleCache
from inference.opening.components import Component
from inference.opening.extractors import extractor_name
from inference.retrieval.passages import Passage
from models.formats.passages import passage_key
from models.formats.records import HelperTask
from models.formats.triples import Triple
from tests.components import (
    chat_backbone,
    helper_component,
    ras_component,
    t2t_component,
    tri_rag_component,
)
from tests.data_gen.build_inputs import film, hotpot, musique, pair, person, wiki, write_lines
from tests.docs.documents import ROOT

HELPERS: tuple[HelperTask, ...] = ("choose_topics", "decompose", "judge_gap", "resolve", "subquery")
# Even numbers: two films share a director, so each director is there once.
NUMBERS = range(0, 24, 2)
HELD_OUT = range(51, 57, 2)


def make_stand_ins(folder: Path, cache: Path) -> Path:
    """Fill a folder in which documented commands can run, and the cache of extracted triples.

    `cache` is what TRIVIUM_CACHE names.
    """
    _write_data(folder)
    (folder / "FOLDER").mkdir()
    (folder / "FOLDER" / "film.md").write_text("# Film 2\n\nFilm 2 is a film.\n", encoding="utf-8")
    _write_components(folder)
    _fill_cache(folder, cache)
    (folder / "configs").symlink_to(ROOT / "configs")
    return folder


def _write_data(folder: Path) -> None:
    questions = [wiki(number) for number in NUMBERS]
    held_out = [wiki(number) for number in HELD_OUT]
    files: dict[str, Iterable[Any]] = {
        "corpus.jsonl": _passages(),
        "questions.jsonl": questions[:2],
        "train.jsonl": questions,
        "test.jsonl": held_out,
        "hotpotqa_test.jsonl": map(hotpot, range(3)),
        "wikiofgraph/WikiOFGraph_train.jsonl": map(pair, range(30)),
        "hsq/subqueries/questions.jsonl": map(_with_subqueries, range(6)),
        "hsq/passages.jsonl": _passages()[:2],
        "DATA/corpus/2wikimultihopqa.jsonl": _passages(),
        "DATA/corpus/musique.jsonl": _passages(),
        # Those that ask for no country, which no passage tells.
        "DATA/qa/2wikimultihopqa_train.jsonl": [wiki(number) for number in NUMBERS if number % 4],
        "DATA/qa/2wikimultihopqa_test.jsonl": held_out[:2],
        "DATA/qa/musique_train.jsonl": map(musique, range(14)),
        "DATA/qa/musique_test.jsonl": map(musique, range(20, 22)),
    }
    for name, records in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_lines(path, records)
    (folder / "train.json").write_text(json.dumps(questions), encoding="utf-8")
    hotpots = [{"_id": row.pop("id"), **row} for row in map(hotpot, range(4, 8))]
    (folder / "hotpot_train_v1.1.json").write_text(json.dumps(hotpots), encoding="utf-8")


def _passages() -> list[dict[str, str]]:
    told = [*map(film, NUMBERS), *(person(number // 2) for number in NUMBERS)]
    return [{"id": f"p{i}", "title": title, "text": text} for i, (title, text) in enumerate(told)]


def _with_subqueries(number: int) -> dict[str, Any]:
    """A question of HotpotQA with what the stage `subqueries` writes, one step a document."""
    row = hotpot(number)
    row["question_decomposition"] = [
        {"question": f"Who founded Odense {number}?", "answer": "", "paragraph_support_idx": 0},
        {"question": f"When was {row['answer']} born?", "answer": "", "paragraph_support_idx": 1},
    ]
    return row


def _write_components(folder: Path) -> None:
    backbone, shipped = chat_backbone(folder / "MODEL"), folder / "checkpoints"
    ras_component(shipped / "ras_smollm2", backbone)
    t2t_component(shipped / "t2t_smollm2", backbone)
    tri_rag_component(shipped / "tri_rag_smollm2", backbone)
    helper_component(shipped / "helper_smollm2", backbone, HELPERS)


def _fill_cache(folder: Path, cache: Path) -> None:
    """What text-to-triples would write: the tiny one writes nothing that parses."""
    cache.mkdir(parents=True, exist_ok=True)
    component = Component.open(folder / "checkpoints" / "t2t_smollm2")
    triples = TripleCache(cache / "triples.sqlite", extractor_name(component))
    facts: dict[str, Triple] = {}
    for number in NUMBERS:
        (title, _), (name, _), town = film(number), person(number // 2), wiki(number)["answer"]
        facts[title] = Triple(title, "director", name)
        facts[name] = Triple(name, "place of birth", town)
    passages = [Passage(row["id"], row["title"], row["text"]) for row in _passages()]
    known = {passage_key(passage): ([facts[passage.title]], 0) for passage in passages}
    triples.put(known)
    triples.close()
