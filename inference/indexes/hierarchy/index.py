"""A hierarchy ready for questions: shortlists of topics, and evidence sentences by similarity."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from inference.indexes.hierarchy.build import called_names, check_store, placed_facts
from inference.indexes.hierarchy.graph import NameFinder, TopicGraph, linked_rows
from inference.indexes.hierarchy.store import HierarchyError, HierarchyStore
from inference.retrieval.milvus_client import is_milvus
from inference.retrieval.milvus_vectors import VectorCollection, open_collection
from inference.retrieval.open_retriever import RANK_CONSTANT
from inference.retrieval.passages import Passage, Rows, best_rows, clean_queries
from models.files.sentence_encoder import FloatArray, SentenceEncoder
from models.formats.prompts import passage_text
from models.formats.triples import Triple

NEAREST_SENTENCES = 200
"""Whose topics stand on a shortlist, beside those whose names are near."""
_RANKED = 1000


@dataclass(frozen=True)
class EvidenceSentence:
    """A sentence, the chunk that it stands in, the facts on its edges, and its score."""

    sentence: str
    chunk: Passage
    triples: tuple[Triple, ...]
    score: float


@dataclass(frozen=True)
class ScoredQuestion:
    """Cosines of a question with all sentences, topics and subtopics, [n] each.

    nearest: rows of the sentences whose topics stand on a shortlist, best first. named: entities
    that the question names.
    """

    sentences: FloatArray
    topics: FloatArray
    subtopics: FloatArray
    nearest: tuple[int, ...]
    named: tuple[int, ...] = ()


class HierarchyIndex:
    """The graph with its vectors, in memory; safe for many questions at once."""

    def __init__(
        self,
        graph: TopicGraph,
        encoder: SentenceEncoder,
        sentences: Sequence[tuple[str, Passage]],
        vectors: tuple[FloatArray, FloatArray, FloatArray],
        documents: Sequence[Passage] = (),
    ) -> None:
        """sentences: text and chunk of each row. vectors: of sentences, topics and subtopics.

        documents: all chunks, those without a fact too.
        """
        self.graph = graph
        self.encoder = encoder
        self.sentences = sentences
        self.documents = documents
        self._vectors = vectors
        self._collection: VectorCollection | None = None

    @classmethod
    def load(
        cls, folder: Path, encoder: SentenceEncoder, place: str | Path | None = None
    ) -> "HierarchyIndex":
        """Read what `build_hierarchy.py` wrote.

        place: of the corpus's index; where it is one of Milvus, sentences are searched there.

        Raises:
            HierarchyError: none there, not finished, without a fact, or of another format.
            IndexMismatchError: built with another encoder; names both.
            MilvusError: as `keep_vectors_in`.
        """
        store = HierarchyStore(folder)
        try:
            check_store(store, encoder)
            counts = store.counts()
            waiting = counts["chunks not extracted yet"]
            if waiting or store.vectors.unembedded_sentences():
                raise HierarchyError(
                    f"{folder}: the build was interrupted, {waiting} of {counts['chunks']} chunks "
                    "are not extracted yet. Run inference/build_hierarchy.py again"
                )
            if not counts["facts"]:
                raise HierarchyError(
                    f"{folder}: no fact in {counts['documents']} documents: is this a trained "
                    "indexing model?"
                )
            index = cls._read(store, encoder)
        finally:
            store.close()
        if is_milvus(place):
            index.keep_vectors_in(place)
        return index

    @classmethod
    def _read(cls, store: HierarchyStore, encoder: SentenceEncoder) -> "HierarchyIndex":
        chunks = {chunk.number: chunk.passage for chunk in store.chunks()}
        stored = store.sentences()
        facts = placed_facts(store, encoder)
        row_of = {number: row for row, (number, _, _) in enumerate(stored)}
        graph = TopicGraph(facts, row_of, called_names(store, facts))
        sentences = [(text, chunks[chunk]) for _, chunk, text in stored]
        labels = []
        for level, keys in (("topic", graph.topic_keys), ("subtopic", graph.subtopic_keys)):
            names, vectors = store.vectors.labels(level, encoder.dimension)
            row = {name: place for place, name in enumerate(names)}
            labels.append(vectors[[row[key] for key in keys]])
        own = store.vectors.sentence_vectors(encoder.dimension)
        vectors_of_all = (own, labels[0], labels[1])
        return cls(graph, encoder, sentences, vectors_of_all, list(chunks.values()))

    def keep_vectors_in(self, place: object, renew: bool = False) -> None:
        """Search sentences in Milvus from now on, put there if they are not there yet.

        Topics stay in memory. Of more than 16,384 sentences a question is compared with the
        nearest 16,384. place, renew, raises: see `open_collection`.
        """
        texts = [passage_text(chunk.title, text) for text, chunk in self.sentences]
        own, topics, subtopics = self._vectors
        self._collection = open_collection(
            place, "sentences", texts, lambda: own, self.encoder, renew
        )
        self._vectors = (own[:0], topics, subtopics)

    def score(self, question: str) -> ScoredQuestion:
        """Compare a question with everything, once for all steps of an answer."""
        [vector] = self.encoder.encode(clean_queries([question]))
        sentences, topics, subtopics = (vectors @ vector for vectors in self._vectors)
        if self._collection is not None:
            sentences = self._collection.similarities(vector)
        nearest = best_rows(sentences, NEAREST_SENTENCES)
        named = self._names.find(question)
        return ScoredQuestion(sentences, topics, subtopics, tuple(nearest), named)

    def shortlist_topics(self, scored: ScoredQuestion, most: int) -> list[int]:
        """Return the topics nearest to a question by their names and sentences, best first."""
        return self._shortlist(scored, scored.topics, None, 0, most)

    def shortlist_subtopics(self, scored: ScoredQuestion, topic: int, most: int) -> list[int]:
        """Return the same for the subtopics of one topic."""
        allowed = self.graph.subtopics_of(topic)
        return self._shortlist(scored, scored.subtopics, allowed, 1, most)

    def _shortlist(
        self, scored: ScoredQuestion, own: FloatArray, allowed: Rows | None, level: int, most: int
    ) -> list[int]:
        """Reciprocal-rank fusion of two rankings: by name, and by the nearest sentences.

        allowed: None for all.
        """
        inside = None if allowed is None else set(allowed.tolist())
        nearby = [n for n in self._places_nearby(scored, level) if inside is None or n in inside]
        points: dict[int, float] = {}
        for ranking in (best_rows(own, max(most, _RANKED), allowed), nearby):
            for rank, number in enumerate(ranking, start=1):
                points[number] = points.get(number, 0.0) + 1 / (RANK_CONSTANT + rank)
        return sorted(points, key=lambda number: -points[number])[:most]

    def _places_nearby(self, scored: ScoredQuestion, level: int) -> list[int]:
        """Return topics (level 0) or subtopics (1) of the nearest sentences, in their order."""
        places = (self.graph.subject_place, self.graph.object_place)
        numbers = (
            int(place[fact, level])
            for row in scored.nearest
            for fact in self.facts_of[row]
            for place in places
        )
        return list(dict.fromkeys(numbers))

    @cached_property
    def facts_of(self) -> list[list[int]]:
        """The facts on the edges of each sentence."""
        facts: list[list[int]] = [[] for _ in self.sentences]
        for fact, row in enumerate(self.graph.sentence.tolist()):
            facts[row].append(fact)
        return facts

    def evidence(
        self,
        scored: ScoredQuestion,
        subtopics: Collection[int] | None,
        most: int,
        link_weight: float = 0.0,
        name_weight: float = 0.0,
    ) -> list[EvidenceSentence]:
        """Return the best sentences of those under the subtopics (Algorithm 2, lines 10 to 13).

        subtopics: None for all sentences, which is Table 7's "w/o Traversal". link_weight: see
        `linked_rows`. name_weight: what a sentence gains whose fact is about an entity that the
        question names. With both 0 sentences are ranked by cosine alone, as the paper does.
        """
        rows = None if subtopics is None else self.graph.sentences_under(subtopics)
        scores = scored.sentences.copy()
        if name_weight and scored.named:
            about = np.concatenate([self._rows_of(entity) for entity in scored.named])
            scores[np.unique(about)] += name_weight
        found = linked_rows(scores, most, link_weight, rows, self._entities_of, self._rows_of)
        return [self._evidence(row, score) for row, score in found]

    @cached_property
    def _names(self) -> NameFinder:
        return NameFinder(self.graph.entities)

    def _entities_of(self, row: int) -> set[int]:
        ends = (self.graph.subject, self.graph.object)
        return {int(end[fact]) for fact in self.facts_of[row] for end in ends}

    def _rows_of(self, entity: int) -> Rows:
        pairs, starts = self._rows_by_entity
        found: Rows = pairs[starts[entity] : starts[entity + 1], 1]
        return found

    @cached_property
    def _rows_by_entity(self) -> tuple[Rows, Rows]:
        """Entities and the rows that name them, [n, 2] by entity, and where each begins."""
        graph = self.graph
        ends = np.concatenate([graph.subject, graph.object])
        pairs = np.unique(np.stack([ends, np.tile(graph.sentence, 2)], axis=1), axis=0)
        return pairs, np.searchsorted(pairs[:, 0], np.arange(len(graph.entities) + 1))

    def _evidence(self, row: int, score: float) -> EvidenceSentence:
        text, chunk = self.sentences[row]
        facts = (self.graph.facts[fact] for fact in self.facts_of[row])
        triples = tuple(Triple(fact.subject, fact.predicate, fact.object) for fact in facts)
        return EvidenceSentence(text, chunk, triples, score)
