"""The triples that indexes, extractions and traces hold, each with the passages that state it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from common.errors import RecordError, UserError
from inference.indexes.hierarchy.store import HierarchyStore
from inference.indexes.propositions.parts import DOCUMENTS_FILE, part_folders, read_documents
from models.formats.records import TriplesSample, read_records
from models.formats.triples import Triple


class GraphSourceError(UserError, ValueError):
    """A source that holds no triple; the message says which and what to do."""


@dataclass(frozen=True)
class Edge:
    """A triple and the ids of the passages that state it, each once, in the order found."""

    triple: Triple
    passages: tuple[str, ...]


def edges_of(found: Iterable[tuple[Triple, str]]) -> list[Edge]:
    """Return each triple once; the passage of a pair may be '' where it is not known."""
    passages: dict[Triple, dict[str, None]] = {}
    for triple, passage in found:
        own = passages.setdefault(triple, {})
        if passage:
            own[passage] = None
    return [Edge(triple, tuple(own)) for triple, own in passages.items()]


def of_extraction(path: Path) -> Iterator[tuple[Triple, str]]:
    """Yield the triples of a file that `extract.py` wrote. Raises RecordError."""
    for sample in read_records(path, TriplesSample):
        yield from ((triple, sample.id) for triple in sample.triples)


def of_propositions(folder: Path) -> Iterator[tuple[Triple, str]]:
    """Yield the triples of an index of `build_propositions.py`.

    Raises GraphSourceError for another folder, PropositionIndexError and RecordError for a part
    that cannot be read.
    """
    parts = part_folders(folder)
    if not parts:
        raise GraphSourceError(
            f"{folder} holds no propositions: name the folder that inference/build_propositions.py "
            "wrote"
        )
    for part in parts:
        for document in read_documents(part / DOCUMENTS_FILE):
            yield from ((triple, document.id) for triple in document.triples)


def of_hierarchy(folder: Path) -> Iterator[tuple[Triple, str]]:
    """Yield the triples of a hierarchy of `build_hierarchy.py`, topics left out.

    Raises HierarchyError for another folder.
    """
    store = HierarchyStore(folder)
    try:
        documents = {chunk.number: chunk.document for chunk in store.chunks()}
        chunk_of = {number: chunk for number, chunk, _ in store.sentences()}
        for fact in store.facts():
            triple = Triple(fact.subject, fact.predicate, fact.object)
            yield triple, documents[chunk_of[fact.sentence]]
    finally:
        store.close()


def of_traces(path: Path) -> Iterator[tuple[Triple, str]]:
    """Yield the triples of an evaluation's traces, with the passage cited for each.

    Raises RecordError for a line that is no trace.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{path}:{number}"
            try:
                for step in json.loads(line)["steps"]:
                    cited = step.get("citations") or [None] * len(step["triples"])
                    for parts, citation in zip(step["triples"], cited, strict=True):
                        yield Triple(*parts), citation["passage"] if citation else ""
            except (ValueError, KeyError, TypeError) as error:
                problem = f"is no trace ({type(error).__name__}: {error})"
                remedy = "Name the traces.jsonl of inference/evaluate.py"
                raise RecordError(where, "steps", problem, remedy) from error
