"""Triples in nodes' metadata: batches, order, failures half-way."""

from importlib.metadata import requires
from importlib.resources import files
from typing import Any

import pytest
from llama_index.core.graph_stores.types import (
    KG_NODES_KEY,
    KG_RELATIONS_KEY,
    EntityNode,
    Relation,
)
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import BaseNode, ImageNode, TextNode
from llama_index.extractors.trivium import TriviumBusyError, TriviumError, TriviumTripletExtractor
from packaging.requirements import Requirement
from stand_in import Reply, StandIn, refusal, stand_in_server

CORE = {"httpx", "llama-index-core", "pydantic", "tenacity", "tqdm"}


def extractor(stand_in: StandIn, **settings: Any) -> TriviumTripletExtractor:
    return TriviumTripletExtractor(base_url=stand_in.address, **settings)


def person(number: int) -> TextNode:
    return TextNode(text=f"Ana {number} was born in Brill {number}.")


def relations(node: BaseNode) -> list[tuple[str, str, str]]:
    return [(r.source_id, r.label, r.target_id) for r in node.metadata[KG_RELATIONS_KEY]]


def born(number: int) -> tuple[str, str, str]:
    return (f"Ana {number}", "was born in", f"Brill {number}")


def texts(stand_in: StandIn) -> list[list[str]]:
    return [body["input"] for body in stand_in.bodies]


def test_entities_and_relations_with_the_metadata_as_properties(stand_in: StandIn) -> None:
    node = TextNode(text="Dawn was directed by Ana Lis.", metadata={"year": 1990})
    [same] = extractor(stand_in)([node])
    assert same is node and node.metadata["year"] == 1990
    assert [str(each) for each in node.metadata[KG_NODES_KEY]] == [
        "Dawn ({'year': 1990})",
        "Ana Lis ({'year': 1990})",
    ]
    [relation] = node.metadata[KG_RELATIONS_KEY]
    assert isinstance(relation, Relation) and relation.properties == {"year": 1990}
    assert relations(node) == [("Dawn", "was directed by", "Ana Lis")]
    assert stand_in.bodies == [{"model": "t2t", "input": ["Dawn was directed by Ana Lis."]}]


@pytest.mark.parametrize("workers", [1, 3])
async def test_order_batches_and_requests_at_once(stand_in: StandIn, workers: int) -> None:
    nodes = [person(number) for number in range(10)]
    found = await extractor(stand_in, batch_size=3, num_workers=workers).acall(nodes)
    assert list(found) == nodes
    assert [relations(node) for node in nodes] == [[born(number)] for number in range(10)]
    assert sorted(map(len, texts(stand_in))) == [1, 3, 3, 3]
    assert stand_in.together <= workers


async def test_called_inside_a_running_loop(stand_in: StandIn) -> None:
    [node] = extractor(stand_in)([person(1)])
    assert relations(node) == [born(1)]


def test_a_title_goes_before_its_text(stand_in: StandIn) -> None:
    titled = TextNode(text="It is a film.", metadata={"title": "Dawn", "name": "Sunrise"})
    extractor(stand_in)([titled, person(1)])
    extractor(stand_in, title_key="name")([titled])
    extractor(stand_in, title_key=None)([titled])
    assert texts(stand_in) == [
        [
            {"title": "Dawn", "text": "It is a film."},
            {"title": "", "text": "Ana 1 was born in Brill 1."},
        ],
        [{"title": "Sunrise", "text": "It is a film."}],
        ["It is a film."],
    ]


def test_what_other_extractors_left_stays(stand_in: StandIn) -> None:
    node = person(1)
    there = EntityNode(name="Ana 1", label="person")
    relation = Relation(label="knows", source_id="Ana 1", target_id="Ben")
    node.metadata |= {KG_NODES_KEY: [there], KG_RELATIONS_KEY: [relation]}
    extractor(stand_in)([node])
    extractor(stand_in)([node])
    assert node.metadata[KG_NODES_KEY][0] is there
    assert [each.id for each in node.metadata[KG_NODES_KEY]] == ["Ana 1", "Brill 1"]
    assert relations(node) == [("Ana 1", "knows", "Ben"), born(1)]


def test_nodes_without_text_are_not_asked(stand_in: StandIn) -> None:
    nodes = [TextNode(text=" \n"), person(1), ImageNode(), TextNode(text="No fact.")]
    extractor(stand_in)(nodes)
    assert [relations(node) for node in nodes] == [[], [born(1)], [], []]
    assert texts(stand_in) == [["Ana 1 was born in Brill 1.", "No fact."]]
    assert extractor(stand_in)([]) == [] and len(stand_in.bodies) == 1


def test_a_text_of_several_nodes_is_asked_once(stand_in: StandIn) -> None:
    nodes = [person(1), person(1)]
    extractor(stand_in)(nodes)
    assert [relations(node) for node in nodes] == [[born(1)]] * 2
    assert texts(stand_in) == [["Ana 1 was born in Brill 1."]]


def test_malformed_lines_are_counted(stand_in: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    asked = extractor(stand_in, batch_size=1)
    asked([person(1), TextNode(text="What??."), TextNode(text="Who??. Where??.")])
    assert asked.malformed == 3
    assert "3 lines of t2t were no triples" in caplog.text


def test_a_failure_half_way_loses_nothing(stand_in: StandIn) -> None:
    nodes = [person(number) for number in range(4)]
    asked = extractor(stand_in, batch_size=1, num_workers=1)
    stand_in.replies += [None, None, refusal(500, "the model failed")]
    with pytest.raises(TriviumError, match="answers 500: the model failed") as raised:
        asked(nodes)
    assert "2 of 4 texts have their triples, which are kept" in raised.value.__notes__[0]
    assert [KG_RELATIONS_KEY in node.metadata for node in nodes] == [True, True, False, False]
    assert len(stand_in.bodies) == 3
    asked(nodes)
    assert [relations(node) for node in nodes] == [[born(number)] for number in range(4)]
    assert texts(stand_in)[3:] == [[node.text] for node in nodes[2:]]
    assert len(nodes[0].metadata[KG_NODES_KEY]) == 2


def test_after_a_success_nothing_is_kept(stand_in: StandIn) -> None:
    asked = extractor(stand_in)
    asked([person(1)])
    asked([person(1)])
    assert len(stand_in.bodies) == 2


def test_busy_unreachable_and_unknown(stand_in: StandIn) -> None:
    stand_in.replies.append(refusal(429, "too many wait", Retry_After="0.01"))
    assert relations(extractor(stand_in)([person(1)])[0]) == [born(1)]
    stand_in.replies.append(refusal(429, "too many wait", Retry_After="0.01"))
    with pytest.raises(TriviumBusyError, match="too many wait"):
        extractor(stand_in, max_retries=0)([person(1)])
    with pytest.raises(TriviumError, match=r"no 't3t'; it has: .*t2t \(component\)"):
        extractor(stand_in, model="t3t")([person(1)])
    with stand_in_server() as gone:
        asked = extractor(gone)
    with pytest.raises(TriviumError, match="cannot be reached"):
        asked([person(1)])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<html>", "Invalid JSON"),
        ('{"data": [{"index": 0, "triples": [["a", "b"]]}]}', "data.0.triples.0.2: Field required"),
        ('{"data": []}', r"was given 1 texts and answers for those with the indexes \[\]"),
    ],
)
def test_what_is_no_answer_is_told(stand_in: StandIn, body: str, said: str) -> None:
    stand_in.replies.append(Reply(body=body))
    with pytest.raises(TriviumError, match=said):
        extractor(stand_in)([person(1)])


def test_the_key_is_sent_and_not_shown(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.api_key = "a-secret"
    with pytest.raises(TriviumError, match="401: no such key"):
        extractor(stand_in)([person(1)])
    given = extractor(stand_in, api_key="a-secret")
    assert relations(given([person(1)])[0]) == [born(1)]
    assert "a-secret" not in f"{given!r}{given.to_dict()}"
    monkeypatch.setenv("TRIVIUM_API_KEY", "a-secret")
    assert relations(extractor(stand_in)([person(2)])[0]) == [born(2)]


def test_in_a_pipeline_with_a_cache(stand_in: StandIn) -> None:
    pipeline = IngestionPipeline(transformations=[extractor(stand_in)])
    [node] = pipeline.run(nodes=[person(1)])
    assert relations(node) == [born(1)]


def test_the_distribution_is_typed_and_needs_nothing_beside_the_core() -> None:
    assert files("llama_index.extractors.trivium").joinpath("py.typed").is_file()
    needed = [Requirement(line) for line in requires("llama-index-extractors-trivium") or []]
    assert {each.name for each in needed if each.marker is None} == CORE
