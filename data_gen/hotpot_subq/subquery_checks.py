"""Whether a teacher's text is a sub-question that a planner may learn from."""

import re
import unicodedata
from collections.abc import Sequence

from data_gen.entity_text import mentions
from data_gen.subqueries import hop_references, natural_question, split_relation
from evaluation.answers import golden_match, normalise_answer
from models.formats.plan import strip_tags
from models.formats.subquery_writer import read_subquery

# The longest sub-query of RAS Table 4 has 62 tokens.
MOST_WORDS = 50
_LATIN_SHARE = 0.7
_WH_WORDS = frozenset({"who", "whom", "whose", "what", "when", "where", "which", "why", "how"})
_AUXILIARIES = frozenset(
    {"is", "are", "was", "were", "did", "does", "do", "has", "have", "had", "can", "could", "would"}
)
# Auxiliaries also begin questions of related languages: "Was ist das?", "Is het een film?".
_NOT_ENGLISH = frozenset({"ist", "das", "ein", "eine", "und", "het", "een"})
_SENTENCE_END = re.compile(r"[a-z]{4,}[.!?][\"')]?\s+[A-Z]")
_TEXT = r"(?:document|passage|text|article|paragraph)\b"
_DOCUMENT = re.compile(
    rf"\bthe document\b|\bthis {_TEXT}|\baccording to the {_TEXT}"
    rf"|\bthe (?:given|current|provided|above|supporting) {_TEXT}",
    re.IGNORECASE,
)
_CHOSEN = frozenset({"yes", "no", "noanswer"})

EMPTY = "empty"
CUT = "cut at the token limit"
PROSE = "prose, not one question"
TOO_LONG = f"more than {MOST_WORDS} words"
OTHER_LANGUAGE = "not in English"
OF_THE_DOCUMENT = "speaks of the document"
GIVES_ANSWER = "gives the answer away"
REPEATED = "asked before"
REFERENCE = "a form that data_gen/build_subq.py reads otherwise"
PROBLEMS = (
    EMPTY, CUT, PROSE, TOO_LONG, OTHER_LANGUAGE, OF_THE_DOCUMENT, GIVES_ANSWER, REPEATED, REFERENCE,
)  # fmt: skip


def checked_subquery(
    text: str,
    finish_reason: str,
    question: str,
    answers: Sequence[str],
    earlier: Sequence[str],
) -> tuple[str, str]:
    """The sub-question in a teacher's text and what is wrong with it; nothing when it is good.

    Never raises. Checked is its form: that it is one English question of its own, names no answer
    of the main question that the main question does not name, and was not asked before. Whether
    its document answers it is not.
    """
    found = read_subquery(text)
    if not found:
        return "", EMPTY
    if finish_reason == "length":
        return found, CUT
    return _well_formed(found), _problem(found, question, answers, earlier)


def _well_formed(found: str) -> str:
    """The form in which other builders give it out again: a capital, one question mark."""
    return natural_question(" ".join(found.split()))


def _problem(found: str, question: str, answers: Sequence[str], earlier: Sequence[str]) -> str:
    if _is_prose(found):
        return PROSE
    if len(found.split()) > MOST_WORDS:
        return TOO_LONG
    if not is_english_question(found):
        return OTHER_LANGUAGE
    if _DOCUMENT.search(found):
        return OF_THE_DOCUMENT
    if _gives_answer(found, question, answers):
        return GIVES_ANSWER
    if normalise_answer(found) in map(normalise_answer, earlier):
        return REPEATED
    # "#1" is a reference to another step there, ">>" splits a relation, tags end a plan.
    if (
        hop_references(found)
        or split_relation(found)
        or strip_tags(found) != " ".join(found.split())
    ):
        return REFERENCE
    return ""


def _is_prose(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 or not text.rstrip().endswith("?"):
        return True
    return _SENTENCE_END.search(text) is not None


def is_english_question(text: str) -> bool:
    """Whether a text looks like an English question: Latin letters and a word that asks.

    A guess from a few words, meant for teachers that fall into another language.
    """
    letters = [c for c in text if c.isalpha()]
    latin = sum("LATIN" in unicodedata.name(c, "") for c in letters)
    words = re.findall(r"[a-z]+", text.casefold())
    if not letters or latin < _LATIN_SHARE * len(letters):
        return False
    if _WH_WORDS & set(words):
        return True
    return bool(words) and words[0] in _AUXILIARIES and not _NOT_ENGLISH & set(words)


def _gives_answer(text: str, question: str, answers: Sequence[str]) -> bool:
    """Whether it holds an answer that the main question does not name itself."""
    for answer in answers:
        plain = normalise_answer(answer)
        if not plain or plain in _CHOSEN:
            continue
        if _names(text, answer) and not _names(question, answer):
            return True
    return False


def _names(text: str, answer: str) -> bool:
    """Whether it holds the answer, "Owens's" too, which normalisation makes another word."""
    return bool(golden_match(text, [answer], True)) or mentions(text, answer)
