"""Condition triplets of supporting sentences, where no relation is annotated (HotpotQA)."""

import re
from collections.abc import Iterable, Sequence

from data_gen.entity_text import entity_key
from models.formats.claims import anchor
from models.formats.conditions import ConditionTriplet

# What a sentence about a passage's subject may begin with in the subject's place.
_PRONOUN = re.compile(r"(?:He|She|It|They)\b")
_POSSESSIVE = re.compile(r"(?:His|Her|Its|Their)\b")
_THE_KIND = re.compile(
    r"(?:The|This) (?:film|movie|song|single|album|novel|book|play|series|show|band|group|team|"
    r"club|company|school|university|city|town|village|station|game|magazine|building|museum)\b"
)
_BRACKETS = re.compile(r"\s*\([^()]*\)")
_LINKING = re.compile(
    r"^[\s,;:]*(?:(?:is|was|are|were|has been|had been|has|had|also|became)\s+)*"
    r"(?:(?:an?|the|one of the)\s+)?",
    re.IGNORECASE,
)
_VERB = (
    r"(?:is|was|are|were|has|have|had|became|won|wrote|began|made|took|led|sold|held|rose|grew|"
    r"fell|ran|came|went|met|sang|spent|left|built|[a-z]{3,}ed|[a-z]{3,}[^s\W]s)\b"
)
_CLAUSE_END = re.compile(
    r"[,;]|\s(?:which|who|whose|that|where|when|while|but)\s"
    r"|\sand (?=(?:is|was|are|were|has|had|later|also|he|she|it|they)\b)"
)
# What a cut must not leave at the end.
_LOOSE_END = re.compile(
    r"(?:\s(?:a|an|the|and|or|of|in|on|at|by|for|from|with|to|as|its|his|her))+$"
)
ASPECT_WORDS = 7


def conditions_of_sentences(
    title: str, sentences: Sequence[str], chosen: Iterable[int]
) -> list[ConditionTriplet]:
    """One triplet a chosen sentence that can be made to speak of the title.

    The aspect is what the sentence says first; the conclusion is its first clause, the proof the
    whole sentence where that says more. Sentences about something else are left out.
    """
    triplets = []
    for index in chosen:
        sentence = " ".join(sentences[index].split())
        said = _about(title, sentence)
        aspect = _aspect(said) if said else ""
        if said and aspect:
            conclusion = f"{title}{_first_clause(said)}."
            whole = f"{title}{said}".rstrip(".") + "."
            proof = "" if entity_key(whole) == entity_key(conclusion) else sentence
            triplets.append(ConditionTriplet(anchor(title, aspect), proof, conclusion))
    return triplets


def _about(title: str, sentence: str) -> str:
    """What a sentence says of the title, to be put behind it; '' where it is about another."""
    name = re.escape(_BRACKETS.sub("", title))
    family = re.escape(_BRACKETS.sub("", title).split(" ")[-1])
    # The name itself, or a fuller one that ends like it: 'Jeffrey Thomas Porcaro (1954) was'.
    called = rf"(?:(?:The )?[\"']?{name}[\"']?|(?:[A-Z][\w.'-]*\s+){{0,5}}{family})"
    subject = rf"(?:{called}|{_PRONOUN.pattern}|{_THE_KIND.pattern})(?:\s*\([^()]*\))?\s+"
    if match := re.match(rf"{subject}(?:also |then |later )?(?P<said>{_VERB}.*)", sentence):
        return " " + match["said"]
    match = None if sentence.startswith(title) else _POSSESSIVE.match(sentence)
    return f"'s{sentence[match.end() :]}" if match else ""


def _aspect(said: str) -> str:
    words = _first_clause(_LINKING.sub("", said.removeprefix("'s "))).split()
    return _LOOSE_END.sub("", " ".join(words[:ASPECT_WORDS])).strip(" ,.;:\"'")


def _first_clause(said: str) -> str:
    """Up to the first clause's end, but at least four words."""
    for match in _CLAUSE_END.finditer(said):
        clause = said[: match.start()]
        if len(clause.split()) >= 4:
            return _LOOSE_END.sub("", clause).rstrip(" .")
    return said.rstrip(" .")
