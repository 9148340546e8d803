"""The growing of every index: each document is read once, and others are added later."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from tqdm import tqdm

from common.errors import UserError
from inference.indexes.extraction import chunks
from inference.retrieval.passages import IndexMismatchError, Passage
from models.files.sentence_encoder import SentenceEncoder

AT_ONCE = 512
ItemT = TypeVar("ItemT")
ReadT = TypeVar("ReadT")


class DuplicateDocumentError(UserError, ValueError):
    """Two different documents under one id; the message names it."""


def new_documents(
    corpus: Sequence[Passage],
    known: Callable[[str], object],
    content: Callable[[Passage], object],
    remedy: str = "or build a new index",
) -> list[Passage]:
    """Return the documents that an index lacks, each id once.

    known: the content of the index's document of an id, None where it has none. content: what of a
    document must be the same.

    Raises:
        DuplicateDocumentError: an id that stands for two different documents.
    """
    new: dict[str, Passage] = {}
    for passage in corpus:
        earlier = new.get(passage.id)
        there = known(passage.id) if earlier is None else content(earlier)
        if there is None:
            new[passage.id] = passage
        elif there != content(passage):
            raise DuplicateDocumentError(
                f"document '{passage.id}' is there already with another title or text. Give it an "
                f"id of its own, {remedy}"
            )
    return list(new.values())


async def read_each(
    items: Sequence[ItemT],
    read: Callable[[ItemT], Awaitable[ReadT]],
    what: str,
    unit: str,
    at_once: int = AT_ONCE,
) -> AsyncIterator[list[ReadT]]:
    """Read items under a progress bar; yields what was read of each `at_once` items, in order.

    So many wait at the engine together that it can sort them by length.
    """
    with tqdm(total=len(items), desc=what, unit=f" {unit}") as bar:

        async def read_one(item: ItemT) -> ReadT:
            done = await read(item)
            bar.update()
            return done

        for part in chunks(items, at_once):
            yield await asyncio.gather(*map(read_one, part))


def check_encoder(kind: str, name: str, fingerprint: str, encoder: SentenceEncoder) -> None:
    """Refuse another encoder than the one, by its name and fingerprint, that an index is made with.

    kind: of the index, for the message.

    Raises:
        IndexMismatchError: names both.
    """
    if fingerprint != encoder.fingerprint:
        raise IndexMismatchError(
            f"the {kind} was built with the encoder {name}, and {encoder.name} is given. Use the "
            f"first with --encoder, or build another {kind}"
        )
