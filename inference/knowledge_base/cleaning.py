"""From what a model wrote to triplets fit for a knowledge base (Tri-RAG §III-C)."""

import re
from collections import Counter
from dataclasses import dataclass, field

from evaluation.conditions import MAX_WORDS, covered_by
from models.formats.conditions import ConditionTriplet, parse_conditions

# A conclusion with fewer of its words in passage and condition is about something else, or in
# another language.
MIN_SUPPORT = 0.5
_SPACE = re.compile(r"\s+")
_TAGS = re.compile(r"\[\s*[CPR]\s*\]")
_EDGE = " \t,;:|-–—*•"


@dataclass
class Cleaned:
    """The triplets of one output that passed, and how many pieces were dropped, by reason."""

    triplets: list[ConditionTriplet] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def clean_output(output: str, passage: str, was_cut: bool = False) -> Cleaned:
    """Parse, normalise and validate what an extractor wrote about a passage; never raises.

    was_cut: the output reached its token limit, so that its last triplet is not whole.
    """
    parsed = parse_conditions(output)
    cleaned = Cleaned()
    cleaned.dropped["not a complete triplet"] += parsed.malformed
    triplets = parsed.triplets
    if was_cut and triplets and not parsed.malformed:
        triplets = triplets[:-1]
        cleaned.dropped["cut off at the token limit"] += 1
    distinct = dict.fromkeys(map(normalised, triplets))
    for triplet in distinct:
        reason = degenerate(triplet, passage)
        if reason:
            cleaned.dropped[reason] += 1
        else:
            cleaned.triplets.append(triplet)
    cleaned.dropped["the same triplet again"] += len(triplets) - len(distinct)
    cleaned.dropped = +cleaned.dropped
    return cleaned


def normalised(triplet: ConditionTriplet) -> ConditionTriplet:
    """Fields without stray tags, folded white space and loose punctuation at their ends."""
    condition, proof, conclusion = (
        _SPACE.sub(" ", _TAGS.sub(" ", text)).strip(_EDGE)
        for text in (triplet.condition, triplet.proof, triplet.conclusion)
    )
    return ConditionTriplet(condition, proof, conclusion)


def degenerate(triplet: ConditionTriplet, passage: str) -> str:
    """Why a normalised triplet is of no use; '' for one that is."""
    for name in ("condition", "conclusion"):
        if not any(character.isalnum() for character in getattr(triplet, name)):
            return f"empty {name}"
    for name, limit in MAX_WORDS.items():
        text = getattr(triplet, name)
        if len(text.split()) > limit or len(text) > 12 * limit:
            return f"{name} too long"
    if covered_by(triplet.conclusion, f"{passage} {triplet.condition}") < MIN_SUPPORT:
        return "conclusion not in the passage's words"
    return ""
