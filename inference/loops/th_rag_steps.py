"""What TH-RAG's model is shown and asked: a choice of topics, and the answer over sentences."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from inference.engines.contract import Constraint
from inference.indexes.hierarchy.index import EvidenceSentence
from inference.loops.model import ModelSteps
from inference.loops.trace import Trace
from inference.retrieval.passages import Passage
from models.formats.paper_prompts import Prompts, paper_choice, paper_evidence_answer
from models.formats.prompts import evidence_answer_prompt, passage_text
from models.formats.query_triplets import QueryTriplet, format_query_triplet
from models.formats.topics import (
    Choice,
    ChoiceLevel,
    choice_instruction,
    choice_prompt,
    choice_schema,
    format_choice,
)

CHOICE_STEPS: dict[ChoiceLevel, str] = {
    "topics": "choose topics",
    "subtopics": "choose subtopics",
}
"""What the steps are called that a trained chooser takes over."""
LONG_ANSWER_TOKENS = 100
"""A loop that may write more gives long answers (Table 9), else short ones (Table 10)."""


def fit_topic_evidence(
    evidence: Sequence[EvidenceSentence],
    passages: Sequence[Passage],
    budget: int,
    count_tokens: Callable[[str], int],
) -> tuple[str, int]:
    """Return the context within a budget of tokens, and how many pieces are left out.

    Facts stand as `subject | predicate | object`, each sentence behind its document's title. The
    best sentences come first, then the passages, best first; what would exceed the budget stops
    the list. The first sentence stays whatever the budget.
    """
    sentences = [_sentence_block(item) for item in evidence]
    around = [passage_text(passage.title, passage.text) for passage in passages]
    kept: list[str] = []
    used = 0
    for piece in (*sentences, *around):
        size = count_tokens(piece)
        if kept and used + size > budget:
            break
        kept.append(piece)
        used += size
    lines = ["Sentences and their facts:", *kept[: len(sentences)]]
    if len(kept) > len(sentences):
        lines += ["", "Passages:", *kept[len(sentences) :]]
    return "\n".join(lines), len(sentences) + len(around) - len(kept)


def _sentence_block(item: EvidenceSentence) -> str:
    facts = [QueryTriplet(t.subject, t.predicate, t.object) for t in item.triples]
    lines = [passage_text(item.chunk.title, item.sentence), *map(format_query_triplet, facts)]
    return "\n".join(lines)


async def write_choice(steps: ModelSteps, choice: Choice, prompts: Prompts, trace: Trace) -> str:
    """Return the model's text for a choice; a trained chooser may write fewer than the least."""
    step = CHOICE_STEPS[choice.level]
    trained = step in steps.helpers
    held_to = replace(choice, least=1) if trained else choice
    instruction, prompt = choice_instruction(choice), choice_prompt(trace.question, choice)
    if prompts == "paper" and not trained:
        instruction, prompt = "", paper_choice(trace.question, choice)
    # Room for the longest choice, however clumsily a model puts it into tokens.
    longest = sorted(choice.names, key=len)[-choice.most :]
    most_tokens = 2 * steps.engine.count_tokens(format_choice(choice.level, longest)) + 16
    constraint = Constraint(json_schema=choice_schema(held_to))
    return await steps.ask(step, instruction, prompt, trace, most_tokens, constraint)


def topic_answer_prompt(
    question: str, evidence: str, max_answer_tokens: int, prompts: Prompts
) -> str:
    """Return the prompt for an answer over a context, a long one where so many tokens are allowed.

    evidence: of `fit_topic_evidence`. max_answer_tokens: more than `LONG_ANSWER_TOKENS` asks for a
    long answer.
    """
    write_prompt = paper_evidence_answer if prompts == "paper" else evidence_answer_prompt
    return write_prompt(question, evidence, max_answer_tokens > LONG_ANSWER_TOKENS)
