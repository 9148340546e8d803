"""A folder of one's own as a corpus to ask: taken in on the way, into the user's cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.cache import cache_folder
from common.files import file_sha256
from inference.documents.chunks import CountTokens
from inference.documents.ingestion import Ingested, ingest
from inference.retrieval.passages import DENSE, EARLIER
from models.files.backbone import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MAX_TOKENS = 200
TOKENIZER = "smollm2"


@dataclass(frozen=True)
class Place:
    """Where a passage stands: its file, and of what has pages the page, from 1."""

    file: str
    page: int | None = None

    def __str__(self) -> str:
        return self.file if self.page is None else f"{self.file}, page {self.page}"


@dataclass(frozen=True)
class SearchedCorpus:
    """What a command line's --corpus comes to: JSON Lines that were there, or made of documents.

    index, ingested: of documents alone, the folder for saved indexes and what was taken in.
    places: where each of their passages stands, by its id.
    """

    path: Path
    index: Path | None = None
    places: Mapping[str, Place] = field(default_factory=dict)
    ingested: Ingested | None = None


def searched_corpus(path: Path) -> SearchedCorpus:
    """Return a corpus as it is, JSON Lines, or that of a file or folder of documents.

    Raises IngestionError, CacheFolderError.
    """
    is_corpus = path.suffix.lower() == ".jsonl" and not path.is_dir()
    return SearchedCorpus(path) if is_corpus else own_corpus(path)


def own_corpus(path: Path) -> SearchedCorpus:
    """Take in a file or folder, what changed of it, and return the corpus of its passages.

    The index's folder is that of the passages as they are now; of earlier ones the vectors are
    handed on, and the rest goes.
    Raises IngestionError, CacheFolderError.
    """
    key = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    folder = cache_folder() / "documents" / key
    out = folder / "corpus.jsonl"
    done = ingest([path], out, MAX_TOKENS, TOKENIZER, token_counter(TOKENIZER))
    indexes = folder / "indexes"
    index = indexes / file_sha256(out)[:16]
    for other in indexes.glob("*"):
        if other != index:
            _hand_on(other, index)
            shutil.rmtree(other, ignore_errors=True)
    return SearchedCorpus(out, index, places_of(out), done)


def _hand_on(old: Path, new: Path) -> None:
    """Move what the index of the passages before knows to where that of these looks for it."""
    found = next((old / name for name in (DENSE, EARLIER) if (old / name).is_dir()), None)
    if found is not None and not new.exists():
        new.mkdir()
        found.rename(new / EARLIER)


def token_counter(tokenizer: str) -> CountTokens:
    """Return what counts the tokens of a backbone, which is opened with the first text."""

    @cache
    def opened() -> PreTrainedTokenizerBase:
        return load_tokenizer(tokenizer)

    def count_tokens(text: str) -> int:
        return len(opened()(text, add_special_tokens=False, verbose=False)["input_ids"])

    return count_tokens


def places_of(corpus: Path) -> Mapping[str, Place]:
    """Return where each passage of a corpus stands, by its id."""
    places = {}
    with corpus.open(encoding="utf-8") as lines:
        for line in lines:
            record: dict[str, Any] = json.loads(line)
            if "file" in record:
                places[record["id"]] = Place(record["file"], record.get("page"))
    return places
