"""Questions and passages by their words, so that the same one under another id is known again."""

import re
import unicodedata

from models.formats.prompts import TASK_INSTRUCTIONS

# Words that a question keeps its meaning without, beside the others and its answer.
_FUNCTION_WORD = re.compile(
    r"an?|and|are|as|at|be|been|by|did|do|does|for|from|had|has|have|how|in|is|its?|of|on|or|s"
    r"|that|the|then|there|this|to|was|were|what|when|where|which|who|whom|whose|why|with"
)
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


def content_words(words: str) -> list[str]:
    """The distinct words of a wording that are no function words, sorted."""
    return sorted(word for word in {*words.split()} if not _FUNCTION_WORD.fullmatch(word))
