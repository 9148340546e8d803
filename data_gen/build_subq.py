"""Build planner and answerer samples from annotated multi-hop questions (RAS Algorithm 1).

    data_gen/build_subq.py --source 2wikimultihopqa=train.jsonl \\
        --corpus 2wikimultihopqa=corpus.jsonl --no-retrieval arc_challenge.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (RasSample), card.json and card.md. Several --source options
may share a NAME; a corpus serves every source of its NAME."""

from collections.abc import Sequence

from common.commands import one_line_errors
from data_gen.builds.build import run_build
from data_gen.builds.subq import SubqBuild


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    run_build(SubqBuild, __doc__, arguments)


if __name__ == "__main__":
    main()
