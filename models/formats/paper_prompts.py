"""The prompts that the papers print, word for word (`papers/`), for `--prompts paper`.

Ours stand with the format that they ask for. The paper's own samples in place of `{{field}}`.
"""

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal

from models.formats.clues import ResolutionInput, format_clue
from models.formats.planning import History, HistoryStep, format_graph, format_history, one_line
from models.formats.query_triplets import QueryTriplet
from models.formats.records import Task
from models.formats.topics import Choice

Prompts = Literal["own", "paper"]
"""Whose words an untrained model is asked in."""

FOLDER = Path(__file__).with_name("papers")
_FIELD = re.compile(r"\{\{(\w+)\}\}")


@cache
def template(name: str) -> str:
    """Return a prompt of `papers/` with its fields open."""
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


def fill(name: str, **fields: str) -> str:
    """Return a prompt with its fields filled. Raises KeyError for a field that is not given."""
    return _FIELD.sub(lambda match: fields[match[1]], template(name))


def read_filled(prompt: str) -> tuple[str, dict[str, str]] | None:
    """Return which prompt of `papers/` this is and what its fields were filled with, or None."""
    for path in sorted(FOLDER.glob("*.txt")):
        if match := _filled(path.stem).fullmatch(prompt):
            return path.stem, match.groupdict()
    return None


@cache
def _filled(name: str) -> re.Pattern[str]:
    """Return a pattern that a filled prompt matches; a field stands for the same each time."""
    parts, seen = _FIELD.split(template(name)), set[str]()
    for place, text in enumerate(parts):
        is_field = place % 2
        if not is_field:
            parts[place] = re.escape(text)
        elif text in seen:
            parts[place] = f"(?P={text})"
        else:
            seen.add(text)
            parts[place] = f"(?P<{text}>.*)"
    return re.compile("".join(parts), re.DOTALL)


def ras_prompt(task: Task, history: History) -> str:
    """Return the few-shot prompt of a closed model (RAS App. F.1, Fig. 20 and 21)."""
    if task == "answer":
        steps = format_history(History(history.question, history.steps))
        return fill("ras_answer", history=steps)
    lines = [*map(_earlier, history.steps), f"Question: {one_line(history.question)}"]
    return fill("ras_plan", history="\n".join(lines))


def paper_triples(text: str) -> str:
    """Return the prompt for a passage's triples (RAS App. F.1, Fig. 19)."""
    return fill("ras_triples", text=one_line(text))


def _earlier(step: HistoryStep) -> str:
    """Return a step as the planner's figure shows it."""
    return f"[PREV_SUBQ] {one_line(step.subquery)}\n[PREV_GRAPH_INFO] {format_graph(step.triples)}"


def paper_decomposition(question: str) -> str:
    """Return LLM_Decompose's prompt (T²RAG App. F); `parse_query_triplets` reads the answer."""
    return fill("t2rag_decompose", question=one_line(question))


def paper_resolution(given: ResolutionInput) -> str:
    """Return LLM_Resolve's prompt (T²RAG App. F); `parse_clues` reads the answer."""
    return fill(
        "t2rag_resolve",
        question=one_line(given.question),
        searchable=_listed(map(format_clue, given.searchable)),
        fuzzy=_listed(map(format_clue, given.fuzzy)),
        passages=_listed(map(one_line, given.passages)),
        propositions=_listed(map(one_line, given.propositions)),
        resolved=_listed(map(format_clue, given.resolved)),
    )


def paper_answer(question: str, clues: Iterable[QueryTriplet]) -> str:
    """Return LLM_Answer's prompt (T²RAG App. F)."""
    clues_text = _listed(map(format_clue, clues))
    return fill("t2rag_answer", question=one_line(question), clues=clues_text)


def paper_choice(question: str, choice: Choice) -> str:
    """Return the prompt that chooses topics or subtopics (TH-RAG App. A.4 and A.5)."""
    return fill(
        f"th_rag_{choice.level}",
        question=one_line(question),
        least=str(choice.least),
        most=str(choice.most),
        topic=choice.topic,
        names=json.dumps(choice.names, ensure_ascii=False),
    )


def paper_evidence_answer(question: str, evidence: str, long_form: bool = False) -> str:
    """Return the prompt that answers from evidence (TH-RAG App. A.1 and A.2)."""
    name = "th_rag_long_answer" if long_form else "th_rag_answer"
    return fill(name, question=one_line(question), context=evidence)


def paper_topic_triplets(document: str) -> str:
    """Return the prompt for a document's triplets with topics (TH-RAG App. A.3 and E.1)."""
    return fill("th_rag_triplets", document=document)


def _listed(lines: Iterable[str]) -> str:
    """Return lines below their heading; nothing for none."""
    return "".join(f"\n{line}" for line in lines)
