"""The papers' prompts in our words, so that a scripted model reads both."""

import json

from models.formats.clues import ANSWER_INSTRUCTION as CLUES_ANSWER_INSTRUCTION
from models.formats.clues import RESOLVE_INSTRUCTION, prompted_decomposition
from models.formats.paper_prompts import read_filled
from models.formats.prompts import (
    ANSWER_INSTRUCTION,
    PLAN_INSTRUCTION,
    evidence_answer_prompt,
    triples_prompt,
)
from models.formats.topic_triplets import TOPIC_TRIPLETS_INSTRUCTION, topic_triplets_prompt
from models.formats.topics import BOUNDS, Choice, ChoiceLevel, choice_instruction, choice_prompt

LEVELS: dict[str, ChoiceLevel] = {"th_rag_topics": "topics", "th_rag_subtopics": "subtopics"}


def in_our_words(prompt: str) -> str:
    """Return what our prompt asks for the same; another prompt as it is.

    The papers' examples are left out: a scripted model would take their facts for facts.
    """
    found = read_filled(prompt)
    if found is None:
        return prompt
    name, fields = found
    if name in LEVELS:
        return _choice(LEVELS[name], fields)
    if name == "ras_plan":
        history = fields["history"].replace("[PREV_SUBQ]", "[SUBQ]")
        history = history.replace("[PREV_GRAPH_INFO]", "Retrieved Graph Information:")
        return f"{PLAN_INSTRUCTION}\n{history}\n"
    if name == "ras_triples":
        return triples_prompt(fields["text"], few_shot=True)
    if name == "ras_answer":
        return f"{ANSWER_INSTRUCTION}\n{fields['history']}\n"
    if name == "th_rag_triplets":
        return f"{TOPIC_TRIPLETS_INSTRUCTION}\n\n{topic_triplets_prompt(fields['document'])}"
    if name == "t2rag_decompose":
        return prompted_decomposition(fields["question"])
    if name == "t2rag_resolve":
        return _resolution(fields)
    if name == "t2rag_answer":
        asked = f"Question: {fields['question']}\nKey Reasoning Clues:{fields['clues']}"
        return f"{CLUES_ANSWER_INSTRUCTION}\n\n{asked}\nAnswer:\n"
    return evidence_answer_prompt(fields["question"], fields["context"])


def _choice(level: ChoiceLevel, fields: dict[str, str]) -> str:
    names = tuple(json.loads(fields["names"]))
    choice = Choice(level, names, *BOUNDS[level], fields.get("topic", ""))
    return f"{choice_instruction(choice)}\n\n{choice_prompt(fields['question'], choice)}"


def _resolution(fields: dict[str, str]) -> str:
    """Return the parts of LLM_Resolve's prompt in our order, the clues last."""
    lines = [
        RESOLVE_INSTRUCTION,
        f"Context Passages:{fields['passages']}",
        f"Context Propositions:{fields['propositions']}",
        f"Original Query: {fields['question']}",
        f"Previous Resolved Clues:{fields['resolved']}",
        f"Searchable Clues:{fields['searchable']}",
        f"Fuzzy Clues:{fields['fuzzy']}",
        "Resolved and newly searchable clues:",
    ]
    return "\n".join(lines) + "\n"
