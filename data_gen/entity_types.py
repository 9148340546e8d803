"""What kind of thing a passage is about, by the first nouns that it uses of its subject."""

import re

from data_gen.weak_patterns import first_sentences, is_person

PERSON = "person"
OTHER = "other"
_NOUNS = {
    "work": (
        "film|movie|song|single|album|novel|book|play|opera|musical|series|magazine|sitcom|"
        "documentary|soundtrack|EP|game|poem|painting|anime|manga|comic|episode"
    ),
    "group": (
        "band|group|orchestra|company|corporation|club|team|university|college|school|agency|party|"
        "organi[sz]ation|institute|association|bank|airline|brand|manufacturer|league|label|"
        "network|church|society|union|museum|newspaper|squadron|regiment"
    ),
    "place": (
        "city|town|village|river|lake|county|municipality|district|province|region|island|country|"
        "mountain|commune|suburb|neighbou?rhood|station|airport|building|stadium|park|street|"
        "highway|road|bridge|castle|hotel|valley|bay|borough|township|capital|state"
    ),
}
_SAID = re.compile(r"\b(?:is|was|are|were)\s+(?:an?|the|one of the)?\s*(?P<rest>.*)", re.DOTALL)
_PHRASE_END = re.compile(
    r"[,.;:(]|\b(?:of|in|on|at|by|for|from|with|to|that|which|who|and|or|located|released|held|"
    r"containing|produced|written|used|known|based|between|played|founded|featuring|set)\b"
)


def entity_type(text: str) -> str:
    """The type of a passage's subject: person, work, place, group, or what its sentence calls it.

    The first sentence's head noun ("genus", "season") is the type of everything else; `other`
    where it has none.
    """
    if is_person(text):
        return PERSON
    said = _SAID.search(first_sentences(text, 1))
    phrase = _PHRASE_END.split(said["rest"], maxsplit=1)[0].strip() if said else ""
    ends = {
        kind: match.end()
        for kind, nouns in _NOUNS.items()
        for match in re.finditer(rf"\b(?:{nouns})s?\b", phrase)
    }
    if ends:
        # Of "city magazine" the last word says what it is.
        return max(ends, key=lambda kind: ends[kind])
    head = phrase.split(" ")[-1]
    return head.casefold() if head.isalpha() else OTHER
