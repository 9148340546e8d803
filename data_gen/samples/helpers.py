"""The samples of each helper: gap judge, resolver, sub-query writer, decomposer, topics."""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from tqdm import tqdm

from common.errors import RecordError
from data_gen.facts.entities import entity_key, mentions, same_fact
from data_gen.facts.query_steps import QueryStep, placeholder
from data_gen.facts.solving_steps import passage_origin, solving_steps
from data_gen.samples.material import Material, PassageSearch, sample_id
from data_gen.streaming.groups import DiskGroups
from data_gen.world.passages import Passage, write_passages
from data_gen.world.population import build_population
from data_gen.world.records import passage_record
from data_gen.world.schema import Kind, World
from models.formats.conditions import claim
from models.formats.helpers import (
    SubqueryInput,
    decompose_prompt,
    format_gap,
    format_resolution,
    gap_prompt,
    resolve_prompt,
    subquery_writer_prompt,
)
from models.formats.passages import context_passages
from models.formats.planning import one_line, strip_tags
from models.formats.prompts import passage_text
from models.formats.query_triplets import (
    ANONYMOUS,
    QueryTriplet,
    TripletState,
    bind,
    format_query_triplets,
    is_placeholder,
)
from models.formats.records import (
    HelperTask,
    InstructionSample,
    PassageRecord,
    QuestionRecord,
    read_records,
)
from models.formats.topics import OfferedChoice, Topic, format_topic, topic_prompt
from models.formats.triples import Triple

MOST_PROPOSITIONS = 10
_ASKS = re.compile(
    r"(?:(?:in|on|at|of|from|to|for|by|with|during) )?(?:who|whom|whose|what|when|where|which|how|"
    r"why|is|are|was|were|did|does|do|has|have|had|can) ",
    re.IGNORECASE,
)
# The fields and kinds of TH-RAG's own examples where they have the kind.
TOPICS = {
    Kind.PERSON: Topic("Biography", "Person"),
    Kind.FILM: Topic("Cinema", "Film"),
    Kind.NOVEL: Topic("Literature", "Novel"),
    Kind.SONG: Topic("Music", "Song"),
    Kind.LABEL: Topic("Music", "Record label"),
    Kind.COMPANY: Topic("Business", "Company"),
    Kind.UNIVERSITY: Topic("Education", "University"),
    Kind.CLUB: Topic("Sports", "Sports club"),
    Kind.CITY: Topic("Geography", "City"),
    Kind.REGION: Topic("Geography", "Region"),
    Kind.COUNTRY: Topic("Geography", "Country"),
}
CHOICES = "choices"
TASK: HelperTask = "choose_topics"


def judge_gap_samples(record: QuestionRecord, material: Material) -> Iterator[InstructionSample]:
    """Yield a sample for each state (Trig-Nav §3.2): the first steps' facts, and what is missing.

    A question that needs no fact has enough from the start.
    """
    if not solving_steps(record, material.by_title):
        prompt = gap_prompt(record.question, [])
        own_id = sample_id(record.id, "judge_gap", 0)
        yield InstructionSample(own_id, "judge_gap", prompt, format_gap([]))
        return
    steps = material.steps(record)
    for found in range(len(steps) + 1 if steps else 0):
        key = sample_id(record.id, "judge_gap", found)
        known = _known(steps, found, key, material)
        label = format_gap(missing(steps, found))
        yield InstructionSample(key, "judge_gap", gap_prompt(record.question, known), label)


def missing(steps: Sequence[QueryStep], found: int) -> list[QueryTriplet]:
    """Return the open triplets after `found` steps, with what these found in its place.

    Their placeholders are called from `?a` on: a judge does not see what earlier ones were called.
    """
    values = {
        name: value
        for step in steps[:found]
        for name, value in zip(step.open.fields, step.found.fields, strict=True)
        if is_placeholder(name) and name != ANONYMOUS
    }
    bound = bind([step.open for step in steps[found:]], values)
    names = [name for triplet in bound for name in triplet.placeholders if name != ANONYMOUS]
    return bind(bound, {name: placeholder(i) for i, name in enumerate(dict.fromkeys(names))})


def _known(steps: Sequence[QueryStep], found: int, key: str, material: Material) -> list[Triple]:
    """Return the facts of the first steps among others of their passages, in a drawn order."""
    draw = random.Random(f"{material.options.seed}/{key}")
    facts = [Triple(*step.found.fields) for step in steps[:found]]
    for step in steps[:found]:
        others = _others(step, steps, material)
        facts += draw.sample(
            others, min(len(others), draw.randint(0, material.options.distractors))
        )
    facts = list(dict.fromkeys(facts))
    draw.shuffle(facts)
    return facts


def _others(step: QueryStep, steps: Sequence[QueryStep], material: Material) -> list[Triple]:
    """Return the facts of a step's passage that say nothing of what any step looks for."""
    if step.passage is None:
        return []
    answers = {entity_key(other.answer) for other in steps}
    return [
        triple
        for triple in material.triples.of(step.passage)
        if entity_key(triple.object) not in answers
        and not any(same_fact(Triple(*other.found.fields), triple) for other in steps)
    ]


def resolve_samples(record: QuestionRecord, material: Material) -> Iterator[InstructionSample]:
    """Yield a sample for each searchable triplet (T²RAG §4.3, 2.2), filled if the context tells."""
    steps = material.steps(record)
    pool = context_passages(record) or [step.passage for step in steps if step.passage]
    search = PassageSearch(pool) if pool else None
    for number, step in enumerate(steps):
        searchable = step.asked.state is TripletState.SEARCHABLE
        if not searchable or step.passage is None or search is None:
            material.counts["steps left out: not searchable, or without a passage"] += 1
        elif not _tells(step.passage, step):
            material.counts["steps left out: the passage does not hold the answer"] += 1
        else:
            key = sample_id(record.id, "resolve", number)
            passages = _passages(step, step.passage, search, key, material)
            told = step.passage in passages
            shown = [passage_text(passage.title, passage.text) for passage in passages]
            # A step in words has no relation that a claim could be worded with.
            as_facts = material.chance(f"{key}/facts", material.options.propositions_rate)
            if record.evidences and as_facts:
                shown = _propositions(passages, step, key, material) or shown
            label = format_resolution(step.found if told else None)
            yield InstructionSample(key, "resolve", resolve_prompt(step.asked, shown), label)


def _tells(passage: PassageRecord, step: QueryStep) -> bool:
    return mentions(passage_text(passage.title, passage.text), step.answer)


def _passages(
    step: QueryStep, gold: PassageRecord, search: PassageSearch, key: str, material: Material
) -> list[PassageRecord]:
    """Return a prompt's passages, best first: with the step's own, or none that tells."""
    options = material.options
    ranked = search.ranked(step.asked.proposition)
    own = passage_origin(gold)
    silent = [p for p in ranked if passage_origin(p) != own and not _tells(p, step)]
    if silent and material.chance(f"{key}/nothing", options.nothing_rate):
        return silent[: options.passages]
    others = [p for p in ranked if passage_origin(p) != own][: options.passages - 1]
    places = {passage_origin(passage): place for place, passage in enumerate(ranked)}
    return sorted([gold, *others], key=lambda p: places.get(passage_origin(p), -1))


def _propositions(
    passages: Sequence[PassageRecord], step: QueryStep, key: str, material: Material
) -> list[str]:
    """Return the passages' facts as sentences in a drawn order, with the step's own if told."""
    wanted = Triple(*step.found.fields)
    told = [wanted] if step.passage in passages else []
    others = [
        triple
        for passage in passages
        for triple in material.triples.of(passage)
        if not same_fact(wanted, triple)
    ]
    draw = random.Random(f"{material.options.seed}/{key}")
    facts = [*told, *draw.sample(others, min(len(others), MOST_PROPOSITIONS - len(told)))]
    draw.shuffle(facts)
    return [claim(fact) for fact in facts]


def subquery_samples(record: QuestionRecord, material: Material) -> Iterator[InstructionSample]:
    """Yield, for each step whose passage is known, the sub-query that this passage answers."""
    if not record.evidences and not record.question_decomposition:
        material.counts["left out: no sub-questions annotated"] += 1
        return
    earlier: list[str] = []
    for number, step in enumerate(solving_steps(record, material.by_title)):
        subquery = strip_tags(one_line(step.subquery))
        passage = step.passage or material.finder.find(subquery, step.fact.object)
        if passage is None:
            material.counts["steps left out: no passage that answers it"] += 1
        elif not _ASKS.match(subquery):
            material.counts["steps left out: not worded as a question"] += 1
        else:
            given = SubqueryInput(record.question, passage.title, passage.text, tuple(earlier))
            prompt = subquery_writer_prompt(given)
            own_id = sample_id(record.id, "subquery", number)
            yield InstructionSample(own_id, "subquery", prompt, subquery)
        earlier.append(subquery)


def decompose_samples(record: QuestionRecord, material: Material) -> Iterator[InstructionSample]:
    """Yield one sample for each question: all its open triplets."""
    if steps := material.steps(record):
        label = format_query_triplets(step.open for step in steps)
        prompt = decompose_prompt(record.question)
        yield InstructionSample(sample_id(record.id, "decompose", 0), "decompose", prompt, label)


def topic_samples(folder: Path) -> Iterator[InstructionSample]:
    """Yield a sample for each entity and sentence that tells a fact of it, with its own kind.

    The kinds are those that the world was made with, from its card's size and seed. Raises
    ValueError where that makes another world than the folder's.
    """
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    seed = card["seed"]
    world = build_population(card["entities"], seed)
    passages = write_passages(world, seed)
    if list(read_records(folder / "corpus.jsonl", PassageRecord)) != [
        *map(passage_record, passages)
    ]:
        raise ValueError(
            f"{folder}: not the world that its card's size and seed make now. Build it again with "
            "build_world.py"
        )
    taken: dict[int, int] = {}
    for passage in passages:
        for entity, sentence in _named(world, passage):
            number = taken[entity] = taken.get(entity, -1) + 1
            named = world.entities[entity]
            yield InstructionSample(
                sample_id(f"world{seed}-e{entity:06d}", "topic", number),
                "topic",
                topic_prompt(named.name, sentence),
                format_topic(TOPICS[named.kind]),
            )


def _named(world: World, passage: Passage) -> Iterator[tuple[int, str]]:
    """Yield the entities of each sentence's facts, and the sentence after the passage's title."""
    pairs = dict.fromkeys(
        (entity, number)
        for fact, number in passage.told
        for entity in (fact.subject, fact.object)
        if entity is not None
    )
    for entity, number in pairs:
        yield entity, passage_text(passage.entity.name, passage.sentences[number])


def choosing_questions(
    path: str, on_error: Callable[[RecordError], None] | None = None
) -> Iterator[QuestionRecord]:
    """Yield the questions of a file of choices without answers, once for adjoining lines.

    Raises RecordError for a broken line, or hands it to `on_error`.
    """
    choices = tqdm(read_records(path, OfferedChoice, on_error), desc=path, unit=" choices")
    for _, own in groupby(choices, key=lambda choice: choice.question_id):
        first = next(own)
        yield QuestionRecord(first.question_id, first.question, "")


def choice_samples(path: str, kept: DiskGroups) -> Iterator[InstructionSample]:
    """Yield a sample for each choice of the questions in `kept`; broken lines are passed over."""
    for choice in read_records(path, OfferedChoice, lambda error: None):
        if choice.question_id in kept:
            own_id = sample_id(choice.question_id, TASK, choice.number)
            yield InstructionSample(own_id, TASK, choice.prompt, choice.label)
