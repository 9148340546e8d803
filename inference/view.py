"""Make a page of an evaluation's traces: one file that any browser opens, without a server.

    inference/view.py runs/ras/traces.jsonl -o page.html --corpus corpus.jsonl

Shows every question's rounds, graph and answer, to be filtered and searched. With the corpus whole
passages can be read, without it the sentences that the traces cite.
"""

import argparse
from collections import Counter
from pathlib import Path

from common.commands import command_parser, one_line_errors
from common.files import atomic_write
from common.tables import report
from inference.page.single_file import single_page
from inference.page.traces import OUTCOMES, found_passages, read_traces
from inference.retrieval.passages import load_corpus


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    parser.add_argument("traces", type=Path, help="traces.jsonl of inference/evaluate.py")
    parser.add_argument("-o", "--out", type=Path, required=True, help="HTML file to write")
    parser.add_argument("--corpus", type=Path, help="JSON Lines of {id, title, text}")
    parser.add_argument("--title", help="of the page; by default the path of the traces")
    parser.add_argument("--json", action="store_true", help="print the counts as one JSON object")
    return parser


@one_line_errors()
def main() -> None:
    """Run the command line."""
    options = _parser().parse_args()
    traces = read_traces(options.traces)
    corpus = load_corpus(options.corpus) if options.corpus else []
    passages = found_passages(traces, corpus)
    title = options.title or str(options.traces)
    page = single_page([trace.raw for trace in traces], passages, title)
    with atomic_write(options.out) as handle:
        handle.write(page)
    outcomes = Counter(trace.outcome for trace in traces)
    figures: dict[str, int] = {
        "questions": len(traces),
        **{str(outcome): outcomes[outcome] for outcome in OUTCOMES},
        "failed": sum(trace.raw.get("error") is not None for trace in traces),
        "passages with a text": len(passages),
        "bytes": options.out.stat().st_size,
    }
    rows = [[name, value] for name, value in figures.items()]
    report(f"{options.out}", ["what", "number"], rows, options, figures)


if __name__ == "__main__":
    main()
