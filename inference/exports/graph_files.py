"""A graph of triples as files of other tools, each triple with its passages.

Entities are told apart by their text. An IRI is `BASE` and the text, percent-encoded.
"""

import csv
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from common.errors import UserError
from common.files import atomic_write
from inference.exports.graph_sources import Edge

if TYPE_CHECKING:
    import networkx

BASE = "urn:trivium:"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
Writer = Callable[[Sequence[Edge], Path], None]


class GraphFormatError(UserError, RuntimeError):
    """A format whose library is not installed; the message says how it is."""


def entities(edges: Sequence[Edge]) -> list[str]:
    """Return all subjects and objects, each once, in the order found."""
    names = (name for edge in edges for name in (edge.triple.subject, edge.triple.object))
    return list(dict.fromkeys(names))


def write_neo4j(edges: Sequence[Edge], out: Path) -> None:
    """Write nodes.csv and relationships.csv for `neo4j-admin database import` into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    number = {name: place for place, name in enumerate(entities(edges))}
    with atomic_write(out / "nodes.csv") as handle:
        rows = csv.writer(handle, lineterminator="\n")
        rows.writerow(["entity:ID", "name", ":LABEL"])
        rows.writerows([place, name, "Entity"] for name, place in number.items())
    with atomic_write(out / "relationships.csv") as handle:
        rows = csv.writer(handle, lineterminator="\n")
        rows.writerow([":START_ID", ":END_ID", ":TYPE", "predicate", "passages:string[]"])
        for edge in edges:
            triple = edge.triple
            ends = number[triple.subject], number[triple.object]
            # The importer splits an array at its semicolons.
            passages = ";".join(passage.replace(";", ",") for passage in edge.passages)
            rows.writerow([*ends, "FACT", triple.predicate, passages])


def as_networkx(edges: Sequence[Edge]) -> "networkx.MultiDiGraph[str]":
    """Return the graph: nodes by name, edges with `predicate` and `passages`, a list."""
    import networkx

    graph: networkx.MultiDiGraph[str] = networkx.MultiDiGraph()
    graph.add_nodes_from(entities(edges))
    for edge in edges:
        triple, passages = edge.triple, list(edge.passages)
        graph.add_edge(triple.subject, triple.object, predicate=triple.predicate, passages=passages)
    return graph


def write_graphml(edges: Sequence[Edge], out: Path) -> None:
    """Write GraphML; an edge's passages are a JSON list, since its attributes hold no lists.

    Characters that XML does not know, such as control characters, become U+FFFD.
    """
    import networkx

    graph = as_networkx(edges)
    for _, _, data in graph.edges(data=True):
        data["passages"] = json.dumps(data["passages"], ensure_ascii=False)
    text = "\n".join(networkx.generate_graphml(graph))
    with atomic_write(out) as handle:
        handle.write(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text) + "\n")


def write_node_link(edges: Sequence[Edge], out: Path) -> None:
    """Write networkx' node-link JSON, which d3 and `networkx.node_link_graph` read."""
    import networkx

    data = networkx.node_link_data(as_networkx(edges), edges="links")
    with atomic_write(out) as handle:
        json.dump(data, handle, ensure_ascii=False)


def write_parquet(edges: Sequence[Edge], out: Path) -> None:
    """Write a table of subject, predicate, object and passages, a list."""
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    columns: dict[str, list[Any]] = {
        "subject": [edge.triple.subject for edge in edges],
        "predicate": [edge.triple.predicate for edge in edges],
        "object": [edge.triple.object for edge in edges],
        "passages": [list(edge.passages) for edge in edges],
    }
    text = pyarrow.string()
    types = [(name, text) for name in ("subject", "predicate", "object")]
    schema = pyarrow.schema([*types, ("passages", pyarrow.list_(text))])
    pyarrow.parquet.write_table(pyarrow.table(columns, schema), out, compression="zstd")


def write_nquads(edges: Sequence[Edge], out: Path) -> None:
    """Write N-Quads, a passage the graph of what it states; names are labels without a graph.

    What no passage is known to state has no graph either. Raises GraphFormatError.
    """
    rdf = _rdflib()
    dataset = rdf.Dataset()
    for name in entities(edges):
        dataset.add((_iri(rdf, "entity", name), rdf.RDFS.label, rdf.Literal(name)))
    for edge in edges:
        triple = _terms(rdf, edge)
        for passage in edge.passages:
            dataset.graph(_iri(rdf, "passage", passage)).add(triple)
        if not edge.passages:
            dataset.add(triple)
    _write_text(dataset.serialize(format="nquads"), out)


def write_turtle(edges: Sequence[Edge], out: Path) -> None:
    """Write Turtle: each triple, and a statement about it for every passage it is derived from.

    Raises GraphFormatError.
    """
    rdf = _rdflib()
    graph = rdf.Graph()
    for prefix in ("entity", "relation", "passage"):
        graph.bind(prefix, rdf.Namespace(f"{BASE}{prefix}:"))
    graph.bind("prov", rdf.PROV)
    for name in entities(edges):
        graph.add((_iri(rdf, "entity", name), rdf.RDFS.label, rdf.Literal(name)))
    for number, edge in enumerate(edges):
        subject, predicate, object_ = _terms(rdf, edge)
        graph.add((subject, predicate, object_))
        statement = rdf.BNode(f"s{number}")
        graph.add((statement, rdf.RDF.type, rdf.RDF.Statement))
        graph.add((statement, rdf.RDF.subject, subject))
        graph.add((statement, rdf.RDF.predicate, predicate))
        graph.add((statement, rdf.RDF.object, object_))
        for passage in edge.passages:
            derived = rdf.PROV.wasDerivedFrom
            graph.add((statement, derived, _iri(rdf, "passage", passage)))
    _write_text(graph.serialize(format="turtle"), out)


def _terms(rdf: Any, edge: Edge) -> tuple[Any, Any, Any]:
    triple = edge.triple
    return (
        _iri(rdf, "entity", triple.subject),
        _iri(rdf, "relation", triple.predicate),
        _iri(rdf, "entity", triple.object),
    )


def _iri(rdf: Any, kind: str, text: str) -> Any:
    return rdf.URIRef(f"{BASE}{kind}:{quote(text, safe='')}")


def _rdflib() -> Any:
    try:
        import rdflib
    except ImportError as error:
        raise GraphFormatError(
            "N-Quads and Turtle are written by rdflib: pip install 'trivium-rag[rdf]'"
        ) from error
    return rdflib


def _write_text(text: str, out: Path) -> None:
    with atomic_write(out) as handle:
        handle.write(text)


WRITERS: dict[str, Writer] = {
    "neo4j": write_neo4j,
    "graphml": write_graphml,
    "nquads": write_nquads,
    "turtle": write_turtle,
    "parquet": write_parquet,
    "node-link": write_node_link,
}
