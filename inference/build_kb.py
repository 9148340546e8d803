"""A knowledge base of condition triplets from a corpus (Tri-RAG §III-C).

Extracts every document, normalises, validates and merges what was written, and indexes the
conditions alone. An interrupted build goes on where it was; run it again with a larger corpus, or
with further documents alone, and only what is new is extracted and embedded.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any

from common.commands import share
from common.files import atomic_write
from inference.engines.contract import DEFAULT_CHECKPOINTS, EXTRACTOR_ADAPTER, Completion, Engine
from inference.indexes.extraction import HELD, RequestMaker, held_to
from inference.indexes.growing import read_each
from inference.indexes.knowledge_base.store import (
    LOG_FILE,
    KnowledgeBase,
    KnowledgeBaseError,
    Output,
    OutputLog,
    extend,
    is_built,
)
from inference.opening.arguments import command
from inference.opening.components import Component, conditions_requests
from inference.opening.index_build import IndexBuild, index_parser, run_build
from inference.retrieval.passages import Passage
from models.formats.grammars import conditions_regex

EXTRACTOR_FILE = "extractor.json"


def _parser() -> argparse.ArgumentParser:
    parser = index_parser(__doc__, "knowledge base", "the conditions")
    parser.add_argument(
        "--extractor",
        type=Path,
        default=DEFAULT_CHECKPOINTS[EXTRACTOR_ADAPTER],
        help="condition extractor's component folder (default: the shipped)",
    )
    parser.add_argument(
        "--min-confidence",
        type=share,
        default=0.0,
        metavar="P",
        help="leave out what was written with less, the geometric mean of its tokens' "
        "probabilities; the paper names no threshold (default: 0, nothing left out)",
    )
    return parser


async def extract_documents(
    engine: Engine, make_request: RequestMaker, documents: Sequence[Passage], log: OutputLog
) -> None:
    """Have the extractor write about each document; every output is on disk as soon as it is there.

    Documents that say the same are extracted once.
    """
    by_content: dict[tuple[str, str], list[Passage]] = {}
    for document in documents:
        by_content.setdefault((document.title, document.text), []).append(document)

    async def extract(same: list[Passage]) -> None:
        request = make_request(same[0])
        request = replace(request, sampling=replace(request.sampling, logprobs=True))
        [done] = await engine.generate([request])
        cut = done.finish_reason == "length"
        sure = confidence(done)
        log.append(Output(d.id, d.title, d.text, done.text, cut, sure) for d in same)

    async for _ in read_each(list(by_content.values()), extract, "extract", "documents"):
        pass


def confidence(done: Completion) -> float | None:
    """Return the geometric mean of the tokens' probabilities; None where the engine gives none."""
    return exp(fmean(done.logprobs)) if done.logprobs else None


def check_extractor(folder: Path, component: Component, constrain: bool = False) -> None:
    """Note the extractor of a knowledge base, held to its grammar or not; refuse another one.

    Raises:
        KnowledgeBaseError: naming both.
    """
    path = folder / EXTRACTOR_FILE
    fingerprint = component.fingerprint + (HELD if constrain else "")
    mine = {"component": component.folder.name, "fingerprint": fingerprint}
    if path.is_file():
        theirs = json.loads(path.read_text(encoding="utf-8"))
        if theirs["fingerprint"] != mine["fingerprint"]:
            raise KnowledgeBaseError(
                f"{folder} was begun with the extractor {_named(theirs)}, and {_named(mine)} was "
                "given. Use the first, or name another folder"
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as handle:
        json.dump(mine, handle)


def _named(extractor: dict[str, str]) -> str:
    return f"{extractor['component']} ({extractor['fingerprint']})"


def without_merged(outputs: Mapping[str, Output], base: KnowledgeBase | None) -> list[Output]:
    """Return the outputs that a base lacks, in order.

    A base from before does not tell its documents, which are then the first ones: it is told.
    """
    if base is None:
        return list(outputs.values())
    if base.documents is None:
        base.documents = list(outputs)[: base.about["counts"]["documents"]]
    merged = set(base.documents)
    return [output for output in outputs.values() if output.id not in merged]


async def _build(given: IndexBuild) -> dict[str, Any]:
    """Extract the documents that are new, and put all that the base lacks into it."""
    folder, encoder, constrain = given.folder, given.encoder, given.arguments.constrain
    component = Component.open(given.arguments.extractor, "tri_rag")
    check_extractor(folder, component, constrain)
    log = OutputLog(folder / LOG_FILE)
    # Fails on an index of another encoder before hours of extraction, not after.
    base = KnowledgeBase.load(folder, encoder) if is_built(folder) else None
    documents, known = log.missing(given.corpus)
    if documents:
        make_request = conditions_requests(component)
        if constrain:
            make_request = held_to(conditions_regex(), make_request)
        adapters = {EXTRACTOR_ADAPTER: component.folder}
        async with given.engine(component.backbone, adapters) as engine:
            await extract_documents(engine, make_request, documents, log)
    new = without_merged(log.outputs, base)
    if new or base is None:
        base = extend(base, new, encoder, given.arguments.min_confidence)
        base.about["encoder"] = encoder.name
        base.save(folder)
    if given.arguments.index:
        base.keep_vectors_in(given.arguments.index, renew=True)
    return {"extracted now": len(documents), "known before": known, **base.about["counts"]}


@command
def main() -> None:
    """Run the command line."""
    run_build(_parser(), "Knowledge base", _build)


if __name__ == "__main__":
    main()
