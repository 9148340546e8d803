"""The triples that a Trivium server's text-to-triples component reads in nodes, as a graph's."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from llama_index.core.async_utils import asyncio_run
from llama_index.core.bridge.pydantic import BaseModel, Field, PrivateAttr, SecretStr
from llama_index.core.graph_stores.types import (
    KG_NODES_KEY,
    KG_RELATIONS_KEY,
    EntityNode,
    LabelledNode,
    Relation,
)
from llama_index.core.schema import BaseNode, MetadataMode, TransformComponent
from llama_index.extractors.trivium.client import (
    API_KEY_VARIABLE,
    DEFAULT_BASE_URL,
    DEFAULT_MAX_RETRIES,
    DEFAULT_TIMEOUT,
    TriviumClient,
    TriviumError,
)
from tqdm import tqdm

logger = logging.getLogger(__name__)

Triple = tuple[str, str, str]


class Passage(NamedTuple):
    """What is asked about a node."""

    title: str
    text: str


class TextTriples(BaseModel):
    """The triples of one text; malformed: what the model wrote beside them."""

    index: int
    triples: list[Triple]
    malformed: int = 0


class TriplesAnswer(BaseModel):
    """The body that POST /v1/triples answers with."""

    data: list[TextTriples]


class TriviumTripletExtractor(TransformComponent):
    """Reads triples in nodes, for `PropertyGraphIndex(kg_extractors=[...])`.

    A node's entities and relations go into its metadata beside those that other extractors left
    there; one that is there already is not added again. A node without text gets empty lists.

    Where the server fails half-way, `TriviumError` is raised. The nodes whose triples came have
    them, and the extractor keeps these triples: called again, it asks for the rest alone.
    """

    base_url: str = Field(default=DEFAULT_BASE_URL, description="The server's address with /v1.")
    model: str = Field(default="t2t", description="The server's text-to-triples component.")
    api_key: SecretStr | None = Field(
        default=None,
        exclude=True,
        description="The server's key; TRIVIUM_API_KEY where it is not given.",
    )
    batch_size: int = Field(default=16, ge=1, description="Texts in one request.")
    num_workers: int = Field(default=4, ge=1, description="The most requests at once.")
    timeout: float = Field(
        default=DEFAULT_TIMEOUT, gt=0, description="Seconds to wait for a request's answer."
    )
    max_retries: int = Field(
        default=DEFAULT_MAX_RETRIES,
        ge=0,
        description="How often a request is repeated that the server is too busy for (429, 503).",
    )
    title_key: str | None = Field(
        default="title",
        description="The key of a node's metadata with the title that its text goes under.",
    )
    _malformed: int = PrivateAttr(default=0)
    _kept: dict[Passage, list[Triple]] = PrivateAttr(default_factory=dict)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that serialization knows it by."""
        return "TriviumTripletExtractor"

    @property
    def malformed(self) -> int:
        """How many lines of the model's outputs so far were no triple, and left out."""
        return self._malformed

    def __call__(
        self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any
    ) -> Sequence[BaseNode]:
        """Add triples to the nodes; raises TriviumError."""
        extracted: Sequence[BaseNode] = asyncio_run(self.acall(nodes, show_progress, **kwargs))
        return extracted

    async def acall(
        self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any
    ) -> Sequence[BaseNode]:
        """Add triples to the nodes; raises TriviumError."""
        passages = [self._passage(node) for node in nodes]
        # A text that several nodes share is asked once.
        wanted = dict.fromkeys(passage for passage in passages if passage.text)
        triples = {passage: self._kept[passage] for passage in wanted if passage in self._kept}
        missing = [passage for passage in wanted if passage not in triples]
        failure = await self._ask(missing, triples, show_progress)
        for node, passage in zip(nodes, passages, strict=True):
            if passage in triples or not passage.text:
                add_triples(node, triples.get(passage, []))
        if failure:
            failure.add_note(
                f"{len(triples)} of {len(wanted)} texts have their triples, which are kept: "
                "call the extractor again to ask for the rest"
            )
            raise failure
        for passage in wanted:
            self._kept.pop(passage, None)
        return nodes

    async def _ask(
        self,
        passages: Sequence[Passage],
        triples: dict[Passage, list[Triple]],
        show_progress: bool,
    ) -> TriviumError | None:
        """Fill in the passages' triples; return what ended it early, if anything did."""
        client, before = self._client(), self._malformed
        batches = _batches(passages, self.batch_size)
        failures: list[TriviumError] = []
        progress = tqdm(total=len(passages), desc="Extracting triples", disable=not show_progress)

        async def work() -> None:
            for batch in batches:
                if failures:
                    return
                try:
                    found = await self._triples_of(client, batch)
                except TriviumError as error:
                    failures.append(error)
                    return
                triples.update(found)
                self._kept.update(found)
                progress.update(len(batch))

        with progress:
            await asyncio.gather(*(work() for _ in range(self.num_workers)))
        if self._malformed > before:
            logger.warning("%d lines of %s were no triples", self._malformed - before, self.model)
        return failures[0] if failures else None

    async def _triples_of(
        self, client: TriviumClient, batch: Sequence[Passage]
    ) -> dict[Passage, list[Triple]]:
        answer = await client.apost("triples", self._body(batch), TriplesAnswer)
        by_index = {one.index: one for one in answer.data}
        if sorted(by_index) != list(range(len(batch))):
            raise TriviumError(
                f"{self.base_url} was given {len(batch)} texts and answers for those with the "
                f"indexes {sorted(by_index)}"
            )
        self._malformed += sum(one.malformed for one in answer.data)
        return {passage: by_index[index].triples for index, passage in enumerate(batch)}

    def _client(self) -> TriviumClient:
        given = self.api_key.get_secret_value() if self.api_key else None
        key = given or os.environ.get(API_KEY_VARIABLE)
        return TriviumClient(self.base_url, key, self.timeout, self.max_retries)

    def _body(self, batch: Sequence[Passage]) -> dict[str, Any]:
        titled = any(passage.title for passage in batch)
        texts = [passage._asdict() if titled else passage.text for passage in batch]
        return {"model": self.model, "input": texts}

    def _passage(self, node: BaseNode) -> Passage:
        title = node.metadata.get(self.title_key) if self.title_key else None
        # Metadata that other modes put in front of a text is no text that states anything.
        text = node.get_content(metadata_mode=MetadataMode.NONE)
        return Passage(str(title or ""), text.strip())


def add_triples(node: BaseNode, triples: Sequence[Triple]) -> None:
    """Add entities and relations to a node's metadata, each with the other metadata as properties.

    What is there stays, and an entity or relation that is there is not added again.
    """
    entities: list[LabelledNode] = node.metadata.pop(KG_NODES_KEY, [])
    relations: list[Relation] = node.metadata.pop(KG_RELATIONS_KEY, [])
    properties = dict(node.metadata)
    names = {entity.id for entity in entities}
    stated = {(each.source_id, each.label, each.target_id) for each in relations}
    for subject, predicate, object_ in triples:
        ends = [EntityNode(name=name, properties=dict(properties)) for name in (subject, object_)]
        source, target = (end.id for end in ends)
        for end in ends:
            if end.id not in names:
                names.add(end.id)
                entities.append(end)
        if (source, predicate, target) not in stated:
            stated.add((source, predicate, target))
            relations.append(
                Relation(
                    label=predicate,
                    source_id=source,
                    target_id=target,
                    properties=dict(properties),
                )
            )
    node.metadata[KG_NODES_KEY] = entities
    node.metadata[KG_RELATIONS_KEY] = relations


def _batches(passages: Sequence[Passage], size: int) -> Iterator[list[Passage]]:
    left = iter(passages)
    while batch := list(itertools.islice(left, size)):
        yield batch
