"""Build condition triplets from annotated questions, facts and supporting sentences.

    data_gen/build_conditions.py --source 2wikimultihopqa=train.jsonl \\
        --source hotpotqa=train.jsonl --evidences evidences.jsonl --corpus corpus.jsonl \\
        --exclude test.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (ConditionSample), card.json and card.md. Records of one passage
share a text and a split (Tri-RAG §III-B)."""

from collections.abc import Sequence

from common.commands import one_line_errors
from data_gen.builds.build import run_build
from data_gen.builds.conditions import ConditionsBuild


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    run_build(ConditionsBuild, __doc__, arguments)


if __name__ == "__main__":
    main()
