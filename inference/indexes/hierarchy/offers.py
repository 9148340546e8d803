"""The topics and subtopics that a question is offered, and those that lead to its facts."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from inference.indexes.hierarchy.index import HierarchyIndex, ScoredQuestion
from inference.retrieval.passages import Rows
from models.formats.planning import folded
from models.formats.records import QuestionRecord
from models.formats.topics import BOUNDS, Choice, ChoiceLevel

SHORTLIST = 100
ALIKE = 0.8
"""Share of the longer sentence's words that two sentences have in common to be the same."""
_WORD = re.compile(r"\w+")
Place = tuple[int, int]


@dataclass(frozen=True)
class Offer:
    """A choice as a model sees it, and the graph's numbers behind it.

    nearest: the numbers on the shortlist, best first. numbers: by their names.
    """

    choice: Choice
    nearest: tuple[int, ...]
    numbers: Mapping[str, int]

    @property
    def is_taken_whole(self) -> bool:
        """Return whether there are no more than the least to be chosen, so that nobody is asked."""
        return len(self.nearest) <= self.choice.least


@dataclass(frozen=True)
class TopicOffers:
    """Makes the offers of TH-RAG's traversal (Algorithm 2, lines 3 to 9).

    topics_bounds, subtopics_bounds: least and most to be chosen. shortlist: names of an offer, the
    nearest ones where there are more.
    """

    index: HierarchyIndex
    topics_bounds: tuple[int, int] = BOUNDS["topics"]
    subtopics_bounds: tuple[int, int] = BOUNDS["subtopics"]
    shortlist: int = SHORTLIST

    def topics(self, scored: ScoredQuestion) -> Offer:
        """Return the topics nearest to a question."""
        nearest = self.index.shortlist_topics(scored, self.shortlist)
        return _offer("topics", nearest, self.index.graph.topics, self.topics_bounds)

    def subtopics(self, scored: ScoredQuestion, topic: int) -> Offer:
        """Return the nearest of one topic's subtopics."""
        graph = self.index.graph
        nearest = self.index.shortlist_subtopics(scored, topic, self.shortlist)
        bounds, of_topic = self.subtopics_bounds, graph.topics[topic]
        return _offer("subtopics", nearest, graph.subtopics, bounds, of_topic)


def _offer(
    level: ChoiceLevel,
    nearest: Sequence[int],
    names: Sequence[str],
    bounds: tuple[int, int],
    topic: str = "",
) -> Offer:
    """Return names in order of the alphabet, so that a list does not change with the question."""
    numbers = {names[number]: number for number in nearest}
    choice = Choice(level, tuple(sorted(numbers)), *bounds, topic)
    return Offer(choice, tuple(nearest), numbers)


@dataclass(frozen=True)
class Words:
    """A text by its words, whatever its case, spacing and punctuation."""

    text: str

    @classmethod
    def of(cls, text: str) -> "Words":
        """Return the words of a text, one space around each."""
        return cls(f" {' '.join(_WORD.findall(text.casefold()))} ")

    @cached_property
    def distinct(self) -> frozenset[str]:
        """Each word once."""
        return frozenset(self.text.split())

    def holds_or_is_held(self, other: "Words") -> bool:
        """Return whether one stands in the other, word by word; a text without a word does not."""
        in_other, in_this = self.text in other.text, other.text in self.text
        return bool(self.distinct and other.distinct) and (in_other or in_this)

    def share(self, other: "Words") -> float:
        """Return the common words among those of the one that has more."""
        longer = max(len(self.distinct), len(other.distinct))
        return len(self.distinct & other.distinct) / longer if longer else 0.0


def supporting_sentences(record: QuestionRecord) -> list[tuple[str, str]]:
    """Return the title and text of each supporting fact whose text the question's context holds.

    Where paragraphs share a title (MuSiQue), those count that the decomposition points to.
    """
    titles = Counter(title for title, _ in record.context)
    pointed_to = {step.paragraph_support_idx for step in record.question_decomposition} - {None}
    return [
        (title, sentences[place])
        for title, place in dict.fromkeys(record.supporting_facts)
        for number, (own, sentences) in enumerate(record.context)
        if own == title
        and 0 <= place < len(sentences)
        and (titles[title] == 1 or not pointed_to or number in pointed_to)
    ]


class GoldTopics:
    """Finds a question's supporting sentences in a hierarchy, and what leads to them.

    An entity lies under the topics and subtopics that any fact of the graph gives it, and leads to
    the sentences of all its facts (Algorithm 2, lines 10 and 11).
    """

    def __init__(self, index: HierarchyIndex) -> None:
        self._index = index
        self._rows: dict[str, list[tuple[int, Words]]] = defaultdict(list)
        for row, (text, chunk) in enumerate(index.sentences):
            self._rows[folded(chunk.title)].append((row, Words.of(text)))
        graph = index.graph
        self._ends = (graph.subject, graph.subject_place), (graph.object, graph.object_place)
        self._places: dict[int, set[Place]] = defaultdict(set)
        for entities, places in self._ends:
            for entity, place in zip(entities.tolist(), map(_place, places), strict=True):
                self._places[entity].add(place)

    def sentences(self, record: QuestionRecord) -> list[int]:
        """Return rows of the supporting sentences, by title and text; those not there are left out.

        A sentence that holds the supporting one, or is held by it, is the same: texts are cut into
        sentences differently. Where there is none, the one most alike is, from `ALIKE` on.
        """
        found: dict[int, None] = {}
        for title, text in supporting_sentences(record):
            found |= dict.fromkeys(self._rows_of(self._rows.get(folded(title), []), Words.of(text)))
        return list(found)

    def _rows_of(self, there: Sequence[tuple[int, Words]], wanted: Words) -> list[int]:
        held = [row for row, words in there if words.holds_or_is_held(wanted)]
        if held or not there:
            return held
        row, best = max(there, key=lambda own: own[1].share(wanted))
        return [row] if best.share(wanted) >= ALIKE else []

    def topics(self, rows: Sequence[int]) -> list[int]:
        """Return the topics that lead to these sentences, see `_ranked`."""
        return self._ranked(rows, None)

    def subtopics(self, rows: Sequence[int], topic: int) -> list[int]:
        """Return the subtopics of a topic that do."""
        return self._ranked(rows, topic)

    def _ranked(self, rows: Sequence[int], topic: int | None) -> list[int]:
        """By how many of the sentences they lead to, by how many facts there, and by name.

        topic: the subtopics of this one; None for topics.
        """
        graph = self._index.graph
        level, names = (0, graph.topics) if topic is None else (1, graph.subtopics)
        led, said = Counter[int](), Counter[int]()
        for row in rows:
            facts = self._index.facts_of[row]
            entities = {int(ends[fact]) for ends, _ in self._ends for fact in facts}
            reached = {place for entity in entities for place in self._places[entity]}
            own = [_place(places[fact]) for _, places in self._ends for fact in facts]
            led.update({place[level] for place in reached if topic in (None, place[0])})
            said.update(place[level] for place in own if topic in (None, place[0]))
        return sorted(led, key=lambda number: (-led[number], -said[number], names[number]))


def _place(row: Rows) -> Place:
    topic, subtopic = row.tolist()
    return topic, subtopic
