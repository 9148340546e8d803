"""Comparison of written names of entities, and the kind of thing that a passage is about."""

import re
from functools import lru_cache

from data_gen.labelling.patterns import first_sentences, is_person
from models.formats.conditions import relation_words
from models.formats.triples import Triple

_BRACKETS = re.compile(r"\s*\([^()]*\)\s*$")
_NOT_WORD = re.compile(r"[\W_]+")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")

# Names that different sources give the same relation; each line is one relation.
_SAME_RELATION = [
    {"date of birth", "birth date", "birthdate", "born", "birth"},
    {"date of death", "death date", "died", "death"},
    {"place of birth", "birth place", "birthplace", "born in", "born"},
    {"place of death", "death place", "died in", "died"},
    {"country of citizenship", "nationality", "citizenship", "country"},
    {"country of origin", "country", "origin", "nationality"},
    {"publication date", "release date", "released", "year", "release year"},
    {"director", "directed by"},
    {"performer", "performed by", "artist", "singer", "recorded by"},
    {"composer", "composed by", "music by", "written by"},
    {"spouse", "married", "married to", "wife", "husband", "consort"},
    {"father", "parent", "son of", "daughter of", "child of"},
    {"mother", "parent", "son of", "daughter of", "child of"},
    {"educated at", "alma mater", "education", "studied at", "graduated from"},
    {"founded by", "founder"},
    {"inception", "founded", "established", "founding date"},
    {"publisher", "published by"},
    {"place of burial", "buried in", "burial place", "resting place"},
]
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


def entity_key(text: str) -> str:
    """Return a key for all forms of one name: no case, punctuation or disambiguation."""
    return plain_words(_BRACKETS.sub("", text) or text) or text.casefold().strip()


# A passage is asked for many names in turn.
@lru_cache(maxsize=1024)
def plain_words(text: str) -> str:
    """Return the words of a text in lower case, joined by single spaces, without articles."""
    words = _NOT_WORD.sub(" ", text.casefold())
    return " ".join(_ARTICLES.sub(" ", words).split())


def compatible_relations(first: str, second: str) -> bool:
    """Return whether predicates may mean one relation: equal, a shared word, or known names."""
    a, b = relation_words(first), relation_words(second)
    if a == b or any(a in names and b in names for names in _SAME_RELATION):
        return True
    small = {"of", "in", "at", "by", "the", "is", "was", "date", "place", "country"}
    return bool((set(a.split()) & set(b.split())) - small)


def same_fact(first: Triple, second: Triple) -> bool:
    """Same subject and object up to writing, and predicates that may mean one relation."""
    return (
        entity_key(first.subject) == entity_key(second.subject)
        and entity_key(first.object) == entity_key(second.object)
        and compatible_relations(first.predicate, second.predicate)
    )


def mentions(text: str, entity: str) -> bool:
    """Return whether the words of `entity` stand together in `text`, but for case and articles."""
    return f" {entity_key(entity)} " in f" {plain_words(text)} "


def written_as(text: str, entity: str) -> str | None:
    """Return form in which `text` writes `entity`, letter case aside; None where it does not."""
    match = re.search(rf"(?<!\w){re.escape(entity)}(?!\w)", text, re.IGNORECASE)
    return match[0] if match else None


def entity_type(text: str) -> str:
    """Return the type of a passage's subject: person, work, place, group, or its sentence's word.

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
