"""The resolver's samples: a triplet with one placeholder, and passages or propositions."""

import random
from collections.abc import Iterator, Sequence

from data_gen.context_search import PassageSearch
from data_gen.entity_text import mentions, same_fact
from data_gen.helper_material import Material, sample_id
from data_gen.query_steps import QueryStep
from data_gen.solving_steps import context_passages, passage_origin
from models.formats.claims import claim
from models.formats.prompts import passage_text
from models.formats.query_triplets import TripletState
from models.formats.records import InstructionSample, PassageRecord, QuestionRecord
from models.formats.resolver import format_resolution, resolve_prompt
from models.formats.triples import Triple

MOST_PROPOSITIONS = 10


def resolve_samples(record: QuestionRecord, material: Material) -> Iterator[InstructionSample]:
    """One a searchable triplet (T²RAG §4.3, step 2.2), filled where the context tells."""
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
    """The passages of a prompt, best first: the step's own among them, or none that tells what it
    looks for."""
    options = material.options
    [found] = search.search([step.asked.proposition], len(search.passages))
    ranked = [*found, *(passage for passage in search.passages if passage not in found)]
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
    """Facts of the passages as sentences, in a drawn order; the step's own where one tells it."""
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
