"""Parts of a proposition index on disk: each addition is a folder of its own.

Nothing that is there is written again, so that an addition costs what it adds, and a kill loses at
most the part that was not whole.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common.errors import RecordError, UserError
from common.files import atomic_directory, atomic_write
from inference.retrieval.passages import IndexMismatchError
from models.files.sentence_encoder import FloatArray, SentenceEncoder
from models.formats.fields import FieldReader, read_triple
from models.formats.triples import Triple

FORMAT_VERSION = 1
PREFIX = "part-"
ABOUT_FILE = "about.json"
DOCUMENTS_FILE = "documents.jsonl"
VECTORS_FILE = "vectors.npy"
REMEDY = "Build the index again with inference/build_propositions.py"


class PropositionIndexError(UserError, ValueError):
    """A folder that cannot serve as the proposition index; the message says which and why."""


@dataclass(frozen=True)
class Document:
    """A passage that was added: its id, the hash of its text (`passage_key`), its triples."""

    id: str
    key: str
    triples: tuple[Triple, ...]

    @classmethod
    def from_json(cls, record: Any, where: str) -> "Document":
        """Read a line. Raises RecordError, which names `where` and the field."""
        reader = FieldReader(record, where)
        triples = reader.items("triples", read_triple, "[subject, predicate, object]")
        return cls(reader.text("id"), reader.text("key"), tuple(triples))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that `from_json` reads back."""
        triples = [[t.subject, t.predicate, t.object] for t in self.triples]
        return {"id": self.id, "key": self.key, "triples": triples}


@dataclass(frozen=True)
class Part:
    """One addition; vectors: float32 [propositions that it was the first to state, d]."""

    documents: Sequence[Document]
    vectors: FloatArray


def part_folders(folder: Path) -> list[Path]:
    """Return the parts of an index in the order in which they were added."""
    paths = (path for path in folder.glob(f"{PREFIX}*") if path.is_dir())
    return sorted(p for p in paths if p.name.removeprefix(PREFIX).isdecimal())


def about_of(encoder: SentenceEncoder, extractor: str) -> dict[str, Any]:
    """Return what every part of an index has in common.

    extractor: what tells one text-to-triples model from another, such as its fingerprint.
    """
    return {
        "format_version": FORMAT_VERSION,
        "encoder": encoder.name,
        "encoder_fingerprint": encoder.fingerprint,
        "extractor": extractor,
    }


def write_part(folder: Path, part: Part, about: dict[str, Any]) -> Path:
    """Add a part, whole or not at all.

    Raises PropositionIndexError where another run added one at the same time.
    """
    there = part_folders(folder)
    number = int(there[-1].name.removeprefix(PREFIX)) + 1 if there else 0
    target = folder / f"{PREFIX}{number:05d}"
    with atomic_directory(target) as temporary:
        with atomic_write(temporary / DOCUMENTS_FILE) as handle:
            for document in part.documents:
                handle.write(json.dumps(document.to_json(), ensure_ascii=False) + "\n")
        np.save(temporary / VECTORS_FILE, part.vectors, allow_pickle=False)
        counts = {"documents": len(part.documents), "propositions": len(part.vectors)}
        with atomic_write(temporary / ABOUT_FILE) as handle:
            json.dump({**about, **counts}, handle, indent=2)
        if target.exists():
            raise PropositionIndexError(
                f"{target} has come from another run that adds to this index. Let that one end, "
                "and start this one again: it goes on where it was"
            )
    return target


def read_part(folder: Path, expected: dict[str, Any]) -> Part:
    """Read a part after checking that it is one of the index that is `expected`.

    expected: entries of `about_of` that have to agree.

    Raises:
        IndexMismatchError: another format version, encoder or extractor; names both.
        PropositionIndexError: a file that is missing or cut.
        RecordError: a document that cannot be read (file, line, field).
    """
    about = _read_about(folder)
    _check(folder, about, expected)
    documents = list(read_documents(folder / DOCUMENTS_FILE))
    try:
        vectors = np.load(folder / VECTORS_FILE, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise PropositionIndexError(f"{folder / VECTORS_FILE}: {error}. {REMEDY}") from error
    if (len(documents), len(vectors)) != (about.get("documents"), about.get("propositions")):
        raise PropositionIndexError(
            f"{folder}: holds {len(documents)} documents and {len(vectors)} vectors, and its "
            f"{ABOUT_FILE} tells of others. {REMEDY}"
        )
    return Part(documents, vectors)


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT_FILE
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PropositionIndexError(f"{path}: cannot be read ({error}). {REMEDY}") from error
    return about if isinstance(about, dict) else {}


def _check(folder: Path, about: dict[str, Any], expected: dict[str, Any]) -> None:
    version = about.get("format_version")
    if version != FORMAT_VERSION:
        raise IndexMismatchError(
            f"{folder}: a proposition index of format {version}, and this version of Trivium reads "
            f"format {FORMAT_VERSION}. {REMEDY}, or use the version that wrote it"
        )
    for name in ("encoder", "extractor"):
        field = "encoder_fingerprint" if name == "encoder" else name
        if field in expected and about.get(field) != expected[field]:
            raise IndexMismatchError(
                f"{folder}: built with the {name} {about.get(name)} ({about.get(field)}), and "
                f"asked for is {expected.get(name)} ({expected[field]}). Use the first, or name "
                "another folder"
            )


def read_documents(path: Path) -> Iterator[Document]:
    """Yield the documents of a part. Raises PropositionIndexError, RecordError."""
    try:
        lines: Iterable[str] = path.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise PropositionIndexError(f"{path}: cannot be read ({error}). {REMEDY}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            record = json.loads(line)
        except ValueError as error:
            raise RecordError(where, "(line)", f"malformed JSON ({error})", REMEDY) from None
        yield Document.from_json(record, where)
