"""A graph in other tools' files: what they read back is what was there, passages too."""

import csv
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import networkx
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
import rdflib
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import inference.export_graph
from inference.exports.graph_files import (
    BASE,
    write_graphml,
    write_neo4j,
    write_node_link,
    write_nquads,
    write_parquet,
    write_turtle,
)
from inference.exports.graph_sources import Edge, edges_of
from inference.indexes.propositions.index import PropositionIndex
from inference.indexes.propositions.parts import Document
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.records import TriplesSample, write_records
from models.formats.triples import Triple
from tests.inference.test_hierarchy import ANA, DAWN, add
from tests.run_main import json_runner, run_main

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:rdflib")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
PAIRS = st.lists(st.tuples(st.builds(Triple, TEXTS, TEXTS, TEXTS), TEXTS | st.just("")), min_size=1)
EACH = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
DIRECTOR = Triple("Dawn", "director", "Ana Lis")
BIRTHPLACE = Triple("Ana Lis", "place of birth", "Brill")
Statements = set[tuple[str, str, str, tuple[str, ...]]]


def statements(edges: list[Edge]) -> Statements:
    return {(e.triple.subject, e.triple.predicate, e.triple.object, e.passages) for e in edges}


def test_a_triple_stands_once_with_all_its_passages() -> None:
    found = [(DIRECTOR, "1"), (BIRTHPLACE, "2"), (DIRECTOR, "3"), (DIRECTOR, "1"), (DIRECTOR, "")]
    assert edges_of(found) == [Edge(DIRECTOR, ("1", "3")), Edge(BIRTHPLACE, ("2",))]


@EACH
@given(pairs=PAIRS)
def test_parquet_and_node_link_read_back(pairs: list[tuple[Triple, str]], tmp_path: Path) -> None:
    edges = edges_of(pairs)
    write_parquet(edges, tmp_path / "graph.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "graph.parquet").to_pylist()
    assert {(*list(row.values())[:3], tuple(row["passages"])) for row in rows} == statements(edges)
    write_node_link(edges, tmp_path / "graph.json")
    data = json.loads((tmp_path / "graph.json").read_text(encoding="utf-8"))
    graph = networkx.node_link_graph(data, edges="links")
    assert of_networkx(graph) == statements(edges)


def of_networkx(graph: Any) -> Statements:
    return {
        (one, data["predicate"], other, tuple(data["passages"]))
        for one, other, data in graph.edges(data=True)
    }


@EACH
@given(pairs=PAIRS)
def test_graphml_is_read_by_networkx(pairs: list[tuple[Triple, str]], tmp_path: Path) -> None:
    edges = edges_of(pairs)
    write_graphml(edges, tmp_path / "graph.graphml")
    graph = networkx.read_graphml(tmp_path / "graph.graphml", force_multigraph=True)
    read = {
        (one, data["predicate"], other, tuple(json.loads(data["passages"])))
        for one, other, data in graph.edges(data=True)
    }
    plain = {text for row in statements(edges) for part in row for text in part}
    if all(character.isprintable() for text in plain for character in text):
        assert read == statements(edges)
    assert len(graph.edges) == len(edges)


def term(iri: Any, kind: str) -> str:
    prefix = f"{BASE}{kind}:"
    assert str(iri).startswith(prefix)
    return unquote(str(iri).removeprefix(prefix))


@EACH
@given(pairs=PAIRS)
def test_rdf_is_read_by_rdflib(pairs: list[tuple[Triple, str]], tmp_path: Path) -> None:
    edges = edges_of(pairs)
    write_nquads(edges, tmp_path / "graph.nq")
    dataset = rdflib.Dataset()
    dataset.parse(tmp_path / "graph.nq", format="nquads")
    read: dict[tuple[str, str, str], set[str]] = {}
    for subject, predicate, object_, graph in dataset.quads():
        if predicate != rdflib.RDFS.label:
            triple = term(subject, "entity"), term(predicate, "relation"), term(object_, "entity")
            is_default = graph is None or graph == rdflib.graph.DATASET_DEFAULT_GRAPH_ID
            read.setdefault(triple, set()).update(() if is_default else {term(graph, "passage")})
    assert read == {
        (e.triple.subject, e.triple.predicate, e.triple.object): set(e.passages) for e in edges
    }
    write_turtle(edges, tmp_path / "graph.ttl")
    turtle = rdflib.Graph().parse(tmp_path / "graph.ttl")
    told = {}
    for statement in turtle.subjects(rdflib.RDF.type, rdflib.RDF.Statement):
        parts = [turtle.value(statement, part) for part in
                 (rdflib.RDF.subject, rdflib.RDF.predicate, rdflib.RDF.object)]  # fmt: skip
        assert tuple(parts) in turtle
        kinds = ("entity", "relation", "entity")
        triple = tuple(term(p, kind) for p, kind in zip(parts, kinds, strict=True))
        derived = turtle.objects(statement, rdflib.PROV.wasDerivedFrom)
        told[triple] = {term(passage, "passage") for passage in derived}
    assert told == read


def test_neo4j_s_importer_gets_nodes_and_relationships(tmp_path: Path) -> None:
    edges = [Edge(DIRECTOR, ("1", "3")), Edge(Triple('A "quoted", name', "is", "Dawn"), ())]
    write_neo4j(edges, tmp_path / "neo4j")
    nodes, relationships = (
        list(csv.reader((tmp_path / "neo4j" / f"{name}.csv").open(encoding="utf-8")))
        for name in ("nodes", "relationships")
    )
    assert nodes == [
        ["entity:ID", "name", ":LABEL"],
        ["0", "Dawn", "Entity"],
        ["1", "Ana Lis", "Entity"],
        ["2", 'A "quoted", name', "Entity"],
    ]
    assert relationships == [
        [":START_ID", ":END_ID", ":TYPE", "predicate", "passages:string[]"],
        ["0", "1", "FACT", "director", "1;3"],
        ["2", "0", "FACT", "is", ""],
    ]


# Where triples come from.


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Path]:
    write_records(tmp_path / "triples.jsonl", [
        TriplesSample("d1", "Dawn: ...", [DIRECTOR]), TriplesSample("d2", "Ana: ...", [BIRTHPLACE]),
    ])  # fmt: skip
    index = PropositionIndex(load_sentence_encoder("hash"))
    part = index.add([Document("d1", "k1", (DIRECTOR,)), Document("d2", "k2", (BIRTHPLACE,))])
    index.save_part(tmp_path / "propositions", part, "test")
    add(tmp_path / "hierarchy", [DAWN, ANA])
    trace = {"steps": [
        {"triples": [["Dawn", "director", "Ana Lis"], ["Ana Lis", "place of birth", "Brill"]],
         "citations": [{"passage": "d1"}, {"passage": "d2"}]},
    ]}  # fmt: skip
    (tmp_path / "traces.jsonl").write_text(json.dumps(trace) + "\n", encoding="utf-8")
    names = ("triples.jsonl", "propositions", "hierarchy", "traces.jsonl")
    return {name.removesuffix(".jsonl"): tmp_path / name for name in names}


@pytest.mark.parametrize("source", ["triples", "propositions", "hierarchy", "traces"])
@pytest.mark.parametrize("to", ["neo4j", "graphml", "nquads", "turtle", "parquet", "node-link"])
def test_the_command_takes_each_source_to_each_format(
    source: str, to: str, sources: dict[str, Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    export = json_runner(monkeypatch, capsys, tmp_path)
    counts = export(inference.export_graph.main, f"--{source}", sources[source], "--to", to,
                    "--out", tmp_path / "out" / "graph")  # fmt: skip
    assert counts == {"triples": 2, "entities": 3, "passages": 2, "triples without a passage": 0}
    assert (tmp_path / "out" / "graph").exists()


@pytest.mark.parametrize(
    ("option", "content", "why"),
    [
        ("--triples", '{"id": "1", "text": "t", "triples": []}\n', "holds no triple"),
        ("--traces", '{"no": "trace"}\n', "is no trace"),
        ("--propositions", None, "holds no propositions: name the folder"),
        ("--hierarchy", None, "holds no hierarchy"),
    ],
)
def test_what_holds_no_graph_is_refused(
    option: str, content: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "source"
    if content is None:
        path.mkdir()
    else:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(SystemExit, match=why):
        run_main(monkeypatch, inference.export_graph.main, option, path, "--to", "turtle",
                 "--out", tmp_path / "graph.ttl")  # fmt: skip
    assert not (tmp_path / "graph.ttl").exists()


def test_without_rdflib_it_is_named(
    sources: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rdflib", None)
    with pytest.raises(SystemExit, match=r"pip install 'trivium-rag\[rdf\]'"):
        run_main(monkeypatch, inference.export_graph.main, "--triples", sources["triples"],
                 "--to", "nquads", "--out", tmp_path / "graph.nq")  # fmt: skip
