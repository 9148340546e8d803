"""What IRCoT reads and writes: one thought at a time (Trivedi et al. 2023; T²RAG App. B.1)."""

import re
from collections.abc import Iterable, Sequence

from models.formats.planning import one_line

INSTRUCTION = """\
You serve as an intelligent assistant, adept at facilitating users through complex, multi-hop \
reasoning across multiple documents. This task is illustrated through demonstrations, each \
consisting of a document set paired with a relevant question and its multi-hop reasoning thoughts. \
Your task is to generate one thought for current step, DON'T generate the whole thoughts at once! \
If you reach what you believe to be the final step, start with "So the answer is:".

Document: The Long Pier: The Long Pier is a 1954 drama film directed by Ada Brandt.
Document: Ada Brandt: Ada Brandt (1921 - 1990) was a film director from Odense in Denmark.
Question: In which town was the director of The Long Pier born?
Thought: The Long Pier was directed by Ada Brandt.
Thought: Ada Brandt was from Odense in Denmark.
Next thought: So the answer is: Odense."""
"""The paper's prompt with a demonstration of ours."""

_LABEL = re.compile(r"(?:next\s+)?thought(?:\s*\d+)?\s*:\s*", re.IGNORECASE)
_FINAL = re.compile(r"\banswer\s+is\s*:?\s*(?P<answer>\S.*)", re.IGNORECASE)


def thought_prompt(question: str, passages: Iterable[str], thoughts: Sequence[str]) -> str:
    """The prompt for the next thought, which follows on the last line.

    passages: as `passage_text` gives them, the first ones first.
    """
    lines = [
        f"{INSTRUCTION}\n",
        *(f"Document: {one_line(passage)}" for passage in passages),
        f"Question: {one_line(question)}",
        *(f"Thought: {one_line(thought)}" for thought in thoughts),
        "Next thought:",
    ]
    return "\n".join(lines) + "\n"


def parse_thought(text: str) -> str | None:
    """The first line with text, without a label; None where there is none, never raises."""
    lines = (_LABEL.sub("", line.strip(), count=1).strip() for line in text.splitlines())
    return next(filter(None, lines), None)


def final_answer(thought: str) -> str | None:
    """What a thought says that the answer is; None for a thought on the way."""
    match = _FINAL.search(thought)
    return match["answer"].strip().rstrip(".") if match else None
