"""Small input files of every kind that the builders read, the same in every run."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TOWNS = ["Montreal", "Lyon", "Odense", "Pesmes", "Quebec", "Turin", "Ghent", "Bergen"]
TRADES = ["film director", "poet", "composer", "actor", "painter"]


def write_lines(path: Path, records: Iterable[Any]) -> Path:
    """JSON Lines; a string stands as it is, so that a file can hold a broken line."""
    lines = (r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def person(number: int) -> tuple[str, str]:
    """(name, lead) of a person."""
    name = f"Denys Roe {chr(65 + number % 26)}{number}"
    town, trade = TOWNS[number % 8], TRADES[number % 5]
    born = f"{number % 27 + 1} May {1901 + number % 90}"
    more = f" He was married to Åsa Lind {number}." if number % 7 == 0 else ""
    more = " His wife was rich." if number % 7 == 1 else more
    return name, f"{name} (born {born} in {town}) is a Canadian {trade}.{more}"


def film(number: int) -> tuple[str, str]:
    """(title, lead) of a film; two films share a director."""
    name, _ = person(number // 2)
    by = f" Its music was composed by {person(number + 3)[0]}." if number % 3 == 0 else ""
    return (
        f"Zone {number}",
        f"Zone {number} is a {1950 + number} French film directed by {name}.{by}",
    )


def wiki(number: int, context: bool = True, answer: str = "") -> dict[str, Any]:
    """A question of 2WikiMultihopQA's form, of one to three hops."""
    (title, lead), (name, life) = film(number), person(number // 2)
    town = TOWNS[number // 2 % 8]
    evidences = [[title, "director", name], [name, "place of birth", town]]
    if number % 4 == 0:
        evidences.append([town, "country", "Norway"])
    record: dict[str, Any] = {
        "id": f"w{number}",
        "question": f"Where was the director of Zone {number} born?",
        "answer": answer or town,
        "type": "compositional",
        "evidences": evidences[: 1 + number % 5] if number % 5 < 2 else evidences,
    }
    if context:
        other, about = film((number * 7 + 1) % 60)
        record["context"] = [[title, [lead]], [name, [life]], [other, [about]]]
        record["supporting_facts"] = [[title, 0], [name, 0]]
    return record


def musique(number: int) -> dict[str, Any]:
    """A question of MuSiQue's form in our contract."""
    (title, lead), (name, life) = film(number + 20), person((number + 20) // 2)
    words = "Who directed the film?" if number % 2 else f"{title} >> director"
    return {
        "id": f"m{number}",
        "question": f"In which town was the maker of {title} born?",
        "answer": TOWNS[(number + 20) // 2 % 8],
        "context": [[title, [lead]], ["Lake", ["A lake is water."]], [name, [life]]],
        "supporting_facts": [[title, 0], [name, 0]],
        "question_decomposition": [
            {"question": words, "answer": name, "paragraph_support_idx": 0},
            {
                "question": "#1 >> place of birth",
                "answer": TOWNS[(number + 20) // 2 % 8],
                "paragraph_support_idx": 2,
            },
        ],
    }


def hotpot(number: int) -> dict[str, Any]:
    """A question of HotpotQA's form in our contract."""
    title, (name, life) = f"Odense {number}", person(number + 5)
    said = [f"{title} is a city in Denmark.", f" It was founded early by {name}.", " It rained."]
    return {
        "id": f"h{number}",
        "question": f"Who founded {title}, and when?",
        "answer": name,
        "context": [[title, said], [name, [life]], ["Lake", ["A lake is water."]]],
        "supporting_facts": [[title, 0], [title, 1], [name, 0]],
    }


def text(number: int, dataset: str) -> dict[str, Any]:
    """A text with its triples in our contract; some repeat, some are long, some have too many."""
    kind, value = f"kind {number % 4}", f"Bonn {number % 9}"
    triples = [[f"Ann {number}", kind, value], [f"Ann {number}", "size", "tall"]]
    if number % 11 == 0:
        triples = [[f"Ann {number}", f"p{i}", value] for i in range(14)]
    sentence = f"Ann {number} is in {value}. " + "It was a long day for all of them. " * (
        number % 3
    )
    return {"text": sentence.strip(), "triples": triples, "dataset": dataset}


def pair(number: int) -> dict[str, Any]:
    """A row of WikiOFGraph."""
    triplet = f"(<S> Ann {number}| <P> lives in| <O> Bonn), (<S> Bonn| <P> part of| <O> Rhineland)"
    return {"triplet": triplet, "text": f"Ann {number % 30} lives in Bonn, Rhineland."}


def write_inputs(folder: Path) -> dict[str, Path]:
    """Write every input file and return their paths by name."""
    twins = [{**wiki(3, answer="Nowhere"), "id": "twin"}, {**wiki(5), "id": "again"}]
    broken = {**wiki(2), "id": "broken", "supporting_facts": [["Zone 2", 7]]}
    people = [{"id": f"p{n}", "title": person(n)[0], "text": person(n)[1]} for n in range(5, 60)]
    films = [{"id": f"f{n}", "title": film(n)[0], "text": film(n)[1]} for n in range(0, 60, 3)]
    choices = {"id": "arc1", "question": "Why?", "choices": {"1": "so", "2": "no"}, "answer": "2"}
    simple = [{"id": f"s{n}", "question": f"What is {n}?", "answer": str(n)} for n in range(9)]
    texts = [text(n, "x") for n in range(40)]
    files: dict[str, Iterable[Any]] = {
        "wiki": [*map(wiki, range(40)), *twins, wiki(9)],
        "more": [wiki(8), *map(wiki, range(40, 52)), "{not JSON", broken],
        "evidences": [wiki(n, context=False) for n in range(48, 60)],
        "musique": map(musique, range(14)),
        "hotpot": map(hotpot, range(14)),
        "hotpot_more": map(hotpot, range(10, 20)),
        "corpus": [*films, *people, *films[:3]],
        "triples": [
            {"title": film(n)[0], "text": film(n)[1], "triples": [[film(n)[0], "director", "X"]]}
            for n in range(0, 30, 4)
        ],
        "arc": [choices],
        "simple": simple,
        "exclude": [{**wiki(7), "id": "elsewhere"}, wiki(11), hotpot(3)],
        "texts": [*texts, text(4, "x"), *(text(n, "y") for n in range(5))],
        "pairs": map(pair, range(36)),
    }
    paths = {name: write_lines(folder / f"{name}.jsonl", rows) for name, rows in files.items()}
    tekgen = (
        {"triples": [[f"D{n}", "place", "E"]], "sentence": f"D{n} is in E."} for n in range(8)
    )
    paths["tekgen"] = write_lines(folder / "tekgen.tsv", tekgen)
    paths["world"] = write_world(folder / "world")
    return paths


def write_world(folder: Path) -> Path:
    """A folder as build_world.py writes it."""
    folder.mkdir()
    numbers = range(0, 24, 2)
    passages = [*map(film, numbers), *(person(n // 2) for n in numbers)]
    questions = [{**wiki(n, context=False), "id": f"v{n}"} for n in numbers]
    for record, number in zip(questions, numbers, strict=True):
        record["supporting_facts"] = [[film(number)[0], 0], [person(number // 2)[0], 0]]
    write_lines(folder / "questions_train.jsonl", questions[:10])
    write_lines(folder / "questions_test.jsonl", questions[10:])
    corpus = [{"id": f"k{i}", "title": t, "text": p} for i, (t, p) in enumerate(passages)]
    write_lines(folder / "corpus.jsonl", corpus)
    facts = [
        {"id": row["id"], "text": f"{row['title']}: {row['text']}",
         "triples": [[row["title"], "told in", row["id"]]]}
        for row in corpus[:20]
    ]  # fmt: skip
    write_lines(folder / "triples.jsonl", facts)
    return folder


def subq_cases(paths: dict[str, Path]) -> dict[str, list[str]]:
    """Arguments of build_subq.py, by name; without --out."""
    p = {name: str(path) for name, path in paths.items()}
    sources = [
        "--source", f"2wikimultihopqa={p['wiki']}", "--source", f"musique={p['musique']}",
        "--source", f"hotpotqa={p['hotpot']}", "--source", f"2wikimultihopqa={p['more']}",
        "--source", f"2wikimultihopqa={p['evidences']}",
    ]  # fmt: skip
    bare = ["--no-retrieval", p["arc"], "--no-retrieval", p["simple"], "--exclude", p["exclude"]]
    common = ["--skip-bad", "--skip-contradictions", "--tokenizer", "words"]
    corpus = ["--corpus", f"2wikimultihopqa={p['corpus']}", "--triples", p["triples"]]
    return {
        "contexts": [*sources, *bare, *common],
        "corpus": [*sources, *bare, *corpus, "--limit", "25", "--max-triples", "4", *common],
        "sampled": [
            *sources, *bare, "--plan-samples-per-question", "1.1", "--first-plan-fraction", "0.5",
            "--balance-plans", "--answer-fraction", "0.7", "--seed", "3",
            "--fractions", "0.6,0.3,0.1", "--cap", f"{p['wiki']}=30", "--gold-rate", "0.5", *common,
        ],
        "world": ["--source", f"world={p['world']}", "--top-k", "2", "--tokenizer", "words"],
    }  # fmt: skip


def triples_cases(paths: dict[str, Path]) -> dict[str, list[str]]:
    """Arguments of build_triples.py, by name; without --out."""
    p = {name: str(path) for name, path in paths.items()}
    texts = [
        "--source", f"contract={p['texts']}", "--source", f"wikiofgraph={p['pairs']}",
        "--source", f"tekgen={p['tekgen']}",
    ]  # fmt: skip
    passages = [
        "--source", f"2wikimultihopqa={p['wiki']}", "--evidences", p["evidences"],
        "--corpus", p["corpus"], "--exclude", p["exclude"],
    ]  # fmt: skip
    common = ["--skip-bad", "--tokenizer", "words"]
    return {
        "plain": [*texts, *passages, "--datasets", "x", "--grounded", *common],
        "chosen": [
            *passages, *texts, "--source", f"2wikimultihopqa={p['more']}", "--drop-gaps",
            "--balance", "6", "--max-words", "12", "--cap", "contract=20",
            "--cap", "2wikimultihopqa=40", "--weak-only-limit", "9", "--limit", "35",
            "--seed", "2", "--fractions", "0.5,0.3,0.2", *common,
        ],
        "world": [
            "--source", f"musique={p['musique']}", "--source", f"world={p['world']}", *common,
        ],
    }  # fmt: skip


def conditions_cases(paths: dict[str, Path]) -> dict[str, list[str]]:
    """Arguments of build_conditions.py, by name; without --out."""
    p = {name: str(path) for name, path in paths.items()}
    sentences = ["--source", f"hotpotqa={p['hotpot']}", "--source", f"hotpotqa={p['hotpot_more']}"]
    plain = triples_cases(paths)["plain"]
    few = ["--max-triplets", "1", "--balance", "9", "--limit", "12", "--seed", "5"]
    tables = [*plain, *sentences, "--tables", "0.5"]
    return {"plain": [*sentences, *plain], "few": [*plain, *sentences, *few], "tables": tables}
