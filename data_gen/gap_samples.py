"""The gap judge's samples: a question, the facts found so far, and those that are missing."""

import random
from collections.abc import Iterator, Sequence

from data_gen.entity_text import entity_key, same_fact
from data_gen.helper_material import Material, sample_id
from data_gen.query_steps import QueryStep, placeholder
from data_gen.solving_steps import solving_steps
from models.formats.gap_judge import format_gap, gap_prompt
from models.formats.query_triplets import ANONYMOUS, QueryTriplet, bind, is_placeholder
from models.formats.records import InstructionSample, QuestionRecord
from models.formats.triples import Triple


def judge_gap_samples(record: QuestionRecord, material: Material) -> Iterator[InstructionSample]:
    """One a state (Trig-Nav §3.2): the first steps' facts, and what is missing then.

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
    """The open triplets after `found` steps, with what these found in its place.

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
    """Facts of the first steps among others of their passages, in a drawn order."""
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
    """Facts of a step's passage that say nothing of what any step looks for."""
    if step.passage is None:
        return []
    answers = {entity_key(other.answer) for other in steps}
    return [
        triple
        for triple in material.triples.of(step.passage)
        if entity_key(triple.object) not in answers
        and not any(same_fact(Triple(*other.found.fields), triple) for other in steps)
    ]
