"""Questions with their solving steps and retrieved passages, source by source."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from data_gen.context_search import PassageSearch
from data_gen.passage_triples import PassageTriples
from data_gen.solving_steps import (
    SolvingStep,
    context_passages,
    evidence_titles,
    solving_steps,
)
from data_gen.trajectories import Retrieved
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord, QuestionRecord, TriplesSample, read_records
from models.formats.triples import Triple

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PreparedQuestion:
    """A question, the steps to its answer and what retrieval gives for each query."""

    record: QuestionRecord
    steps: list[SolvingStep]
    retrieved: Retrieved


def load_corpus(path: str | Path) -> list[PassageRecord]:
    """The passages of a corpus file. Raises ValueError when there are none."""
    passages = list(read_records(path, PassageRecord))
    if not passages:
        raise ValueError(f"{path}: the corpus is empty. Name a file with passages")
    return passages


def world_triples(folder: Path, corpus: list[PassageRecord], triples: PassageTriples) -> None:
    """Give a world's triples.jsonl to `triples`, matched to its passages by their text.

    Not by their ids: these are the same in every world, and `corpus` may hold several worlds.
    """
    by_text = {
        sample.text: sample.triples
        for sample in read_records(folder / "triples.jsonl", TriplesSample)
    }
    for passage in corpus:
        found = by_text.get(passage_text(passage.title, passage.text))
        if found is not None:
            triples.add_given(passage, found)


def stand_in_passages(
    records: Iterable[QuestionRecord], known: Mapping[str, PassageRecord]
) -> tuple[list[PassageRecord], dict[str, list[Triple]]]:
    """Passages made of evidence triples alone, for subjects that the corpus has no text of.

    Returns the passages, one a subject, and their triples by passage id. A subject has the title
    that the solving steps know it by, in the triples too.
    """
    facts: dict[str, list[Triple]] = {}
    for record in records:
        if record.context:
            continue
        titles = evidence_titles(record)
        for evidence in record.evidences:
            title = titles[evidence.subject] or evidence.subject
            fact = replace(evidence, subject=title)
            own = facts.setdefault(title, [])
            if title not in known and fact not in own:
                own.append(fact)
    passages = [
        PassageRecord(
            f"evidence/{subject}", subject, ". ".join(f"{t.predicate}: {t.object}" for t in own)
        )
        for subject, own in facts.items()
        if own
    ]
    return passages, {p.id: facts[p.title] for p in passages}


def prepare_questions(
    records: list[QuestionRecord],
    corpus: list[PassageRecord] | None,
    triples: PassageTriples,
    top_k: int,
) -> list[PreparedQuestion]:
    """Steps and retrieval of each question, over the corpus or over each record's own context."""
    by_title: dict[str, PassageRecord] = {}
    for passage in corpus or []:
        by_title.setdefault(passage.title, passage)
    stand_ins, facts = stand_in_passages(records, by_title)
    for passage in stand_ins:
        triples.add_given(passage, facts[passage.id])
        by_title[passage.title] = passage
    steps = [solving_steps(record, by_title) for record in records]
    for chosen in steps:
        triples.annotate(chosen)
    if corpus is not None:
        return _over_corpus(records, steps, PassageSearch([*corpus, *stand_ins]), top_k)
    return list(_over_contexts(records, steps, stand_ins, top_k))


def _queries(record: QuestionRecord, steps: list[SolvingStep]) -> list[str]:
    return list(dict.fromkeys([record.question, *(step.subquery for step in steps)]))


def _over_corpus(
    records: list[QuestionRecord],
    steps: list[list[SolvingStep]],
    search: PassageSearch,
    top_k: int,
) -> list[PreparedQuestion]:
    queries = list(
        dict.fromkeys(q for r, s in zip(records, steps, strict=True) if s for q in _queries(r, s))
    )
    found: Retrieved = {}
    for start in tqdm(range(0, len(queries), 512), desc="retrieval", unit="batch"):
        batch = queries[start : start + 512]
        found.update(zip(batch, search.search(batch, top_k), strict=True))
    return [
        PreparedQuestion(r, s, {q: found[q] for q in _queries(r, s)} if s else {})
        for r, s in zip(records, steps, strict=True)
    ]


def _over_contexts(
    records: list[QuestionRecord],
    steps: list[list[SolvingStep]],
    stand_ins: list[PassageRecord],
    top_k: int,
) -> Iterator[PreparedQuestion]:
    by_title = {passage.title: passage for passage in stand_ins}
    for record, own_steps in tqdm(
        zip(records, steps, strict=True), desc="retrieval", unit="question", total=len(records)
    ):
        titles = (title or subject for subject, title in evidence_titles(record).items())
        passages = context_passages(record) or [by_title[t] for t in titles if t in by_title]
        if not own_steps or not passages:
            yield PreparedQuestion(record, own_steps, {q: [] for q in _queries(record, own_steps)})
            continue
        queries = _queries(record, own_steps)
        search = PassageSearch(list(dict.fromkeys(passages)))
        yield PreparedQuestion(
            record, own_steps, dict(zip(queries, search.search(queries, top_k), strict=True))
        )
