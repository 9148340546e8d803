"""What a model reads that answers from evidence alone, and how it says that it cannot
(TH-RAG App. A.1 and A.2)."""

from models.formats.planning import one_line

INSUFFICIENT = "Insufficient information."
"""What an answer is where the evidence does not tell; not a guess."""

SHORT_ANSWER_INSTRUCTION = f"""\
Answer the question from the information below and from nothing else. The answer is one word or \
the shortest phrase, a name or a date (at most five words), or Yes or No, in the language of the \
question. If the information does not tell, reply "{INSUFFICIENT}\""""
"""Table 10."""

LONG_ANSWER_INSTRUCTION = f"""\
Answer the question in several paragraphs from the information below and from nothing else, in the \
language of the question. Do not make anything up. If the information does not tell, reply \
"{INSUFFICIENT}\""""
"""Table 9."""


def evidence_answer_prompt(question: str, evidence: str, long_form: bool = False) -> str:
    """Instruction, evidence, question; ends in a line break, the answer follows."""
    instruction = LONG_ANSWER_INSTRUCTION if long_form else SHORT_ANSWER_INSTRUCTION
    return f"{instruction}\n\n{evidence}\n\nQuestion: {one_line(question)}\nAnswer:\n"


def is_insufficient(answer: str) -> bool:
    """Whether an answer is blank or says that the evidence does not tell."""
    return one_line(answer).rstrip(".").casefold() in ("", INSUFFICIENT.rstrip(".").casefold())
