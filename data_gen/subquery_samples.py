"""Samples of the two helpers that read a question: the sub-query writer and the decomposer."""

import re
from collections.abc import Iterator

from data_gen.helper_material import Material, sample_id
from data_gen.solving_steps import solving_steps
from models.formats.decomposer import decompose_prompt
from models.formats.history import one_line
from models.formats.plan import strip_tags
from models.formats.query_triplets import format_query_triplets
from models.formats.records import InstructionSample, QuestionRecord
from models.formats.subquery_writer import SubqueryInput, subquery_writer_prompt

_ASKS = re.compile(
    r"(?:(?:in|on|at|of|from|to|for|by|with|during) )?(?:who|whom|whose|what|when|where|which|how|"
    r"why|is|are|was|were|did|does|do|has|have|had|can) ",
    re.IGNORECASE,
)


def subquery_samples(record: QuestionRecord, material: Material) -> Iterator[InstructionSample]:
    """One a step whose passage is known: the sub-query that this passage answers."""
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
    """One a question: all its open triplets."""
    if steps := material.steps(record):
        label = format_query_triplets(step.open for step in steps)
        prompt = decompose_prompt(record.question)
        yield InstructionSample(sample_id(record.id, "decompose", 0), "decompose", prompt, label)
