"""Samples of a reader: of read passages, of the hops of questions, and of annotated triples."""

import hashlib
import random
import re
from collections.abc import Iterator, Sequence

from data_gen.facts.entities import mentions, written_as
from data_gen.facts.solving_steps import SolvingStep, passage_origin, solving_steps
from data_gen.samples.material import Material, PassageSearch, sample_id
from models.facts.subqueries import relation_question
from models.formats.passages import context_passages
from models.formats.planning import one_line
from models.formats.prompts import passage_text
from models.formats.reading import SEPARATOR, Reading, ReadingRecord, format_reading, reading_prompt
from models.formats.records import InstructionSample, PassageRecord, QuestionRecord, TriplesSample
from models.formats.triples import Triple

MOST_ANSWER_CHARACTERS = 120
# Relations that tell the kind of a thing or hold for a time alone: nobody asks for them so.
_NOT_ASKED = frozenset({"instance of", "subclass of", "start time", "end time", "point in time"})
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def page_of(record: ReadingRecord) -> str:
    """Return a name of the page that the passage is from: questions on one page share a split."""
    return hashlib.sha256((record.title or record.passage).encode()).hexdigest()[:16]


def passage_samples(
    record: ReadingRecord, altered: str | None = None
) -> Iterator[InstructionSample]:
    """Yield the record's sample; none where its answer is no span of its passage.

    altered: a question that the passage does not answer, which makes a sample of nothing.
    """
    if record.answer_form or len(record.answer) > MOST_ANSWER_CHARACTERS:
        return
    text = passage_text(record.title, record.passage)
    answers = tuple(filter(None, (part.strip() for part in record.answer.split(SEPARATOR))))
    if all(mentions(text, answer) for answer in answers):
        source_id = f"{page_of(record)}/{record.id.replace('/', '_')}"
        yield _sample(source_id, 0, record.question, text, answers)
        if altered:
            yield _sample(source_id, 1, altered, text)


def _sample(
    source_id: str,
    number: int,
    question: str,
    text: str,
    answers: Sequence[str] = (),
    facts: Sequence[Triple] = (),
) -> InstructionSample:
    label = format_reading(Reading(tuple(answers), tuple(facts)))
    return InstructionSample(
        sample_id(source_id, "read", number), "read", reading_prompt(question, text), label
    )


def hop_samples(record: QuestionRecord, material: Material) -> Iterator[InstructionSample]:
    """Yield what a loop asks of a question's passages.

    For each step the answer in its own passage, and nothing in the best one of the others that
    does not hold it. For a question of several steps the facts that its passages tell of them, and
    nothing in the best of the others.
    """
    steps = [step for step in solving_steps(record, material.by_title) if _answer(step)]
    pool = context_passages(record) or [step.passage for step in steps if step.passage]
    if not steps or not pool:
        material.counts["questions left out: no annotated facts, or no passages"] += 1
        return
    search, numbers = PassageSearch(pool), iter(range(1 << 30))
    for step in steps:
        if not _tells(step.passage, _answer(step)):
            material.counts["steps left out: no passage that holds the answer"] += 1
            continue
        assert step.passage is not None
        text = passage_text(step.passage.title, step.passage.text)
        yield _sample(record.id, next(numbers), step.subquery, text, [_answer(step)])
        silent = _silent(search, step.subquery, [_answer(step)], material, f"{record.id}/{text}")
        found = material.finder.silent(step.subquery, [_answer(step)], material.options.negatives)
        for other in dict.fromkeys(passage_text(p.title, p.text) for p in (*silent, *found)):
            yield _sample(record.id, next(numbers), step.subquery, other)
    if len(steps) > 1:
        yield from _first_round(record, steps, search, numbers, material)


def answer_samples(record: QuestionRecord, material: Material) -> Iterator[InstructionSample]:
    """Yield what a question without annotated steps finds in its passages.

    Its answer in the one supporting passage that holds it, and nothing in the best of the others
    that do not. Answers that no passage states, such as yes, make no sample.
    """
    supporting = {title for title, _ in record.supporting_facts}
    passages = context_passages(record)
    own = [p for p in passages if p.title in supporting]
    telling = [p for p in own if _tells(p, record.answer)]
    if len(telling) != 1 or record.answer.casefold() in ("yes", "no"):
        material.counts["questions left out: no single passage states the answer"] += 1
        return
    numbers = iter(range(1 << 30))
    text = passage_text(telling[0].title, telling[0].text)
    yield _sample(record.id, next(numbers), record.question, text, [record.answer])
    others = [p for p in passages if p.title not in supporting and not _tells(p, record.answer)]
    if not others:
        return
    for other in PassageSearch(others).ranked(record.question)[: 1 + material.options.negatives]:
        text = passage_text(other.title, other.text)
        yield _sample(record.id, next(numbers), record.question, text)


def _first_round(
    record: QuestionRecord,
    steps: Sequence[SolvingStep],
    search: PassageSearch,
    numbers: Iterator[int],
    material: Material,
) -> Iterator[InstructionSample]:
    """Yield what the whole question, a loop's first query, finds in its passages."""
    told: dict[str, tuple[PassageRecord, list[Triple]]] = {}
    for step in steps:
        if step.passage is not None and _tells(step.passage, _answer(step)):
            origin = passage_origin(step.passage)
            told.setdefault(origin, (step.passage, []))[1].append(step.fact)
    for passage, facts in told.values():
        text = passage_text(passage.title, passage.text)
        yield _sample(record.id, next(numbers), record.question, text, facts=facts)
    answers = [_answer(step) for step in steps]
    for passage in _silent(search, record.question, answers, material, record.id):
        if passage_origin(passage) not in told:
            text = passage_text(passage.title, passage.text)
            yield _sample(record.id, next(numbers), record.question, text)


def _answer(step: SolvingStep) -> str:
    return step.answer or step.fact.object


def _tells(passage: PassageRecord | None, answer: str) -> bool:
    return passage is not None and mentions(passage_text(passage.title, passage.text), answer)


def _silent(
    search: PassageSearch, query: str, answers: Sequence[str], material: Material, key: str
) -> list[PassageRecord]:
    """Return the best passage that holds none of the answers; none in most draws of the key."""
    if not material.chance(f"{key}/nothing", material.options.nothing_rate):
        return []
    ranked = search.ranked(query)
    return [p for p in ranked if not any(_tells(p, answer) for answer in answers)][:1]


def triple_samples(
    sample: TriplesSample, relations: Sequence[str], nothing_rate: float, seed: int
) -> Iterator[InstructionSample]:
    """Yield a question on one of a text's triples, or on one of `relations` that it does not tell.

    All objects that a text gives to a subject and a relation are the answer.
    """
    draw = random.Random(f"{seed}/{sample.id}")
    asked: dict[tuple[str, str], list[str]] = {}
    for triple in sample.triples:
        relation = asked_for(triple.predicate)
        subject, answer = (written_as(sample.text, e) for e in (triple.subject, triple.object))
        if relation and subject and answer and subject != answer:
            asked.setdefault((subject, relation), []).append(answer)
    if not asked:
        return
    (subject, relation), answers = draw.choice(sorted(asked.items()))
    other = draw.choice(relations) if relations else ""
    known = {asked_for(triple.predicate) for triple in sample.triples}
    if other and other not in known and draw.random() < nothing_rate:
        relation, answers = other, []
    question = relation_question(relation, subject)
    yield _sample(sample.id, 0, question, one_line(sample.text), list(dict.fromkeys(answers)))


def asked_for(predicate: str) -> str:
    """Return a predicate in the words of a question; "" for one that nobody asks for."""
    words = one_line(_CAMEL.sub(" ", predicate).replace("_", " "))
    words = words if " of film or TV show" in words else words.lower()
    return "" if words in _NOT_ASKED else words
