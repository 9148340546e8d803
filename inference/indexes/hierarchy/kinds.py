"""Topics without a large model: what kind of thing an entity is, by what is said of it.

For an indexing model that writes triples alone, such as the project's text-to-triples model
(TH-RAG has its indexing model write topics, App. A.3). The subtopic of an entity is what its own
document calls it ("a 1966 film": film), else what the relation makes of it (the object of
"director" is a person, its subject a film), else the relation itself. The topic is the field of
that kind: a listed one, or the one nearest in meaning; or it is left open, to be named from the
corpus (`topics.py`). No call and no training, and every entity has a topic.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from models.files.sentence_encoder import SentenceEncoder
from models.formats.conditions import relation_words
from models.formats.planning import folded, one_line
from models.formats.topics import Topic
from models.formats.triples import Triple

_KINDS_BY_FIELD = """
Biography: person, man, woman
Cinema: film, movie, film director
Television: series, show, sitcom, episode
Music: song, album, single, band, record label, opera, soundtrack
Literature: novel, book, poem, play, magazine, newspaper
Art: painting, sculpture, museum
Sports: sports club, team, league, tournament, stadium, sport, club
Geography: city, town, village, country, region, province, river, lake, mountain, island, place
Education: university, college, school
Business: company, industry, airline, bank, brand
Politics: party, office, election
Military: war, battle, regiment
Religion: church, temple
Science: species, genus, planet
Technology: software, computer
Transport: station, airport, road, ship, bridge
Awards: award, prize
Time: date, year
Measures: number, population
Language: language
Society: occupation, genre, organisation
"""
_RELATIONS = """
director, screenwriter, cast member: film | person
production company: film | company
based on: film | novel
author: book | person
publisher: book | company
performer, composer, lyrics by: song | person
record label: song | record label
founded by, chief executive officer: company | person
owned by: company | company
industry: company | industry
head coach: sports club | person
sport: sports club | sport
chancellor: university | person
mayor, head of state: place | person
capital: country | city
official language: country | language
population: place | number
date of birth, date of death: person | date
place of birth, place of death, place of burial: person | city
father, mother, spouse, child, sibling: person | person
educated at: person | university
employer: person | company
member of sports team: person | sports club
award received: person | award
country of citizenship: person | country
country, country of origin: - | country
located in, headquarters location: - | city
occupation: person | occupation
genre: - | genre
publication date, inception: - | date
"""


def _lines(table: str) -> list[tuple[str, list[str]]]:
    """Return each line's head before the colon and the names behind it."""
    pairs = (line.split(": ") for line in table.strip().splitlines())
    return [(head, rest.split(", ")) for head, rest in pairs]


_FIELD_OF = {kind: field for field, kinds in _lines(_KINDS_BY_FIELD) for kind in kinds}
_KINDS_OF_RELATION = {
    relation: tuple(kinds[0].replace("-", "").split(" | "))
    for relations, kinds in _lines(_RELATIONS)
    for relation in relations.split(", ")
}
TopicSource = Literal["fields", "corpus"]
FIELDS = tuple(dict.fromkeys(_FIELD_OF.values()))
_IS_A = frozenset({"instance of", "is", "is a", "is an", "type", "kind"})
_YEAR_LAST = r"(?:c(?:irca|\.)? ?)?(?:[^\W\d]+\.? )?(?:\d{1,2}(?:st|nd|rd|th)?,? )?(?:[^\W\d]+,? )?"
_A_DATE = re.compile(rf"{_YEAR_LAST}\d{{3,4}}s?(?: BC)?|\d{{4}}-\d\d-\d\d")
_A_NUMBER = re.compile(r"\d[\d.,\s]*%?(?: [^\W\d]+)?")
_SAID = re.compile(r"\b(?:is|was|are|were)\s+(?:an?|the|one of the)\s+(?P<phrase>[^,.;:()]+)")
_APPOSED = re.compile(r",\s+(?:an?|the)\s+(?P<phrase>[^,.;:()]+),")
_PHRASE_END = re.compile(
    r"\s+(?:of|in|on|at|by|for|from|with|to|that|which|who|whose|and|or|located|released|held|"
    r"written|directed|produced|recorded|based|founded|born|featuring|set)\b.*"
)
_NO_ROLE = re.compile(
    r"^(?:(?:is|was|are|were|has|had|have|been|the|an?)\s+)+"
    r"|\s+(?:of|in|on|at|by|for|from|with|to|as|after|the|an?)$"
)
MOST_KIND_WORDS = 3


class KindTopics:
    """Gives each entity of a chunk its topic."""

    def __init__(self, encoder: SentenceEncoder, source: TopicSource = "fields") -> None:
        """source: "corpus" leaves topics open, and has kinds from what texts and relations say
        alone, not from a list of relations.
        """
        self.encoder = encoder
        self.source = source
        self._fields = encoder.encode(FIELDS)
        self._field_of = lru_cache(maxsize=100_000)(self._nearest_field)

    def topics(self, title: str, text: str, facts: Sequence[Triple]) -> dict[str, Topic]:
        """Return topic of every subject and object, by its text; what is most certain counts."""
        kinds: dict[str, str] = {}
        own = described_kind(title, text)
        for fact in facts:
            predicate = relation_words(fact.predicate)
            subject_kind, object_kind = self._kinds(predicate, fact.object)
            if predicate in _IS_A:
                kinds[fact.subject] = _as_kind(fact.object)
            for name, kind in ((fact.subject, subject_kind), (fact.object, object_kind)):
                if own and folded(name) == folded(title):
                    kinds[name] = own
                elif kind:
                    kinds.setdefault(name, kind)
        for fact in facts:
            for name in (fact.subject, fact.object):
                kinds[name] = kinds.get(name) or _role(relation_words(fact.predicate))
        return {name: self.topic_of(kind) for name, kind in kinds.items()}

    def topic_of(self, kind: str) -> Topic:
        """Return a kind under its field, or under none where the corpus names it."""
        if self.source == "corpus":
            return Topic("", kind)
        return Topic(_FIELD_OF.get(kind) or self._field_of(kind), kind)

    def _kinds(self, predicate: str, object_text: str) -> tuple[str, str]:
        """Return the kinds of a relation's subject and object; '' where it does not say."""
        subject_kind, object_kind = "", ""
        if self.source == "fields":
            subject_kind, object_kind = _KINDS_OF_RELATION.get(predicate, ("", ""))
        if _A_DATE.fullmatch(object_text):
            return subject_kind, "date"
        if _A_NUMBER.fullmatch(object_text):
            return subject_kind, "number"
        return subject_kind.strip(), object_kind.strip()

    def _nearest_field(self, kind: str) -> str:
        [vector] = self.encoder.encode([kind])
        return FIELDS[int(np.argmax(self._fields @ vector))]


def described_kind(title: str, text: str) -> str:
    """Return the noun, "film", that a text's first sentence calls its title; '' where it does not.

    Read are "Dawn is a 1966 film by", "Dawn, a film, was" and "The film Dawn was".
    """
    first = one_line(text).split(". ", 1)[0]
    place = first.casefold().find(folded(title)) if title.strip() else -1
    before = first[:place].strip().casefold() if place > 0 else ""
    if before.startswith(("the ", "an ", "a ")):
        return _as_kind(before.split(" ", 1)[1])
    rest = first[place + len(one_line(title)) :] if place >= 0 else first
    found = _APPOSED.match(rest) or _SAID.search(rest)
    return _as_kind(_PHRASE_END.sub("", found["phrase"])) if found else ""


def _as_kind(phrase: str) -> str:
    """Return a phrase as a kind: the listed kind that it ends with, else its last word."""
    words = folded(phrase).split()
    for start in range(max(0, len(words) - MOST_KIND_WORDS), len(words)):
        ending = " ".join(words[start:])
        if ending in _FIELD_OF:
            return ending
    return words[-1] if words and words[-1].isalpha() else ""


def _role(predicate: str) -> str:
    """Return a relation as the kind of what stands in it: "was renamed after" gives "renamed"."""
    words = _NO_ROLE.sub("", _NO_ROLE.sub("", predicate)).split()
    return " ".join(words[:MOST_KIND_WORDS]) or "thing"
