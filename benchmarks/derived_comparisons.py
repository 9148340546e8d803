"""Count the questions that the rule for comparisons decides, given the annotated facts.

python benchmarks/derived_comparisons.py --json \\
    --datasets 2wiki=DATA/qa/2wikimultihopqa_test.jsonl hotpotqa=DATA/qa/hotpotqa_test.jsonl

A question is recognised where its words, less the names of its supporting passages, ask for a
comparison that `models/facts/comparisons.py` knows, and decided where its annotated evidences make
that file state the outcome: no model takes part. A set without evidences has none decided; its
recognised questions say how far the rule could reach. A question that names one subject alone is
neither.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from common.commands import command_parser
from common.tables import emit_json, print_table
from evaluation.answers import exact_match
from inference.opening.arguments import command
from models.facts.comparisons import asked_comparison, derive_comparisons, named_subjects
from models.formats.records import QuestionRecord, read_records
from models.formats.triples import Triple

COLUMNS = ("questions", "with evidences", "recognised", "decided", "decided right")


@dataclass
class Counts:
    """Questions of one type; the last three as the module's first lines say."""

    questions: int = 0
    with_evidences: int = 0
    recognised: int = 0
    decided: int = 0
    decided_right: int = 0

    def add(self, record: QuestionRecord) -> None:
        """Count one question."""
        facts = list(record.evidences)
        derived = derive_comparisons(facts, record.question)
        self.questions += 1
        self.with_evidences += bool(facts)
        self.recognised += recognised(record)
        self.decided += bool(derived)
        self.decided_right += bool(derived) and exact_match(decision(derived), record.answers) == 1

    def to_json(self) -> dict[str, int]:
        """Return the counts by their column's name."""
        return dict(zip(COLUMNS, astuple(self), strict=True))


def recognised(record: QuestionRecord) -> bool:
    """Return whether the question names two of its passages and compares them in known words."""
    titles = dict.fromkeys(title for title, _ in record.supporting_facts)
    named, rest = named_subjects(record.question, [Triple(title, "", "") for title in titles])
    return len(named) > 1 and asked_comparison(rest) is not None


def decision(derived: Sequence[Triple]) -> str:
    """Return the answer that derived triples stand for: the subject asked for, or yes or no."""
    if all(triple.predicate.endswith("same as") for triple in derived):
        return "yes"
    if any(triple.predicate.endswith("different from") for triple in derived):
        return "no"
    return derived[0].subject


def count_by_type(path: Path) -> dict[str, dict[str, int]]:
    """Return the counts of a file's questions by type, and of all. Raises RecordError."""
    counts: defaultdict[str, Counts] = defaultdict(Counts)
    for record in read_records(path, QuestionRecord):
        for name in (record.type or "no type", "all"):
            counts[name].add(record)
    in_order = sorted(counts, key=lambda name: (name == "all", name))
    return {name: counts[name].to_json() for name in in_order}


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", required=True, metavar="NAME=FILE")
    parser.add_argument("--json", action="store_true", help="print the counts as one JSON object")
    return parser


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    found: dict[str, Any] = {}
    for item in arguments.datasets:
        name, _, path = item.partition("=")
        found[name] = count_by_type(Path(path))
        rows = [[kind, *counts.values()] for kind, counts in found[name].items()]
        print_table(f"Comparisons that the rule decides: {name}", ["type", *COLUMNS], rows)
    if arguments.json:
        emit_json(found)


if __name__ == "__main__":
    main()
