"""Samples of a retriever: what a loop searches for, its passage, and passages that look like it."""

from collections.abc import Iterator, Sequence

from data_gen.facts.entities import mentions
from data_gen.facts.solving_steps import passage_origin, solving_steps
from data_gen.samples.material import Material, PassageSearch
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord, QuestionRecord
from models.formats.retrieval import RetrievalSample, TitledText

# Passages of a search that are looked at, for each negative that is wanted.
_LOOKED_AT = 8
_YES_NO = frozenset({"yes", "no"})


def retrieval_samples(
    record: QuestionRecord, material: Material, search: PassageSearch, negatives: int, source: str
) -> Iterator[RetrievalSample]:
    """Yield a sample for each passage that the question needs, and one for each of its hops.

    negatives: at most so many of the best passages of `search` that neither support the question
    nor hold the answer. A query for which there is none is left out and counted.
    """
    steps = solving_steps(record, material.by_title)
    supporting = {passage_origin(s.passage): s.passage for s in steps if s.passage is not None}
    if not supporting:
        material.counts["questions left out: no supporting passage"] += 1
        return
    asked = [(record.question, passage, record.answers) for passage in supporting.values()]
    for step in steps:
        answer = step.answer or step.fact.object
        if step.passage is not None and answer and _holds(step.passage, [answer]):
            asked.append((step.subquery, step.passage, [answer]))
    for number, (query, passage, answers) in enumerate(asked):
        found = _look_alikes(search, query, supporting, answers, negatives)
        if not found:
            material.counts["queries left out: no negative"] += 1
            continue
        others = [TitledText(other.title, other.text) for other in found]
        positive = TitledText(passage.title, passage.text)
        yield RetrievalSample(f"{record.id}/retrieve/{number}", query, positive, others, source)


def _look_alikes(
    search: PassageSearch,
    query: str,
    supporting: dict[str, PassageRecord],
    answers: Sequence[str],
    count: int,
) -> list[PassageRecord]:
    named = [answer for answer in answers if answer.strip().lower() not in _YES_NO]
    [found] = search.search([query], count * _LOOKED_AT)
    others = (p for p in found if passage_origin(p) not in supporting and not _holds(p, named))
    return [passage for passage, _ in zip(others, range(count), strict=False)]


def _holds(passage: PassageRecord, answers: Sequence[str]) -> bool:
    text = passage_text(passage.title, passage.text)
    return any(mentions(text, answer) for answer in answers)
