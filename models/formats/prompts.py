"""Instructions and whole prompts, the same in training and in serving."""

from models.formats.planning import History, format_history, one_line

PLAN_INSTRUCTION = """\
You are a planner to determine if the question can be answered with current information and \
output the appropriate label as well as the subquery if needed.
Output [NO_RETRIEVAL] if the question can be directly answered with the question itself without \
any retrieval.
Output [SUBQ] with an subquery for retrieval if still needs a subquery.
Output [SUFFICIENT] if the question can be answered with the provided information."""
"""INST_Plan, RAS Fig. 16."""

ANSWER_INSTRUCTION = """\
You are an answerer given a question and retrieved graph information.
Each [SUBQ] is a subquery we generated through reasoning for the question. The retrieved graph \
information follows each [SUBQ] is relevant graph information we retrieved to answer the subquery.
[NO_RETRIEVAL] means the question can be answered with the question itself without any retrieval.
The main question starts with "Question: ". Please answer the question, with subqueries and \
retrieved graph information if they are helpful."""
"""INST_Ans, RAS Fig. 17."""

PLAN_TASK = "Plan:"
"""In the place of INST_Plan, for a planner that was trained so."""

ANSWER_TASK = "Answer:"
"""In the place of INST_Ans, for an answerer that was trained so."""

TRIPLES_INSTRUCTION = """\
Extract relationship triples from the given text, each in the format \
(S> subject| P> predicate| O> object), separated by commas."""
"""The format rules of RAS Fig. 19 in one sentence, for a model that is trained to follow them."""

TRIPLES_FEW_SHOT_INSTRUCTION = """\
Extract relationship triples from the given text.
Each triple should have exactly one subject (S>), one predicate (P>), and one object (O>).
Rules:
1. Extract as many meaningful triples as possible
2. Each triple must be in format: (S> subject| P> predicate| O> object)
3. Multiple triples should be separated by commas
4. Avoid using pronouns (it/he/she) - always use the actual names
5. Keep all entities in their original case (uppercase/lowercase)
6. Make predicates clear and specific
7. When input is only an entity, output (S> ENTITY| P> is| O> ENTITY) where ENTITY is the entity \
in the input.
8. [IMPORTANT] Do not include any other text in the output, only the triples or the entity (for \
the Rule 7 case)

Example Input:
William Gerald Standridge (November 27, 1953 – April 12, 2014) was an American stock car racing \
driver. He was a competitor in the NASCAR Winston Cup Series and Busch Series.
Example Output:
(S> William gerald standridge| P> Nationality| O> American), \
(S> William gerald standridge| P> Occupation| O> Stock car racing driver), \
(S> William gerald standridge| P> Competitor| O> Busch series), \
(S> William gerald standridge| P> Competitor| O> Nascar winston cup series), \
(S> William gerald standridge| P> Birth date| O> November 27, 1953), \
(S> William gerald standridge| P> Death date| O> April 12, 2014)"""
"""RAS Fig. 19, for a model that is prompted and not trained."""

_LONG_FORM = (
    "Answer the following question. The question may be ambiguous and have multiple correct "
    "answers, and in that case, you have to provide a long-form answer including all correct "
    "answers. [Long Form]"
)

TASK_INSTRUCTIONS = {
    "arc_challenge": "Which is true? Output A, B, C, or D.",
    "pubhealth": "Is statement 'true' or 'false'? Only output 'true' or 'false'.",
    "asqa": _LONG_FORM,
    "eli5": (
        "Provide a paragraph-length response using simple words to answer the following "
        "question. [Long Form]"
    ),
}
"""What goes before the question, by data set (RAS Table 5); short-form QA has none."""


def with_task_instruction(question: str, dataset: str) -> str:
    """Put a data set's task instruction before its question, where Table 5 has one."""
    return f"{TASK_INSTRUCTIONS.get(dataset, '')} {question}".strip()


def plan_prompt(history: History, instruction: bool = True) -> str:
    """The planner's prompt (RAS eq. 1 and 2); ends in a line break, the label follows.

    instruction: False names the task alone, for a model that was trained so.
    """
    return f"{PLAN_INSTRUCTION if instruction else PLAN_TASK}\n{format_history(history)}\n"


def answer_prompt(history: History, instruction: bool = True) -> str:
    """The answerer's prompt (RAS eq. 7 and 8); ends in a line break, the label follows.

    instruction: as for `plan_prompt`.
    """
    return f"{ANSWER_INSTRUCTION if instruction else ANSWER_TASK}\n{format_history(history)}\n"


def triples_prompt(text: str, few_shot: bool = False) -> str:
    """The text-to-triples prompt (RAS eq. 4); ends in a line break, the label follows.

    few_shot: for a model that is prompted and not trained.
    """
    instruction = f"{TRIPLES_FEW_SHOT_INSTRUCTION}\n" if few_shot else TRIPLES_INSTRUCTION
    return f"{instruction}\nText: {one_line(text)}\nTriples:\n"


def passage_text(title: str, text: str) -> str:
    """A passage as the text-to-triples model reads it: its title first, then its text."""
    title, text = one_line(title), one_line(text)
    return f"{title}: {text}" if title else text


CONDITIONS_INSTRUCTION = """\
Turn the text into retrieval triplets, one a line, each in the format \
[C] entity; aspect [P] the sentence that supports it [R] the claim in one sentence. \
[C] names what the claim is about, [P] quotes the text or stays empty, [R] can be read alone."""
"""The schema of Tri-RAG §III-A in words; a soft prompt may start from it."""

CONDITIONS_FEW_SHOT_INSTRUCTION = f"""\
{CONDITIONS_INSTRUCTION}

Text: Ada Brandt: Ada Brandt (3 May 1921 - 1990) was a Danish film director. Born in Odense, she \
directed the drama "The Long Pier" (1954).
Triplets:
[C] Ada Brandt; date of birth [P] Ada Brandt (3 May 1921 - 1990) was a Danish film director. \
[R] Ada Brandt was born on 3 May 1921.
[C] Ada Brandt; place of birth [P] Born in Odense, she directed the drama "The Long Pier" (1954). \
[R] Ada Brandt was born in Odense.
[C] The Long Pier; director [P] Born in Odense, she directed the drama "The Long Pier" (1954). \
[R] The Long Pier was directed by Ada Brandt.
"""
"""For a model that is prompted and not trained (Tri-RAG Table IV, "Pretrained")."""


def conditions_prompt(text: str, few_shot: bool = False) -> str:
    """The condition extractor's prompt; ends in a line break, the triplets follow.

    An adapted model reads the passage alone (Tri-RAG eq. 4): what to do with it is what it learned.
    """
    instruction = f"{CONDITIONS_FEW_SHOT_INSTRUCTION}\n" if few_shot else ""
    return f"{instruction}Text: {one_line(text)}\nTriplets:\n"


INSUFFICIENT = "Insufficient information."
"""What an answer is where the evidence does not tell; not a guess."""

SHORT_ANSWER_INSTRUCTION = f"""\
Answer the question from the information below and from nothing else. The answer is one word or \
the shortest phrase, a name or a date (at most five words), or Yes or No, in the language of the \
question. If the information does not tell, reply "{INSUFFICIENT}\""""
"""TH-RAG App. A.2, Table 10."""

LONG_ANSWER_INSTRUCTION = f"""\
Answer the question in several paragraphs from the information below and from nothing else, in the \
language of the question. Do not make anything up. If the information does not tell, reply \
"{INSUFFICIENT}\""""
"""TH-RAG App. A.1, Table 9."""


def evidence_answer_prompt(question: str, evidence: str, long_form: bool = False) -> str:
    """Instruction, evidence, question; ends in a line break, the answer follows."""
    instruction = LONG_ANSWER_INSTRUCTION if long_form else SHORT_ANSWER_INSTRUCTION
    return f"{instruction}\n\n{evidence}\n\nQuestion: {one_line(question)}\nAnswer:\n"


def is_insufficient(answer: str) -> bool:
    """Whether an answer is blank or says that the evidence does not tell."""
    return one_line(answer).rstrip(".").casefold() in ("", INSUFFICIENT.rstrip(".").casefold())
