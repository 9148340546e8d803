"""A property graph index over a few nodes, and its graph store read back; no language model."""

import pytest
from llama_index.core import Document, MockEmbedding, PropertyGraphIndex
from llama_index.core.graph_stores.types import TRIPLET_SOURCE_KEY
from llama_index.core.indices.property_graph import ImplicitPathExtractor
from llama_index.core.schema import TextNode
from llama_index.extractors.trivium import TriviumError, TriviumTripletExtractor
from stand_in import COMPONENT, StandIn, refusal

TEXTS = ("Dawn was directed by Ana Lis.", "Ana Lis was born in Brill. Brill is in Vorland.", "")
FACTS = {
    ("Dawn", "was directed by", "Ana Lis"),
    ("Ana Lis", "was born in", "Brill"),
    ("Brill", "is in", "Vorland"),
}


def triplets(index: PropertyGraphIndex) -> set[tuple[str, str, str]]:
    store = index.property_graph_store
    names = [node.id for node in store.get()]
    return {(a.id, relation.label, b.id) for a, relation, b in store.get_triplets(ids=names)}


@pytest.mark.parametrize("use_async", [True, False])
def test_an_index_holds_the_triples(stand_in: StandIn, use_async: bool) -> None:
    nodes = [TextNode(text=text) for text in TEXTS]
    index = PropertyGraphIndex(
        nodes=nodes,
        kg_extractors=[TriviumTripletExtractor(base_url=stand_in.address, batch_size=1)],
        embed_model=MockEmbedding(embed_dim=4),
        use_async=use_async,
    )
    assert triplets(index) == FACTS
    [(subject, relation, _)] = index.property_graph_store.get_triplets(
        relation_names=["was directed by"]
    )
    assert relation.properties[TRIPLET_SOURCE_KEY] == nodes[0].node_id
    assert subject.properties[TRIPLET_SOURCE_KEY] == nodes[0].node_id


def test_beside_another_extractor(stand_in: StandIn) -> None:
    extractors = [
        ImplicitPathExtractor(), TriviumTripletExtractor(base_url=stand_in.address),
    ]  # fmt: skip
    index = PropertyGraphIndex.from_documents(
        [Document(text=text) for text in TEXTS[:2]],
        kg_extractors=extractors,
        embed_model=MockEmbedding(embed_dim=4),
    )
    assert triplets(index) > FACTS


def test_an_index_that_failed_is_built_at_the_second_attempt(stand_in: StandIn) -> None:
    nodes = [TextNode(text=text) for text in TEXTS]
    extractor = TriviumTripletExtractor(base_url=stand_in.address, batch_size=1, num_workers=1)
    stand_in.replies += [None, refusal(500, "the model failed")]
    with pytest.raises(TriviumError, match="the model failed"):
        PropertyGraphIndex(nodes, kg_extractors=[extractor], embed_model=MockEmbedding(embed_dim=4))
    index = PropertyGraphIndex(
        nodes, kg_extractors=[extractor], embed_model=MockEmbedding(embed_dim=4)
    )
    assert triplets(index) == FACTS and len(stand_in.bodies) == 3


def test_a_server_of_any_kind_fills_an_index(address: str) -> None:
    index = PropertyGraphIndex(
        nodes=[TextNode(text=text) for text in TEXTS],
        kg_extractors=[TriviumTripletExtractor(base_url=address, model=COMPONENT)],
        embed_model=MockEmbedding(embed_dim=4),
    )
    assert triplets(index)
