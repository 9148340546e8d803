"""The three-level graph of topics, subtopics and entities in memory (TH-RAG §3.1)."""

import heapq
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from inference.indexes.hierarchy.store import StoredFact
from inference.indexes.hierarchy.vectors import label_key
from inference.retrieval.passages import Rows, best_rows
from models.files.sentence_encoder import FloatArray
from models.formats.planning import folded

_WORD = re.compile(r"\w+")
_BRACKETS = re.compile(r"\s*\([^()]*\)\s*$")


class Numbering:
    """Numbers things from 0 by a key, and calls each by its most frequent name."""

    def __init__(self, key: Callable[[str], str]) -> None:
        self._key = key
        self.keys: list[str] = []
        self._number_of: dict[str, int] = {}
        self._number_by_name: dict[str, int] = {}
        self._names: list[Counter[str]] = []

    def __len__(self) -> int:
        return len(self.keys)

    def number(self, name: str) -> int:
        """Return the number of what the name means, a new one for a new thing."""
        number = self._number_by_name.get(name)
        if number is None:
            number = self._number_by_name[name] = self._number_of_key(self._key(name))
        self._names[number][name] += 1
        return number

    def _number_of_key(self, key: str) -> int:
        if key not in self._number_of:
            self._number_of[key] = len(self.keys)
            self.keys.append(key)
            self._names.append(Counter())
        return self._number_of[key]

    @property
    def names(self) -> list[str]:
        """Return what each is called; of names as frequent, the first in the alphabet."""
        return [min(names, key=lambda name: (-names[name], name)) for names in self._names]


class TopicGraph:
    """Nodes by number, and for each fact its entities, subtopics, topics and sentence.

    subject, object [n facts]: entities. sentence [n facts]: row of the sentence.
    topic_pairs [n, 2]: topics and their subtopics; entity_pairs [n, 2]: subtopics and theirs.
    subject_place, object_place [n facts, 2]: topic and subtopic that the fact gives an entity.
    """

    def __init__(
        self,
        facts: Sequence[StoredFact],
        row_of: Mapping[int, int],
        called: Mapping[str, Mapping[str, str]],
    ) -> None:
        """row_of: rows by a sentence's number. called: for `topic` and `subtopic`, what each
        `label_key` is called after merging.
        """
        self.facts = list(facts)
        topics = Numbering(lambda name: called["topic"][label_key(name)])
        subtopics = Numbering(lambda name: called["subtopic"][label_key(name)])
        entities = Numbering(entity_key)

        def places(topic: str, subtopic: str) -> Rows:
            pairs = [
                (topics.number(getattr(f, topic)), subtopics.number(getattr(f, subtopic)))
                for f in self.facts
            ]
            return np.array(pairs, dtype=np.int64).reshape(len(pairs), 2)

        self.subject_place = places("subject_topic", "subject_subtopic")
        self.object_place = places("object_topic", "object_subtopic")
        self.subject = _rows(entities.number(fact.subject) for fact in self.facts)
        self.object = _rows(entities.number(fact.object) for fact in self.facts)
        self.sentence = _rows(row_of[fact.sentence] for fact in self.facts)
        self.topics, self.topic_keys = topics.names, topics.keys
        self.subtopics, self.subtopic_keys = subtopics.names, subtopics.keys
        self.entities = entities.names
        both = np.concatenate([self.subject_place, self.object_place])
        self.topic_pairs = _distinct(both)
        ends = np.concatenate([self.subject, self.object])
        self.entity_pairs = _distinct(np.stack([both[:, 1], ends], axis=1))

    def subtopics_of(self, topic: int) -> Rows:
        """Return a topic's subtopics."""
        found: Rows = self.topic_pairs[self.topic_pairs[:, 0] == topic, 1]
        return found

    def sentences_under(self, subtopics: Collection[int]) -> Rows:
        """Return rows of sentences about entities under the subtopics (Algorithm 2, 10 and 11)."""
        under = np.isin(self.entity_pairs[:, 0], list(subtopics))
        is_under = np.zeros(len(self.entities), dtype=bool)
        is_under[self.entity_pairs[under, 1]] = True
        touched = is_under[self.subject] | is_under[self.object]
        found: Rows = np.unique(self.sentence[touched])
        return found

    def statistics(self) -> dict[str, float]:
        """Return the rows of Table 4, and components without topics beside it.

        Shares are of nodes, between 0 and 1; the graph without topics has entities alone.
        """
        topics, subtopics, entities = map(len, (self.topics, self.subtopics, self.entities))
        relations = _distinct(np.stack([self.subject, self.object], axis=1))
        ends = zip(self.subject.tolist(), self.object.tolist(), strict=True)
        triplets = {
            (*pair, entity_key(f.predicate)) for pair, f in zip(ends, self.facts, strict=True)
        }
        entity_ids = topics + subtopics
        edges = [
            (self.topic_pairs[:, 0], topics + self.topic_pairs[:, 1]),
            (topics + self.entity_pairs[:, 0], entity_ids + self.entity_pairs[:, 1]),
            (entity_ids + relations[:, 0], entity_ids + relations[:, 1]),
        ]
        whole = component_sizes(topics + subtopics + entities, edges)
        alone = component_sizes(entities, [(relations[:, 0], relations[:, 1])])
        return {
            "nodes": topics + subtopics + entities,
            "topic nodes": topics,
            "subtopic nodes": subtopics,
            "entity nodes": entities,
            "edges": len(self.topic_pairs) + len(self.entity_pairs) + len(triplets),
            "topic-subtopic edges": len(self.topic_pairs),
            "subtopic-entity edges": len(self.entity_pairs),
            "entity-entity edges": len(triplets),
            "components": len(whole),
            "largest component's share": whole[0] / sum(whole) if whole else 0.0,
            "components without topics": len(alone),
            "largest share without topics": alone[0] / sum(alone) if alone else 0.0,
        }


def entity_key(name: str) -> str:
    """Return a key under which the same entity agrees: no case, spacing folded."""
    return folded(name)


def component_sizes(nodes: int, edges: Iterable[tuple[Rows, Rows]]) -> list[int]:
    """Return the nodes of each connected component, the largest first."""
    if not nodes:
        return []
    ones, others = (np.concatenate(ends) for ends in zip(*edges, strict=True))
    links = coo_array((np.ones(len(ones)), (ones, others)), shape=(nodes, nodes))
    _, component = connected_components(links, directed=False)
    return sorted(np.bincount(component).tolist(), reverse=True)


def _rows(numbers: Iterable[int]) -> Rows:
    return np.fromiter(numbers, dtype=np.int64)


def _distinct(pairs: Rows) -> Rows:
    found: Rows = np.unique(pairs, axis=0).reshape(-1, 2)
    return found


def linked_rows(
    scores: FloatArray,
    most: int,
    weight: float,
    rows: Rows | None,
    entities_of: Callable[[int], set[int]],
    rows_of: Callable[[int], Rows],
) -> list[tuple[int, float]]:
    """Return the `most` best rows and their scores, best first.

    scores: of each row alone, [n]. weight: how far a row is pulled towards the score of the best
    row that it shares an entity with, in [0, 1). rows: those that may be taken; None for all.
    """
    allowed = np.ones(len(scores), dtype=bool)
    if rows is not None:
        allowed[:] = False
        allowed[rows] = True
    nearest = best_rows(scores, most, rows)
    best = {row: float(scores[row]) for row in nearest}
    waiting = [(-score, row) for row, score in best.items()]
    heapq.heapify(waiting)
    taken: dict[int, float] = {}
    reached: set[int] = set()
    while waiting and len(taken) < most:
        negative, row = heapq.heappop(waiting)
        if row in taken:
            continue
        taken[row] = -negative
        # Rows come in falling order, so an entity is reached by its best sentence first.
        for entity in entities_of(row) - reached if weight else ():
            reached.add(entity)
            near = rows_of(entity)
            for other in best_rows(scores, most, near[allowed[near]]):
                score = float(scores[other])
                pulled = score + weight * max(0.0, -negative - score)
                if other not in taken and pulled > best.get(other, -np.inf):
                    best[other] = pulled
                    heapq.heappush(waiting, (-pulled, other))
    return list(taken.items())


class NameFinder:
    """Finds names in a text, word by word, whatever the case and punctuation of the graph's."""

    def __init__(self, names: Sequence[str]) -> None:
        """names: of entities by number; what stands in brackets at an end does not count."""
        self._numbers: dict[tuple[str, ...], list[int]] = {}
        for number, name in enumerate(names):
            words = tuple(_WORD.findall(_BRACKETS.sub("", name).casefold()))
            if words:
                self._numbers.setdefault(words, []).append(number)
        self._longest = max(map(len, self._numbers), default=0)

    def find(self, text: str) -> tuple[int, ...]:
        """Return numbers of the entities that a text names as proper names, the longest at a place.

        A proper name has a capital letter; that of the text's first word alone does not tell.
        """
        words = _WORD.findall(text)
        folded = [word.casefold() for word in words]
        found: dict[int, None] = {}
        place = 0
        while place < len(words):
            length = self._length_at(words, folded, place)
            numbers = self._numbers.get(tuple(folded[place : place + length]), [])
            found.update(dict.fromkeys(numbers))
            place += max(length, 1)
        return tuple(found)

    def _length_at(self, words: Sequence[str], folded: Sequence[str], place: int) -> int:
        """Return the words of the longest name that begins here; 0 for none."""
        for length in range(min(self._longest, len(words) - place), 0, -1):
            is_proper = any(word[0].isupper() for word in words[place : place + length])
            is_first_word = place == 0 and length == 1
            is_name = tuple(folded[place : place + length]) in self._numbers
            if is_name and is_proper and not is_first_word:
                return length
        return 0
