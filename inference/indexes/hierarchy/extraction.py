"""Chunks of whole sentences, and the facts and topics of each in one call (TH-RAG §3.1)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from inference.engines.contract import Completion, Constraint, Engine, Request, Sampling
from inference.indexes.extraction import TripleExtractor
from inference.indexes.hierarchy.kinds import KindTopics
from inference.retrieval.passages import Passage
from models.facts.grounding import Grounding, split_sentences
from models.formats.paper_prompts import Prompts, paper_topic_triplets
from models.formats.prompts import passage_text
from models.formats.topic_triplets import (
    TOPIC_TRIPLETS_INSTRUCTION,
    TopicTriplet,
    parse_topic_triplets,
    topic_triplets_prompt,
    topic_triplets_schema,
)
from models.formats.topics import Topic, parse_topic, topic_prompt
from models.formats.triples import Triple, parse_triples


def chunk_text(
    text: str, max_tokens: int, overlap: int, count_tokens: Callable[[str], int]
) -> list[str]:
    """Return chunks of at most `max_tokens`; each begins with up to `overlap` of the one before.

    A sentence is never cut: one that is longer is a chunk by itself. Blank text is one empty chunk.
    """
    # A token is at least a byte.
    if len(text.encode()) <= max_tokens or count_tokens(text) <= max_tokens:
        return [text.strip()]
    sentences = split_sentences(text)
    sizes = [count_tokens(sentence) for sentence in sentences]
    chunks, start = [], 0
    while start < len(sentences):
        end = _reach(sizes, start, max_tokens)
        chunks.append(" ".join(sentences[start:end]))
        if end == len(sentences):
            break
        start = max(_reach_back(sizes, end, overlap), start + 1)
    return chunks


def _reach(sizes: Sequence[int], start: int, most: int) -> int:
    """Return the first place after `start` where sizes sum to above `most`; at least one on."""
    end, total = start + 1, sizes[start]
    while end < len(sizes) and total + sizes[end] <= most:
        total += sizes[end]
        end += 1
    return end


def _reach_back(sizes: Sequence[int], end: int, most: int) -> int:
    """Return the place before `end` from where the sizes sum to no more than `most`."""
    start, total = end, 0
    while start > 0 and total + sizes[start - 1] <= most:
        start -= 1
        total += sizes[start]
    return start


@dataclass(frozen=True)
class GroundedFact:
    """A fact, the chunk's own sentence that states it, and where its two entities belong."""

    triple: Triple
    sentence: str
    subject: Topic
    object: Topic


@dataclass
class Extracted:
    """The facts of a chunk, the number of those dropped by reason, and the cost."""

    facts: list[GroundedFact] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    completions: list[Completion] = field(default_factory=list)

    def charge(self, completions: Sequence[Completion]) -> None:
        """Take note of calls for facts."""
        self.completions += completions
        cut = sum(done.finish_reason == "length" for done in completions)
        self.dropped["cut off at the token limit"] += cut


class ChunkExtractor(Protocol):
    """Turns a chunk into facts; many chunks at once."""

    async def extract(self, chunk: Passage) -> Extracted:
        """Return the facts of one chunk. Raises EngineError when the model cannot be reached."""
        ...


class PromptedChunkExtractor:
    """Asks the engine's backbone, or an API's model, by the prompt of Table 11."""

    def __init__(
        self,
        engine: Engine,
        topics: KindTopics,
        max_tokens: int = 2048,
        constrain: bool = False,
        prompts: Prompts = "own",
    ) -> None:
        """topics: for what the model gives no topic of. constrain: hold outputs to the schema of
        our prompt's one list; the paper's own asks for an object a triplet.
        """
        self.engine = engine
        self.prompts = prompts
        self.topics = topics
        self.sampling = Sampling(max_new_tokens=max_tokens)
        self.constraint = Constraint(json_schema=topic_triplets_schema()) if constrain else None

    async def extract(self, chunk: Passage) -> Extracted:
        """Return one call."""
        text = passage_text(chunk.title, chunk.text)
        if self.prompts == "paper":
            content = paper_topic_triplets(text)
        else:
            content = f"{TOPIC_TRIPLETS_INSTRUCTION}\n\n{topic_triplets_prompt(text)}".strip()
        request = Request(
            messages=({"role": "user", "content": content},),
            sampling=self.sampling,
            constraint=self.constraint,
        )
        [done] = await self.engine.generate([request])
        parsed = parse_topic_triplets(done.text)
        extracted = Extracted()
        extracted.charge([done])
        extracted.dropped["not a triplet"] += parsed.malformed
        given = self.topics.topics(chunk.title, chunk.text, [t.triple for t in parsed.triplets])
        ground(chunk, parsed.triplets, given, extracted)
        return extracted


class AdapterChunkExtractor:
    """Asks the text-to-triples model, and gives topics by kind or by a trained topic helper."""

    def __init__(
        self,
        triples: TripleExtractor,
        topics: KindTopics,
        topic_request: Callable[[str], Request] | None = None,
    ) -> None:
        """triples: what its cache holds costs no call, whichever index or loop paid for it.
        topic_request: a topic helper's (see `helper_requests`), asked once an entity and chunk;
        `topics` counts where there is none, and where it writes no topic.
        """
        self.triples = triples
        self.topics = topics
        self.topic_request = topic_request

    async def extract(self, chunk: Passage) -> Extracted:
        """At most one call for the triples, and with a topic helper one more for each entity."""
        extracted = Extracted()
        [facts] = await self.triples.extract([chunk], extracted)
        for done in extracted.completions:
            extracted.dropped["not a triplet"] += parse_triples(done.text).malformed
        given = self.topics.topics(chunk.title, chunk.text, facts)
        ground(chunk, [TopicTriplet(fact) for fact in facts], given, extracted)
        if self.topic_request is not None:
            await self._ask_topics(chunk, extracted)
        return extracted

    async def _ask_topics(self, chunk: Passage, extracted: Extracted) -> None:
        """Put the helper's topics in the place of those by kind."""
        assert self.topic_request is not None
        sentences: dict[str, str] = {}
        for fact in extracted.facts:
            for name in (fact.triple.subject, fact.triple.object):
                sentences.setdefault(name, passage_text(chunk.title, fact.sentence))
        prompts = [topic_prompt(name, sentence) for name, sentence in sentences.items()]
        requests = [self.topic_request(prompt) for prompt in prompts]
        answers = await asyncio.gather(*(self.triples.engine.generate([r]) for r in requests))
        extracted.completions += [done for [done] in answers]
        read = {n: parse_topic(done.text) for n, [done] in zip(sentences, answers, strict=True)}
        extracted.dropped["not a topic"] += sum(topic is None for topic in read.values())
        extracted.facts = [
            GroundedFact(
                fact.triple,
                fact.sentence,
                read[fact.triple.subject] or fact.subject,
                read[fact.triple.object] or fact.object,
            )
            for fact in extracted.facts
        ]


def ground(
    chunk: Passage,
    triplets: Sequence[TopicTriplet],
    given: dict[str, Topic],
    extracted: Extracted,
) -> None:
    """Give each triplet its sentence and topics; drop what the chunk does not name."""
    grounding = Grounding(chunk.title, split_sentences(chunk.text))
    for triplet in triplets:
        sentence = grounding.sentence_of(triplet.triple, triplet.sentence)
        if sentence is None:
            extracted.dropped["about things that the chunk does not name"] += 1
            continue
        subject = triplet.subject or given[triplet.triple.subject]
        object_ = triplet.object or given[triplet.triple.object]
        extracted.facts.append(GroundedFact(triplet.triple, sentence, subject, object_))
