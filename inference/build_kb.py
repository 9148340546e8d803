"""A knowledge base of condition triplets from a corpus (Tri-RAG §III-C).

Extracts every document, normalises, validates and merges what was written, and indexes the
conditions alone. An interrupted build goes on where it was; run it again with a larger corpus, or
with further documents alone, and only what is new is extracted and embedded.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.commands import command_parser
from common.files import atomic_write
from common.tables import report_counts
from inference.engines.adapters import DEFAULT_CHECKPOINTS, EXTRACTOR_ADAPTER
from inference.engines.contract import Engine
from inference.indexes.cost import CostLog
from inference.indexes.extraction import HELD, RequestMaker, chunks, held_to
from inference.indexes.knowledge_base.store import (
    LOG_FILE,
    KnowledgeBase,
    KnowledgeBaseError,
    Output,
    OutputLog,
    extend,
    is_built,
)
from inference.opening.arguments import (
    add_corpus_arguments,
    add_engine_arguments,
    command,
    configure_logging,
    documents_from,
    engine_options_from,
)
from inference.opening.components import Component, conditions_requests
from inference.opening.engine import build_engine
from inference.retrieval.passages import Passage
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.grammars import conditions_regex

EXTRACTOR_FILE = "extractor.json"


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add_corpus_arguments(parser)
    add(
        "--extractor",
        type=Path,
        default=DEFAULT_CHECKPOINTS[EXTRACTOR_ADAPTER],
        help="condition extractor's component folder (default: the shipped)",
    )
    add("--out", required=True, type=Path, help="folder of the knowledge base, new or to add to")
    add("--encoder", default="minilm", help="sentence encoder of the conditions (default: minilm)")
    add("--json", action="store_true", help="print the counts as one JSON object")
    add_engine_arguments(parser)
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
    with tqdm(total=len(documents), desc="extract", unit=" documents") as progress:

        async def extract_one(same: list[Passage]) -> None:
            [done] = await engine.generate([make_request(same[0])])
            cut = done.finish_reason == "length"
            log.append(Output(d.id, d.title, d.text, done.text, cut) for d in same)
            progress.update(len(same))

        for chunk in chunks(list(by_content.values()), 512):
            await asyncio.gather(*map(extract_one, chunk))


def check_extractor(folder: Path, component: Component, constrain: bool = False) -> None:
    """Note which extractor a knowledge base is made with, held to its grammar or not; refuse
    another one.

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


async def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    with CostLog(arguments.out) as costs:
        return await _build(arguments, costs)


async def _build(arguments: argparse.Namespace, costs: CostLog) -> dict[str, Any]:
    started = time.perf_counter()
    encoder = load_sentence_encoder(arguments.encoder)
    corpus = documents_from(arguments)
    component = Component.open(arguments.extractor, "tri_rag")
    check_extractor(arguments.out, component, arguments.constrain)
    log = OutputLog(arguments.out / LOG_FILE)
    # Fails on an index of another encoder before hours of extraction, not after.
    base = KnowledgeBase.load(arguments.out, encoder) if is_built(arguments.out) else None
    documents, known = log.missing(corpus)
    if documents:
        engine = build_engine(
            engine_options_from(arguments),
            backbone=component.backbone,
            adapters={EXTRACTOR_ADAPTER: component.folder},
        )
        try:
            make_request = conditions_requests(component)
            if arguments.constrain:
                make_request = held_to(conditions_regex(), make_request)
            await extract_documents(costs.metered(engine), make_request, documents, log)
        finally:
            await engine.close()
    done = base.about["counts"]["documents"] if base else 0
    new = list(log.outputs.values())[done:]
    if new or base is None:
        base = extend(base, new, encoder)
        base.about["encoder"] = encoder.name
        base.save(arguments.out)
    return {
        "extracted now": len(documents),
        "known before": known,
        **base.about["counts"],
        "seconds": round(time.perf_counter() - started, 1),
    }


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    configure_logging()
    counts = asyncio.run(_run(arguments))
    report_counts("Knowledge base in", counts, arguments.out, arguments.json)


if __name__ == "__main__":
    main()
