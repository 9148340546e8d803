"""Small clean sets of supervision, written as a builder writes them, and their audit."""

import json
from pathlib import Path
from typing import Any

from data_gen.audits.findings import Finding, Severity
from data_gen.audits.inputs import split_files
from data_gen.audits.run import Audit, Settings
from data_gen.card import token_counter

Record = dict[str, Any]
Splits = dict[str, list[Any]]
CARD = {"sources": [{"name": "musique", "file": "m.jsonl", "licence": "CC BY 4.0"}]}


def sample(sample_id: str, task: str, question: str, history: list[Any], label: str) -> Record:
    """A planner or answerer sample; a history step is (subquery, triples)."""
    steps = [{"subquery": s, "triples": [list(triple) for triple in found]} for s, found in history]
    return {"id": sample_id, "task": task, "question": question, "history": steps, "label": label}


def two_hops(n: int) -> list[Record]:
    """A question over two facts; its states, the answer last."""
    question, person = f"Where was the director of Zone{n} born?", f"Roe{n}"
    first = (question, [[f"Zone{n}", "director", person]])
    second = (f"Where was {person} born?", [[person, "place of birth", f"Brill{n}"]])
    return [
        sample(f"two{n}/plan/0", "plan", question, [], f"[SUBQ] {question}"),
        sample(f"two{n}/plan/1", "plan", question, [first], f"[SUBQ] Where was {person} born?"),
        sample(f"two{n}/plan/2", "plan", question, [first, second], "[SUFFICIENT]"),
        sample(f"two{n}/answer", "answer", question, [first, second], f"Brill{n}"),
    ]


def one_hop(n: int) -> list[Record]:
    """A question over one fact."""
    question = f"Who wrote the novel Tide{n}?"
    step = (question, [[f"Tide{n}", "author", f"Moss{n}"]])
    return [
        sample(f"one{n}/plan/0", "plan", question, [], f"[SUBQ] {question}"),
        sample(f"one{n}/plan/1", "plan", question, [step], "[SUFFICIENT]"),
        sample(f"one{n}/answer", "answer", question, [step], f"Moss{n}"),
    ]


def no_hop(n: int) -> list[Record]:
    """A question that needs no retrieval."""
    question = f"What is {n} plus {n}?"
    return [
        sample(f"none{n}/plan/0", "plan", question, [], "[NO_RETRIEVAL]"),
        sample(f"none{n}/answer", "answer", question, [], f"{2 * n} in all"),
    ]


def clean_ras(questions: int = 12) -> Splits:
    """As many questions of each kind, the last of each in dev."""
    splits: Splits = {"train": [], "dev": []}
    for n in range(questions):
        split = "dev" if n == questions - 1 else "train"
        splits[split] += [*two_hops(n), *one_hop(n), *no_hop(n)]
    return splits


def film_text(n: int) -> str:
    """A passage of more than twelve words."""
    return (
        f"Zone{n}: Zone{n} is a film that Roe{n} directed in Brill{n} over many long and cold "
        "winters. It was shown once."
    )


def clean_triples(passages: int = 4) -> Splits:
    """One fact a passage, the last passage in dev."""
    splits: Splits = {"train": [], "dev": []}
    for n in range(passages):
        record = {
            "id": f"film{n}",
            "text": film_text(n),
            "triples": [[f"Zone{n}", "director", f"Roe{n}"]],
        }
        splits["dev" if n == passages - 1 else "train"].append(record)
    return splits


def clean_conditions(passages: int = 4) -> Splits:
    """Two triplets a passage, one of them without a proof."""
    splits: Splits = {"train": [], "dev": []}
    for n in range(passages):
        common = {"text": film_text(n), "condition": f"Zone{n}; director"}
        other = {"text": film_text(n), "condition": f"Zone{n}; place", "proof": ""}
        splits["dev" if n == passages - 1 else "train"] += [
            {"id": f"film{n}/0", **common, "proof": "-", "conclusion": f"Roe{n} directed Zone{n}."},
            {"id": f"film{n}/1", **other, "conclusion": f"Zone{n} was made in Brill{n}."},
        ]
    return splits


def write_set(folder: Path, splits: Splits, card: Record | None = CARD) -> Path:
    """Write a set; an item that is text is written as it is, as a line."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, records in splits.items():
        lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
        (folder / f"{split}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if card is not None:
        (folder / "card.json").write_text(json.dumps(card))
    return folder


def write_lines(path: Path, records: list[Record]) -> Path:
    """Write records as JSON Lines."""
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def by_id(splits: Splits, sample_id: str) -> Record:
    """The record of that id, to be changed in place."""
    records = [r for items in splits.values() for r in items if isinstance(r, dict)]
    return next(record for record in records if record["id"] == sample_id)


def findings(folder: Path, **options: Any) -> dict[str, Finding]:
    """All findings of a folder, by name, lengths in words."""
    count_tokens, _ = token_counter("words")
    outcome = Audit(split_files([str(folder)]), Settings(count_tokens, **options)).run()
    return {finding.name: finding for finding in outcome.findings}


def found(folder: Path, **options: Any) -> dict[str, int]:
    """What was found and how often; what is fine is left out."""
    every = findings(folder, **options)
    return {n: f.count for n, f in every.items() if f.severity is not Severity.OK}
