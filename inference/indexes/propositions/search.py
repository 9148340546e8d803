"""The retrieval of T²RAG's rounds: propositions and passages, as many as k passages take (T²RAG
§4.3 step 2.1, Algorithm 2).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from inference.indexes.propositions.index import PropositionIndex
from inference.retrieval.passages import Passage, Retriever
from models.formats.triples import Triple

FIRST_DEPTH = 64
# Closer similarities count as equal: how texts were batched for the encoder decides nothing.
SCORE_DECIMALS = 5


@dataclass
class Found:
    """The outcome of a search, best first; `facts` is empty where passages were searched
    themselves.
    """

    facts: list[Triple] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)


class Search(Protocol):
    """Finds what helps with several queries at once."""

    def find(self, queries: Sequence[str], top_k: int) -> Found:
        """Until `top_k` distinct passages are found for all queries together, or there are no
        more."""
        ...


class PropositionSearch:
    """Searches propositions and follows them to their passages."""

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
    """Yield rows of the index by their best similarity to any query, each once, as far as is asked
    for.

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
