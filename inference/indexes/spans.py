"""Passages read by an extractive reader: what answers a subquery, and which passages do."""

import asyncio
import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path

from inference.indexes.extraction import Payer
from inference.indexes.focused import Extractor, joined
from inference.retrieval.passages import Hit, Passage, Retriever
from models.facts.subqueries import answered_triple, asks_about
from models.files.backbone import default_device, load_tokenizer
from models.formats.prompts import passage_text
from models.formats.triples import Triple
from models.span_reader import Span, SpanReader

# Answers that are kept: those of a few hundred questions, which cost less than a look-up on disk.
KEPT_ANSWERS = 100_000
Pair = tuple[str, str]
logger = logging.getLogger(__name__)


class SpanService:
    """Reads questions with passages in batches, for many threads at once; nothing is read twice.

    What is asked for while a batch is being read joins the next one.
    """

    def __init__(self, reader: SpanReader) -> None:
        self.reader = reader.merged()
        settings = reader.settings
        tokenizer = load_tokenizer(settings.backbone, settings.backbone_revision)
        self.processor = settings.processor(tokenizer)
        self.least_margin = settings.least_margin
        self._known: OrderedDict[bytes, Span] = OrderedDict()
        self._waiting: dict[bytes, Pair] = {}
        self._asking, self._reading = threading.Lock(), threading.Lock()

    @classmethod
    def open(cls, folder: str | Path) -> "SpanService":
        """Load a component folder, onto a GPU where there is one.

        Raises CheckpointError where it holds no extractive reader.
        """
        return cls(SpanReader.from_pretrained(folder, dtype="native").to(default_device()))

    def read(self, subquery: str, passages: Sequence[Passage]) -> list[Span]:
        """Return each passage's best answer, "" where it lies not above that of none.

        Raises what the reader does: a batch of several callers that fails is read in their parts.
        """
        pairs = [(subquery.strip(), passage_text(p.title, p.text)) for p in passages]
        keys = [_key(pair) for pair in pairs]
        with self._asking:
            known = {key: self._known[key] for key in keys if key in self._known}
            own = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in known}
            self._waiting |= own
        if own:
            with self._reading:
                try:
                    known |= self._read_waiting(own)
                finally:
                    with self._asking:
                        for key in own:
                            self._waiting.pop(key, None)
        return [known[key] for key in keys]

    def _read_waiting(self, own: dict[bytes, Pair]) -> dict[bytes, Span]:
        """Read all that waits, and return what was asked for; called by one thread at a time.

        Where that fails, a caller reads its own, and what the others wait for stays with them.
        """
        with self._asking:
            known = {key: self._known[key] for key in own if key in self._known}
            waiting = {k: p for k, p in (self._waiting | own).items() if k not in self._known}
        left = {key: pair for key, pair in own.items() if key not in known}
        if not left:
            return known
        try:
            return known | self._read(waiting)
        except Exception as error:
            if waiting == left:
                raise
            logger.warning("reading for several callers failed (%s); reading for each", error)
            return known | self._read(left)

    def _read(self, pairs: Mapping[bytes, Pair]) -> dict[bytes, Span]:
        """Read pairs, and keep what they came to."""
        spans = self.reader.read(self.processor, list(pairs.values()))
        read = {
            key: span if span.margin > self.least_margin else Span("", span.margin)
            for key, span in zip(pairs, spans, strict=True)
        }
        with self._asking:
            self._known |= read
            while len(self._known) > KEPT_ANSWERS + len(read):
                self._known.popitem(last=False)
        return read

    def forget(self) -> None:
        """Forget what was read."""
        with self._asking:
            self._known.clear()


def _key(pair: Pair) -> bytes:
    """Return what stands for a pair, whose passage may be long."""
    return hashlib.sha256("\0".join(pair).encode("utf-8", "surrogatepass")).digest()


class SpanExtractor:
    """What an extractive reader points at, as triples; subject and predicate come of the subquery.

    A question of several steps has no answer in one passage: of the facts that lead on, `facts`
    writes what it finds. Where no passage has an answer, it reads the likeliest ones again.
    """

    def __init__(self, spans: SpanService, facts: Extractor, read_again: int) -> None:
        """facts: the reader that writes, beside the extractive one or where that finds nothing.

        read_again: passages that it reads where nothing was found; as many as there are, at most.
        """
        self.spans = spans
        self.facts = facts
        self.read_again = read_again

    async def extract(
        self,
        passages: Sequence[Passage],
        payer: Payer | None = None,
        subquery: str = "",
        whole: bool = False,
    ) -> list[list[Triple]]:
        """Return the triples of each passage; none, and no call, for an empty subquery.

        whole: the subquery is the question itself, which may take several steps.
        """
        if not subquery.strip():
            return [[] for _ in passages]
        reading = asyncio.to_thread(self.spans.read, subquery, passages)
        if whole:
            facts = self.facts.extract(passages, payer, subquery)
            spans, written = await asyncio.gather(reading, facts)
            return joined(all_answered(subquery, spans, passages), written)
        spans = await reading
        answers = all_answered(subquery, spans, passages)
        if any(answers):
            return answers
        places = likeliest(spans, self.read_again)
        again = await self.facts.extract([passages[n] for n in places], payer, subquery)
        written_at = dict(zip(places, again, strict=True))
        return [written_at.get(n, []) for n in range(len(passages))]

    def cut(self, passages: Sequence[Passage], subquery: str, whole: bool = False) -> list[Passage]:
        """Return the passages of which the reader that writes is shown a part.

        The extractive one reads longer ones in windows. Called after `extract`, for what it read.
        """
        if whole or not subquery.strip():
            return self.facts.cut(passages, subquery)
        spans = self.spans.read(subquery, passages)
        if any(all_answered(subquery, spans, passages)):
            return []
        again = [passages[place] for place in likeliest(spans, self.read_again)]
        return self.facts.cut(again, subquery)

    def close(self) -> None:
        """Release the files of the facts that were extracted before."""
        self.facts.close()

    def forget(self) -> None:
        """Forget what was read, and the facts that were extracted before."""
        self.spans.forget()
        self.facts.forget()


def likeliest(spans: Sequence[Span], count: int) -> list[int]:
    """Return the places of so many spans, of the highest margins, in their order."""
    return sorted(sorted(range(len(spans)), key=lambda n: -spans[n].margin)[:count])


def all_answered(
    subquery: str, spans: Sequence[Span], passages: Sequence[Passage]
) -> list[list[Triple]]:
    """Return the triples of each passage, see `answered`."""
    return [answered(subquery, s, p) for s, p in zip(spans, passages, strict=True)]


def answered(subquery: str, span: Span, passage: Passage) -> list[Triple]:
    """Return the triple that an answer to a subquery states; none without an answer.

    Nor does what is asked about answer.
    """
    if not span.text or asks_about(subquery, span.text):
        return []
    return [answered_triple(subquery, span.text, passage.title)]


class SpanRanker:
    """Searches deeper than asked, and puts the passages that answer a query first.

    They stand by how far their answer's score lies above that of none; the others follow as they
    were found.
    """

    def __init__(self, retriever: Retriever, spans: SpanService, depth: int) -> None:
        """depth: passages a query that are read, at least those asked for."""
        self.retriever = retriever
        self.spans = spans
        self.depth = depth

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Return at most `top_k` hits a query, best first."""
        found = self.retriever.search(queries, max(self.depth, top_k))
        return [
            answers_first(query, hits, self.spans)[:top_k]
            for query, hits in zip(queries, found, strict=True)
        ]


def answers_first(query: str, hits: Sequence[Hit], spans: SpanService) -> list[Hit]:
    """Return hits with those that answer the query first, by their margins."""
    read = spans.read(query, [hit.passage for hit in hits])
    margins = [span.margin if span.text else float("-inf") for span in read]
    # A stable sort: those without an answer keep their order.
    return [hits[n] for n in sorted(range(len(hits)), key=lambda n: -margins[n])]
