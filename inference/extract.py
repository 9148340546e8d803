"""Triples of a whole corpus by a text-to-triples model; an interrupted run goes on where it was.

With --samples the texts come with gold triples, and the command ends with exact precision, recall
and F1 against them. With --asked each passage is read for the subquery that found it, as the option
of this name of build_subq.py lists them and its --readings takes them: by --span-reader, and by
--passage-reader where the subquery is a whole question or the first finds no answer.
"""

import argparse
import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

from common.commands import command_parser
from common.files import atomic_write
from common.tables import emit_json, print_table
from evaluation.component_scores import score_triples
from inference.engines.contract import READER_ADAPTER, T2T_ADAPTER
from inference.indexes.extraction import TripleExtractor
from inference.indexes.focused import Extractor
from inference.indexes.growing import read_each
from inference.indexes.spans import SpanExtractor, SpanService
from inference.loops.kind import LoopOptions, ReadingOptions
from inference.opening.arguments import (
    add_engine_arguments,
    command,
    configure_logging,
    engine_options_from,
    positive_int,
    whole_number,
)
from inference.opening.components import Component, open_helper
from inference.opening.engine import build_engine
from inference.opening.extractors import open_extractor, open_focused_extractor
from inference.opening.loop_options import checkpoint_or_none
from inference.retrieval.corpus import MappedCorpus
from inference.retrieval.passages import EmptyCorpusError, Passage
from models.formats.passages import AskedPassage
from models.formats.prompts import passage_text
from models.formats.records import TriplesSample, read_records, record_line, write_records
from models.formats.triples import Triple


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    texts = parser.add_mutually_exclusive_group(required=True)
    texts.add_argument("--corpus", type=Path, help="JSON Lines of {id, title, text}")
    texts.add_argument("--samples", type=Path, help="JSON Lines of {id, text, triples}, to score")
    texts.add_argument(
        "--asked", type=Path, help="JSON Lines of {subquery, id, title, text}, to be read for it"
    )
    add = parser.add_argument
    add(
        "--passage-reader", type=Path, default=ReadingOptions.passage_reader, metavar="CHECKPOINT",
        help="helper of the task read, for --asked",
    )  # fmt: skip
    add(
        "--span-reader", type=checkpoint_or_none, default=ReadingOptions.span_reader,
        metavar="CHECKPOINT",
        help="extractive reader for --asked, or 'none': --passage-reader then reads all of it",
    )  # fmt: skip
    add(
        "--read-again", type=whole_number(0), default=ReadingOptions.read_again, metavar="N",
        help="passages a subquery of --asked that --passage-reader reads where --span-reader finds "
        "an answer in none",
    )  # fmt: skip
    add("--t2t", type=Path, default=LoopOptions.t2t, help="text-to-triples component folder")
    add("--out", required=True, type=Path, help="JSON Lines of {id, text, triples} to write")
    add("--cache", type=Path, help="SQLite file of triples extracted before (default: user's)")
    add("--limit", type=positive_int, help="only the first so many passages")
    add("--json", action="store_true", help="print the counts as one JSON object")
    add_engine_arguments(parser)
    return parser


async def extract_corpus(
    extractor: TripleExtractor, passages: Sequence[Passage], batch_size: int
) -> AsyncIterator[list[TriplesSample]]:
    """Yield what is extracted in order, in parts: several batches wait at the engine, so that it
    can sort them by length."""

    async def extract_one(passage: Passage) -> TriplesSample:
        [triples] = await extractor.extract([passage])
        return TriplesSample(passage.id, passage_text(passage.title, passage.text), triples)

    async for part in read_each(passages, extract_one, "extract", "passages", 8 * batch_size):
        yield part


def read_texts(arguments: argparse.Namespace) -> tuple[Sequence[Passage], list[TriplesSample]]:
    """Return what to read, and the gold triples of each text where there are any.

    Of a corpus a passage is read from its file when it is its turn.
    """
    limit = arguments.limit
    if arguments.corpus:
        corpus = MappedCorpus.open(arguments.corpus)
        return (corpus if limit is None else corpus[:limit]), []
    gold = list(itertools.islice(read_records(arguments.samples, TriplesSample), limit))
    if not gold:
        raise EmptyCorpusError(f"{arguments.samples}: there is no sample in it")
    return [Passage(sample.id, "", sample.text) for sample in gold], gold


def gold_figures(
    triples: Sequence[Sequence[Triple]], gold: Sequence[TriplesSample]
) -> dict[str, float]:
    """Return exact precision, recall and F1 over all triples, by name; nothing without gold."""
    if not gold:
        return {}
    scores = score_triples(triples, [sample.triples for sample in gold])
    return {f"exact_{name}": value for name, value in scores.exact.as_dict().items()}


async def read_asked(arguments: argparse.Namespace) -> dict[str, object]:
    """Read each passage for its subquery and write the lines of --asked with what was found."""
    asked = list(itertools.islice(read_records(arguments.asked, AskedPassage), arguments.limit))
    if not asked:
        raise EmptyCorpusError(
            f"{arguments.asked}: there is no asked passage in it; list what subqueries may find "
            "with data_gen/build_subq.py --asked"
        )
    component = open_helper(arguments.passage_reader, READER_ADAPTER)
    options, adapters = engine_options_from(arguments), {READER_ADAPTER: component.folder}
    engine = build_engine(options, backbone=component.backbone, adapters=adapters)
    grounded = options.kind != "openai"
    written = open_focused_extractor(engine, component, arguments.cache, grounded)
    extractor: Extractor = written
    if arguments.span_reader is not None:
        spans = SpanService.open(arguments.span_reader)
        extractor = SpanExtractor(spans, written, arguments.read_again)
    start, cached = time.perf_counter(), len(written.cache)

    # What one subquery finds is read together, as in a loop: the likeliest of it is read again, by
    # the reader that writes, where the extractive one finds no answer in any.
    groups = [list(group) for _, group in itertools.groupby(asked, attrgetter("subquery", "whole"))]

    async def read_group(group: list[AskedPassage]) -> list[AskedPassage]:
        passages, first = [one.passage for one in group], group[0]
        found = await extractor.extract(passages, None, first.subquery, first.whole)
        return [replace(one, triples=tuple(t)) for one, t in zip(group, found, strict=True)]

    try:
        parts = read_each(groups, read_group, "read", "subqueries", 4 * _at_once(arguments))
        read = [one async for part in parts for group in part for one in group]
        write_records(arguments.out, read)
        return {
            "passages": len(read),
            "written_now": len(written.cache) - cached,
            "with_triples": sum(bool(one.triples) for one in read),
            "cut": sum(bool(extractor.cut([one.passage], one.subquery)) for one in read),
            "seconds": time.perf_counter() - start,
        }
    finally:
        await engine.close()
        extractor.close()


def _at_once(arguments: argparse.Namespace) -> int:
    """Return how many requests run at once on all engines."""
    return int(arguments.max_batch_size * arguments.engines)


async def _run(arguments: argparse.Namespace) -> dict[str, object]:
    if arguments.asked:
        return await read_asked(arguments)
    passages, gold = read_texts(arguments)
    component = Component.open(arguments.t2t, "t2t")
    engine = build_engine(
        engine_options_from(arguments),
        backbone=component.backbone,
        adapters={T2T_ADAPTER: component.folder},
    )
    extractor = open_extractor(engine, component, arguments.cache, arguments.constrain)
    start, cached = time.perf_counter(), len(extractor.cache)
    try:
        count, scored = 0, []
        with atomic_write(arguments.out) as handle:
            async for part in extract_corpus(extractor, passages, _at_once(arguments)):
                handle.writelines(map(record_line, part))
                count += sum(len(sample.triples) for sample in part)
                scored += [sample.triples for sample in part if gold]
        return {
            "passages": len(passages),
            "extracted_now": len(extractor.cache) - cached,
            "triples": count,
            "malformed_in_cache": extractor.cache.malformed(),
            "seconds": time.perf_counter() - start,
            **gold_figures(scored, gold),
        }
    finally:
        await engine.close()
        extractor.cache.close()


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    configure_logging()
    counts = asyncio.run(_run(arguments))
    print_table(f"Extracted to {arguments.out}", list(counts), [list(counts.values())])
    if arguments.json:
        emit_json(counts)


if __name__ == "__main__":
    main()
