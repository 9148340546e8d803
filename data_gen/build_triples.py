"""Build text-to-triples samples from annotated texts and from aligned passages.

    data_gen/build_triples.py --source 2wikimultihopqa=train.jsonl --evidences evidences.jsonl \\
        --corpus corpus.jsonl --exclude test.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (TriplesSample), card.json and card.md."""

from collections.abc import Sequence

from common.commands import one_line_errors
from data_gen.builds.build import run_build
from data_gen.builds.triples_files import TriplesBuild


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    run_build(TriplesBuild, __doc__, arguments)


if __name__ == "__main__":
    main()
