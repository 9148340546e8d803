"""What API teachers and base models are asked; a changed text is a new call by itself.

The trained writer's short prompt is in models/formats/subquery_writer.py.
"""

from collections.abc import Sequence

from models.formats.history import one_line
from models.formats.subquery_writer import SubqueryInput

FILTER_VERSION = "filter/1"
SUBQUERY_VERSION = "subquery/1"
WRITER_VERSION = "subquery_writer/1"
DIRECT_VERSION = "direct/1"

FILTER_INSTRUCTION = """\
Identify which documents are HELPFUL to answer the question. Output only the document numbers \
separated by commas, or "none".

Examples:

Example 1 (Some documents are not helpful):

Question: What nationality was James Henry Miller's wife?

Supporting docs:

1. Margaret "Peggy" Seeger (born June 17, 1935) is an American folksinger. She is also well known \
in Britain, where she has lived for more than 30 years, and was married to the singer and \
songwriter Ewan MacColl until his death in 1989.
2. Seeger's father was Charles Seeger (1886–1979), an important folklorist and musicologist; her \
mother was Seeger's second wife, Ruth Porter Crawford.
3. James Henry Miller, better known by his stage name Ewan MacColl, was an English folk singer and \
songwriter.

Output: 1,3

Explanation: Only docs 1 and 3 are helpful – doc 1 shows Peggy Seeger (who is American) was \
married to Ewan MacColl, and doc 3 confirms Ewan MacColl is James Henry Miller. Doc 2 about \
Seeger's parents is not helpful.

Example 2 (All documents are helpful):

Question: The Oberoi family is part of a hotel company that has a head office in what city?

Supporting docs:

1. The Oberoi family is an Indian family that is famous for its involvement in hotels, namely \
through The Oberoi Group.
2. The Oberoi Group is a hotel company with its head office in Delhi.

Output: 1,2

Explanation: Both docs are helpful – doc 1 links the Oberoi family to The Oberoi Group, and doc 2 \
provides the head office location."""
"""RAS Fig. 7; "none" is ours, since a question may have no helpful document (App. C.1)."""

SUBQUERY_INSTRUCTION = """\
Given this main question and a supporting document, generate a simple sub-query (a question) that \
will help retrieve information from the document to answer the main question."""

SUBQUERY_EXAMPLES = """\
Main Question: The Pick Motor Company Limited is located in a town on which river?

Current Document (Pick Motor Company):
The Pick Motor Company Limited was a British motor vehicle manufacturer based in Stamford, \
Lincolnshire, and active between 1899 and 1925.

Sub-query: Where is The Pick Motor Company Limited located?

Main Question: The Pick Motor Company Limited is located in a town on which river?

Current Document (Stamford, Lincolnshire):
Stamford is a market town on the River Welland in Lincolnshire, England.

Previously generated sub-queries:
- Where is The Pick Motor Company Limited located?

Sub-query: Which river is Stamford located on?"""
"""The questions of RAS Fig. 10; the documents' wording is ours."""

SUBQUERY_RULES = """\
Write ONE clear and specific question that:
1. Can be answered using ONLY this document
2. Helps retrieve information needed for the main question
3. Is direct and focused on key information from this document
4. Names what it asks about and never speaks of "the document"
5. Does not contain the answer to the main question

Write only the question, in English, without any explanations or formatting."""
"""RAS Fig. 8 with two rules (4, 5) that its published outputs keep without saying so."""

DIRECT_EXAMPLES = """\
Question: Which country is the city of Osaka in?
Answer: Japan
Question: Are both the Nile and the Amazon rivers?
Answer: yes
Question: In what year did the Second World War end?
Answer: 1945"""


def filter_prompt(question: str, documents: Sequence[str]) -> str:
    """Which of the documents help to answer the question (RAS Fig. 7)."""
    numbered = "\n".join(f"{n}. {one_line(text)}" for n, text in enumerate(documents, start=1))
    return (
        f"{FILTER_INSTRUCTION}\n\nQuestion: {one_line(question)}\n\nSupporting docs:\n\n{numbered}"
        "\n\nOutput only the helpful document numbers separated by commas:"
    )


def subquery_prompt(given: SubqueryInput) -> str:
    """One sub-question for a document, given those before (RAS Fig. 8)."""
    lines = [
        SUBQUERY_INSTRUCTION,
        f"Examples:\n\n{SUBQUERY_EXAMPLES}",
        f"Main Question: {one_line(given.question)}",
        f"Current Document ({one_line(given.title)}):\n{one_line(given.text)}",
    ]
    if given.earlier:
        asked = "\n".join(f"- {one_line(subquery)}" for subquery in given.earlier)
        lines.append(f"Previously generated sub-queries:\n{asked}")
    return "\n\n".join([*lines, SUBQUERY_RULES])


def direct_prompt(question: str) -> str:
    """The question without any context (RAS Algorithm 1, line 3); the answer ends its line.

    A base model that follows no instruction sees by examples that a short answer is wanted.
    """
    return f"{DIRECT_EXAMPLES}\nQuestion: {one_line(question)}\nAnswer:"
