"""What the decomposer reads (T²RAG §4.3, step 1); it writes query triplets, one a line."""

from models.formats.history import one_line


def decompose_prompt(question: str) -> str:
    """The prompt for a question's query triplets; ends in a line break, the triplets follow.

    The output is what `parse_query_triplets` reads.
    """
    return f"Question: {one_line(question)}\nTriplets:\n"
