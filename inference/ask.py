"""Answer one question over a corpus and show how: subqueries, triples, graph, answer, bill.

    inference/ask.py "Where was the director of Dawn born?" --corpus FOLDER

The corpus is JSON Lines, or a file or folder of documents (text, Markdown, HTML, PDF, DOCX, CSV),
which are taken in on the way as inference/ingest.py does; the next question reads what changed.
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from common.commands import command_parser
from common.tables import emit_json, print_table
from inference.documents.own_corpus import Place, searched_corpus
from inference.ingest import show as show_ingested
from inference.loops.kind import LoopOptions
from inference.loops.trace import Trace
from inference.opening.arguments import command, configure_logging
from inference.opening.loop import LOOPS, open_loop
from inference.opening.loop_options import add_loop_arguments, options_from
from inference.retrieval.corpus import open_corpus
from models.formats.records import QuestionRecord
from models.formats.triples import format_triple

NOWHERE: Mapping[str, Place] = MappingProxyType({})


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    parser.add_argument("question", help="the question, in quotes")
    parser.add_argument(
        "--corpus",
        type=Path,
        help="JSON Lines of {id, title, text}, or documents: a file of another kind, or a folder",
    )
    add_loop_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the trace as one JSON object")
    return parser


async def _ask(question: str, options: LoopOptions, corpus: Path | None) -> Trace:
    searches = corpus and LOOPS[options.loop].searches_corpus
    passages = open_corpus(corpus, options.index) if corpus and searches else []
    opened = open_loop(options, passages)
    try:
        return await opened.loop.answer(QuestionRecord("question", question, ""))
    finally:
        await opened.close()


def show_trace(trace: Trace, places: Mapping[str, Place] = NOWHERE) -> None:
    """Print a trace for a person to read. places: where passages stand, by their ids."""
    for number, step in enumerate(trace.steps, start=1):
        titles = ", ".join(passage.title for passage in step.passages)
        rows = [
            [format_triple(t), cited.sentence if cited else ""] for t, cited in step.cited_triples
        ]
        heading = f"{number}. [SUBQ] {step.subquery}   from: {titles}"
        print_table(heading, ["triples", "stated by"], rows or [["(no triples)", ""]])
        if step.decision:
            sys.stdout.write(f"   plan: {step.decision}\n\n")
    bill = trace.bill
    rows = [
        ["question", trace.question],
        ["answer", trace.answer or "(none)"],
        ["graph", f"{len(trace.graph)} triples"],
        ["notes", "; ".join(trace.notes) or "-"],
        ["model calls", str(bill.llm_calls)],
        ["tokens in / out", f"{bill.input_tokens} / {bill.output_tokens}"],
        ["seconds", ", ".join(f"{k} {v:.1f}" for k, v in bill.seconds.items())],
    ]
    cited = [c.passage for step in trace.steps for c in step.citations if c]
    if found := [str(places[name]) for name in dict.fromkeys(cited) if name in places]:
        rows.insert(2, ["sources", "\n".join(found)])
    print_table("Answer", ["", ""], rows)


@command
def main() -> None:
    """Run the command line."""
    parser = _parser()
    arguments = parser.parse_args()
    if not arguments.question.strip():
        parser.error("the question is empty; write one, in quotes")
    if arguments.loop == "ras_static":
        parser.error("ras_static answers over given passages; use evaluate.py with a dataset")
    if arguments.corpus is None and LOOPS[arguments.loop].searches_corpus:
        parser.error(f"--loop {arguments.loop} searches a corpus; name it with --corpus")
    configure_logging()
    options, searched = options_from(arguments), None
    if arguments.corpus is not None:
        searched = searched_corpus(arguments.corpus)
        options = replace(options, index=options.index or searched.index)
        if searched.ingested is not None:
            show_ingested(searched.ingested)
    trace = asyncio.run(_ask(arguments.question, options, searched.path if searched else None))
    show_trace(trace, searched.places if searched else NOWHERE)
    if arguments.json:
        emit_json(trace.to_json())


if __name__ == "__main__":
    main()
