"""What a server did, for the table at its end."""

from dataclasses import dataclass


@dataclass
class Counts:
    """What became of the calls so far; tokens are those of answered ones.

    refused: 4xx. failed: 5xx. abandoned: the client went before the answer came.
    """

    answered: int = 0
    refused: int = 0
    failed: int = 0
    abandoned: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
