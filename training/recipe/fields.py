"""The fields of a recipe's dataclasses."""

from dataclasses import field
from typing import Any


def setting(default: Any, help_text: str) -> Any:
    """A dataclass field whose meaning is kept for comments and errors."""
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata={"help": help_text})
    return field(default=default, metadata={"help": help_text})
