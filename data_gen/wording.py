"""Questions and passages by their words, so that the same one under another id is known again."""

import re
import unicodedata

from models.formats.prompts import TASK_INSTRUCTIONS

_NOT_WORD = re.compile(r"[\W_]+")


def wording(text: str) -> str:
    """The words of a text, in compatible forms and lower case, joined by single spaces.

    Punctuation, letter case and spacing do not tell two texts apart. A text without any word is
    its own wording.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_NOT_WORD.sub(" ", folded).split()) or " ".join(folded.split())


_INSTRUCTIONS = tuple(f"{wording(text)} " for text in set(TASK_INSTRUCTIONS.values()))


def question_wording(question: str) -> str:
    """The wording of a question without a task instruction of RAS Table 5 before it."""
    words = wording(question)
    found = next((start for start in _INSTRUCTIONS if words.startswith(start)), "")
    return words.removeprefix(found)
