"""Whether a sub-query asks about its document (RAS App. C.2: it is to be answerable from it).

Names are known by their capital letters, so this is an upper bound: a sub-query that names nothing
of its document cannot be answered from it, one that does may still ask for what it does not say.
"""

import re

from evaluation.answers import normalise_answer

_TOKEN = re.compile(r"\w+(?:['’.-]\w+)*|[^\w\s]")
# These belong to a name that goes on after them.
NAME_LINKS = frozenset(
    ["of", "the", "de", "la", "le", "da", "di", "du", "van", "von", "der", "den"]
)
QUESTION_WORDS = frozenset(
    _TOKEN.findall(
        "who whom whose what when where which why how is are was were do does did has have had can "
        "could in on at of from to for by with the a an name list"
    )
)


def named_entities(subquery: str) -> list[str]:
    """The names in a sub-query: runs of words that begin with a capital letter or a digit.

    "of", "the", "de" and such belong to a run that goes on after them. A first word that opens
    questions ("Who", "In") belongs to none. Numbers count where there is nothing else.
    """
    runs: list[list[str]] = [[]]
    for position, word in enumerate(_TOKEN.findall(subquery)):
        opens = position == 0 and word.casefold() in QUESTION_WORDS
        named = (word[0].isupper() or word[0].isdigit()) and not opens
        if named or (runs[-1] and word in NAME_LINKS):
            runs[-1].append(word)
        else:
            runs.append([])
    names = [" ".join(_without_last_links(run)) for run in runs if run]
    return [name for name in names if not name.isdigit()] or names


def asks_about(subquery: str, document: str) -> bool:
    """Whether the document holds one of the sub-query's names; without any, one of its words."""
    held = f" {normalise_answer(document)} "
    names = [normalise_answer(name) for name in named_entities(subquery)]
    words = set(normalise_answer(subquery).split()) - QUESTION_WORDS - NAME_LINKS
    return any(f" {text} " in held for text in (names or words) if text)


def _without_last_links(run: list[str]) -> list[str]:
    while run[-1] in NAME_LINKS:
        run = run[:-1]
    return run
