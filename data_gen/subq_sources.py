"""The passages that questions are asked of, and what annotation says of each."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from data_gen.solving_steps import SolvingStep, evidence_titles, solving_steps
from data_gen.streaming.disk_groups import DiskGroups, PassageTable
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord, QuestionRecord, TriplesSample, read_records
from models.formats.triples import Triple


class TakesAnnotation(Protocol):
    """What annotation is given to: the triples of passages, or what only notes which they are."""

    def annotate(self, steps: Iterable[SolvingStep]) -> None:
        """Take in the facts of steps as annotation of the passages that they stand in."""
        ...

    def add_given(self, passage: PassageRecord, triples: list[Triple]) -> None:
        """Take in the whole triples of a passage."""
        ...


def load_corpus(path: str | Path) -> list[PassageRecord]:
    """The passages of a corpus file. Raises ValueError when there are none."""
    passages = list(read_records(path, PassageRecord))
    if not passages:
        raise ValueError(f"{path}: the corpus is empty. Name a file with passages")
    return passages


def world_triples(
    folder: Path,
    corpus: list[PassageRecord],
    triples: TakesAnnotation,
    work: Path | None = None,
) -> None:
    """Give a world's triples.jsonl to `triples`, matched to its passages by their text.

    Not by their ids: these are the same in every world, and `corpus` may hold several worlds.
    """
    by_text = DiskGroups(work)
    for sample in read_records(folder / "triples.jsonl", TriplesSample):
        by_text.add(sample.text, json.dumps(sample.to_json()["triples"]), replace=True)
    for passage in corpus:
        found = by_text.payload(passage_text(passage.title, passage.text))
        if found is not None:
            triples.add_given(passage, [Triple(*parts) for parts in json.loads(found)])
    by_text.close()


def stand_in_passages(
    records: Iterable[QuestionRecord], known: Mapping[str, PassageRecord], work: Path | None
) -> Iterator[tuple[PassageRecord, list[Triple]]]:
    """Passages made of evidence triples alone, for subjects that the corpus has no text of.

    One a subject, with its triples; a subject has the title that the solving steps know it by, in
    the triples too. What is collected lies in `work`.
    """
    facts = DiskGroups(work)
    for record in records:
        titles = {} if record.context else evidence_titles(record)
        for evidence in record.evidences if not record.context else ():
            title = titles[evidence.subject] or evidence.subject
            if title not in known:
                facts.add(title, value=json.dumps([title, evidence.predicate, evidence.object]))
    for _, lines in facts.groups():
        own = [Triple(*json.loads(line)) for line in lines]
        text = ". ".join(f"{t.predicate}: {t.object}" for t in own)
        yield PassageRecord(f"evidence/{own[0].subject}", own[0].subject, text), own
    facts.close()


@dataclass(frozen=True)
class Passages:
    """The passages of some questions by title, and those among them made of evidence alone.

    corpus: None where each question has its own context; then `by_title` holds stand-ins alone.
    """

    by_title: Mapping[str, PassageRecord]
    corpus: list[PassageRecord] | None
    stand_ins: list[PassageRecord]


def take_annotation(
    records: Iterable[QuestionRecord],
    corpus: list[PassageRecord] | None,
    triples: TakesAnnotation,
    work: Path | None = None,
) -> Passages:
    """Give the annotation of all records, which are read twice, to `triples`.

    A corpus is held in memory; what grows with the records is kept in `work`.
    """
    known: dict[str, PassageRecord] = {}
    for passage in corpus or ():
        known.setdefault(passage.title, passage)
    table = PassageTable(work)
    by_title: Mapping[str, PassageRecord] = table if corpus is None else known
    stand_ins: list[PassageRecord] = []
    for passage, facts in stand_in_passages(records, known, work):
        triples.add_given(passage, facts)
        if corpus is None:
            table.add(passage)
        else:
            stand_ins.append(passage)
    known.update((passage.title, passage) for passage in stand_ins)
    for record in tqdm(records, desc="steps", unit="question"):
        triples.annotate(solving_steps(record, by_title))
    return Passages(by_title, corpus, stand_ins)
