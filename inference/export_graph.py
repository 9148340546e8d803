"""Take the graph away: triples with their passages as files of other tools.

    inference/export_graph.py --propositions index --to graphml --out graph.graphml

neo4j: a folder of CSV for its importer. graphml, node-link: for networkx, Gephi, d3. nquads: RDF,
each passage the graph of what it states. turtle: RDF with a statement for each triple. parquet: a
table. The triples are those of an index, of what extract.py wrote, or of an evaluation's traces.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

from common.commands import command_parser
from common.tables import emit_json, print_table
from inference.exports.graph_files import WRITERS, entities
from inference.exports.graph_sources import (
    GraphSourceError,
    edges_of,
    of_extraction,
    of_hierarchy,
    of_propositions,
    of_traces,
)
from inference.opening.arguments import command
from models.formats.triples import Triple

SOURCES: dict[str, Callable[[Path], Iterator[tuple[Triple, str]]]] = {
    "triples": of_extraction,
    "propositions": of_propositions,
    "hierarchy": of_hierarchy,
    "traces": of_traces,
}
_HELP = {
    "triples": "JSON Lines that inference/extract.py wrote",
    "propositions": "index of inference/build_propositions.py",
    "hierarchy": "hierarchy of inference/build_hierarchy.py; its topics are left out",
    "traces": "traces.jsonl of inference/evaluate.py, each triple with the passage cited",
}


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    given = parser.add_mutually_exclusive_group(required=True)
    for name, text in _HELP.items():
        given.add_argument(f"--{name}", type=Path, metavar="PATH", help=text)
    parser.add_argument("--to", required=True, choices=WRITERS, help="what to write")
    parser.add_argument("--out", required=True, type=Path, help="file to write; neo4j: a folder")
    parser.add_argument("--json", action="store_true", help="print the counts as one JSON object")
    return parser


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    [name] = [name for name in SOURCES if getattr(arguments, name) is not None]
    source: Path = getattr(arguments, name)
    edges = edges_of(SOURCES[name](source))
    if not edges:
        raise GraphSourceError(f"{source} holds no triple; there is no graph to write")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    WRITERS[arguments.to](edges, arguments.out)
    counts = {
        "triples": len(edges),
        "entities": len(entities(edges)),
        "passages": len({passage for edge in edges for passage in edge.passages}),
        "triples without a passage": sum(not edge.passages for edge in edges),
    }
    print_table(f"{arguments.out}", ["what", "number"], [[k, v] for k, v in counts.items()])
    if arguments.json:
        emit_json(counts)


if __name__ == "__main__":
    main()
