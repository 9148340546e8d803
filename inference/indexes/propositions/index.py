"""The proposition index: facts searched one by one, and the passages behind them (T²RAG §4.2)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from inference.indexes.growing import new_documents
from inference.indexes.propositions.parts import (
    REMEDY,
    Document,
    Part,
    PropositionIndexError,
    about_of,
    part_folders,
    read_part,
    write_part,
)
from inference.retrieval.milvus_client import is_milvus
from inference.retrieval.milvus_vectors import VectorCollection, open_collection
from inference.retrieval.passages import Passage, Retriever, clean_queries
from inference.retrieval.vectors import VectorIndex
from models.files.sentence_encoder import FloatArray, SentenceEncoder
from models.formats.passages import passage_key
from models.formats.planning import one_line
from models.formats.triples import Triple

FIRST_DEPTH = 64
# Closer similarities count as equal: how texts were batched for the encoder decides nothing.
SCORE_DECIMALS = 5


@dataclass
class Proposition:
    """A fact as it was first written, and the ids of all passages that state it, in order."""

    fact: Triple
    sources: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return what is embedded, see `proposition_text`."""
        return proposition_text(self.fact)


def proposition_text(fact: Triple) -> str:
    """Return a fact verbalised: "subject predicate object" (T²RAG §4.2, Triplet Embedding)."""
    return one_line(" ".join((fact.subject, fact.predicate, fact.object)))


class PropositionTable:
    """Propositions in the order in which they were first stated; letter case tells none apart."""

    def __init__(self) -> None:
        self.propositions: list[Proposition] = []
        self._by_key: dict[str, Proposition] = {}

    def add(self, source: str, facts: Iterable[Triple]) -> list[Proposition]:
        """Add all that a passage states; returns the propositions that are new."""
        new = []
        for fact in facts:
            key = proposition_text(fact).casefold()
            known = self._by_key.get(key)
            if known is None:
                known = self._by_key[key] = Proposition(fact)
                self.propositions.append(known)
                new.append(known)
            if known.sources[-1:] != [source]:
                known.sources.append(source)
        return new


class PropositionIndex:
    """Propositions under one sentence encoder, searched exactly by cosine similarity.

    documents: hashes of the passages' texts by id.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder
        self.documents: dict[str, str] = {}
        self.table = PropositionTable()
        self._vectors: VectorIndex | VectorCollection = VectorIndex(encoder.dimension)

    @property
    def propositions(self) -> list[Proposition]:
        """All of them, in the order in which they were first stated."""
        return self.table.propositions

    def missing(self, corpus: Sequence[Passage]) -> list[Passage]:
        """Return the documents that are to be added, each id once.

        Raises:
            DuplicateDocumentError: an id that stands for two texts, there or in the corpus.
        """
        return new_documents(corpus, self.documents.get, passage_key)

    def add(self, documents: Sequence[Document]) -> Part:
        """Add passages; only propositions that are new are embedded.

        Returns the addition, for `write_part`. Raises ValueError for an id that is there already.
        """
        assert isinstance(self._vectors, VectorIndex)
        new = self._enter(documents)
        vectors = self.encoder.encode([proposition.text for proposition in new])
        self._vectors.add(vectors)
        return Part(documents, vectors)

    def _enter(self, documents: Sequence[Document]) -> list[Proposition]:
        new: list[Proposition] = []
        for document in documents:
            if document.id in self.documents:
                raise ValueError(f"document '{document.id}' is in the index already")
            self.documents[document.id] = document.key
            new += self.table.add(document.id, document.triples)
        return new

    def embed(self, queries: Sequence[str]) -> FloatArray:
        """Return the queries as vectors [n, d]; plan tags are left out."""
        return self.encoder.encode(clean_queries(queries))

    def nearest(self, vectors: FloatArray, depth: int) -> list[list[tuple[int, float]]]:
        """For each vector [n, d] the rows of the closest propositions with their similarity.

        Best first; equal ones in the index's order. No more than `depth`.
        """
        return self._vectors.nearest(vectors, depth)

    def keep_vectors_in(self, place: object, renew: bool = False) -> None:
        """Search in Milvus from now on, where the vectors are put if they are not there yet.

        Nothing can be added then. place, renew, raises: see `open_collection`.
        """
        assert isinstance(self._vectors, VectorIndex)
        texts = [proposition.text for proposition in self.propositions]
        self._vectors = open_collection(
            place, "propositions", texts, self._vectors.vectors, self.encoder, renew
        )

    def save_part(self, folder: Path, part: Part, extractor: str) -> None:
        """Write an addition beside the earlier ones."""
        write_part(folder, part, about_of(self.encoder, extractor))

    @classmethod
    def load(
        cls, folder: Path, encoder: SentenceEncoder, extractor: str | None = None
    ) -> "PropositionIndex":
        """Read every part of a folder; none gives an empty index.

        extractor: None takes the triples of any.

        Raises:
            IndexMismatchError: a part of another format version, encoder or extractor.
            PropositionIndexError: a part that is not whole.
        """
        expected = about_of(encoder, extractor or "")
        if extractor is None:
            del expected["extractor"]
        index, vectors = cls(encoder), VectorIndex(encoder.dimension)
        for path in part_folders(folder):
            part = read_part(path, expected)
            new = index._enter(part.documents)
            if part.vectors.shape != (len(new), encoder.dimension):
                raise PropositionIndexError(
                    f"{path}: {len(new)} propositions have vectors of the form "
                    f"{part.vectors.shape}. {REMEDY}"
                )
            vectors.add(part.vectors)
        index._vectors = vectors
        return index


def open_index(
    folder: Path, encoder: SentenceEncoder, place: str | Path | None = None
) -> PropositionIndex:
    """Return the index of a folder, to answer from.

    place: of the corpus's index; where it is one of Milvus, the vectors are searched there.

    Raises PropositionIndexError where the folder holds none, or none with a proposition, and what
    `PropositionIndex.load` and `keep_vectors_in` raise.
    """
    index = PropositionIndex.load(folder, encoder)
    if not index.propositions:
        raise PropositionIndexError(
            f"{folder}: holds no proposition. Run inference/build_propositions.py, or run it again "
            "where it was interrupted"
        )
    if is_milvus(place):
        index.keep_vectors_in(place)
    return index


@dataclass
class Found:
    """The outcome of a search, best first; `facts` is empty where passages were searched."""

    facts: list[Triple] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)


class Search(Protocol):
    """Finds what helps with several queries at once."""

    def find(self, queries: Sequence[str], top_k: int) -> Found:
        """Return what helps, down to the `top_k`-th distinct passage of all queries together."""
        ...


class PropositionSearch:
    """Searches propositions and follows them to their passages (T²RAG §4.3 step 2.1)."""

    def __init__(self, index: PropositionIndex, passages: Mapping[str, Passage]) -> None:
        """passages: by id, in the corpus's order; every source of a proposition is among them."""
        self.index = index
        self.passages = passages
        self._place = {name: place for place, name in enumerate(passages)}

    def find(self, queries: Sequence[str], top_k: int) -> Found:
        """Return the candidates of all queries in one ranking, down to the `top_k`-th passage.

        A proposition that several passages state counts for as many of them as there is room for,
        the corpus's first ones first. In whatever order the index was added to, the outcome is one.
        """
        found, sources = Found(), dict[str, None]()
        for row in ranked(self.index, queries):
            if len(sources) >= top_k:
                break
            proposition = self.index.propositions[row]
            found.facts.append(proposition.fact)
            fresh = [source for source in proposition.sources if source not in sources]
            room = top_k - len(sources)
            sources.update(dict.fromkeys(sorted(fresh, key=self._place.__getitem__)[:room]))
        found.passages = [self.passages[source] for source in sources]
        return found


def ranked(
    index: PropositionIndex, queries: Sequence[str], first_depth: int = FIRST_DEPTH
) -> Iterator[int]:
    """Yield rows by their best similarity to any query, each once, as far as is asked for.

    The same ranking as over the whole index: a row is given only once no query can still have a
    closer one beyond the depth that was searched. Those of equal similarity come in the order of
    their texts.
    """
    vectors = index.embed(queries)
    given: set[int] = set()
    depth = first_depth
    while True:
        rankings = index.nearest(vectors, depth)
        is_whole = depth >= len(index.propositions)
        best: dict[int, float] = {}
        edge = -1.0
        for ranking in rankings:
            scores = [round(score, SCORE_DECIMALS) for _, score in ranking]
            edge = max([edge, *scores[-1:]])
            for (row, _), score in zip(ranking, scores, strict=True):
                best[row] = max(best.get(row, score), score)
        for row in sorted(best, key=lambda row: (-best[row], index.propositions[row].text)):
            if row not in given and (is_whole or best[row] > edge):
                given.add(row)
                yield row
        if is_whole:
            return
        depth *= 4


class PassageSearch:
    """Searches passages themselves: the ablation without propositions (T²RAG App. B.5)."""

    def __init__(self, retriever: Retriever) -> None:
        self.retriever = retriever

    def find(self, queries: Sequence[str], top_k: int) -> Found:
        """Return the best passages of all queries in one ranking, each once."""
        hits = [hit for found in self.retriever.search(queries, top_k) for hit in found]
        hits.sort(key=lambda hit: -hit.score)
        passages = {hit.passage.id: hit.passage for hit in hits}
        return Found(passages=list(passages.values())[:top_k])
