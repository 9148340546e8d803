"""Split questions for development: dev shares no hop, evidence triple or wording with train.

    data_gen/split_questions.py --questions DATA/qa/musique_train.jsonl --dev-fraction 0.1 \\
        --exclude DATA/qa/musique_test.jsonl --out DIR

Writes DIR/{train,dev}.jsonl in our contract's form and the input's order, card.json and card.md.
Questions that share something (data_gen/facts/held_out.py), directly or over others, stay
together. Where that leaves too few for dev, since most are one group, single ones are taken out of
it by a hash, and what shares something with them is left out of train and counted. Give a builder
dev.jsonl as --exclude: choose on it, and use a test set once, at the end."""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from common.commands import add_output_options, command_parser, log_warnings, one_line_errors, share
from common.tables import report
from data_gen.builds.cards import write_card
from data_gen.facts.held_out import Groups, HeldOutQuestions, QuestionGroups, choose_dev
from data_gen.sources.arguments import SkippedRecords, question_file, source_entry
from data_gen.sources.open_source import read_questions
from data_gen.sources.splits import hash_fraction
from data_gen.streaming.files import output, record_files
from models.formats.records import QuestionRecord, record_line

# Dev may miss so much of the size asked for before single questions are taken out of groups.
TOLERANCE = 0.1


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line."""
    parser = command_parser(__doc__)
    add = parser.add_argument
    add(
        "--questions", type=question_file, action="append", required=True, metavar="[NAME=]FILE",
        help="questions to split, several times; NAME as in a builder's --source (our contract)",
    )  # fmt: skip
    add("--dev-fraction", type=share, default=0.1, help="share of dev (%(default)s)")
    add(
        "--exclude", type=Path, action="append", default=[], metavar="FILE",
        help="test questions (contract form): these are left out of both, and what shares a hop or "
        "an evidence triple with one",
    )  # fmt: skip
    add("--seed", type=int, default=0, help="seed of the choice of groups (%(default)s)")
    add("--skip-bad", action="store_true", help="skip and count broken records")
    add_output_options(parser)
    return parser.parse_args(arguments)


class QuestionSplit:
    """Reads the questions three times and splits them; in memory are hashes, and dev's keys."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.excluded = HeldOutQuestions.of_files(options.exclude)
        self.left_out: Counter[str] = Counter()
        self.skipped = SkippedRecords(options.skip_bad)
        self.sources: list[dict[str, object]] = []
        self.groups = self._groups()
        self.dev = choose_dev(self.groups, options.dev_fraction, options.seed)
        self.whole_groups = int(self.dev.sum())
        self._fill_up()

    def write(self, folder: Path) -> dict[str, int]:
        """Write train.jsonl and dev.jsonl; returns their counts."""
        held_out = HeldOutQuestions(
            record for record, own in zip(self._read(), self.dev, strict=True) if own
        )
        counts = {"train": 0, "dev": 0}
        with record_files(folder, counts) as files:
            for record, own in zip(self._read(), self.dev, strict=True):
                leak = None if own else held_out.reason(record)
                if leak:
                    self.left_out[str(leak).replace("test", "dev")] += 1
                    continue
                name = "dev" if own else "train"
                files[name].write(record_line(record))
                counts[name] += 1
        return counts

    def _groups(self) -> Groups:
        found = QuestionGroups()
        for file in self.options.questions:
            count = 0
            read = read_questions(file.name, file.path, self.skipped.handler(file.name))
            for record in tqdm(read, desc=Path(file.path).name, unit="question"):
                count += 1
                if leak := self.excluded.reason(record):
                    self.left_out[leak.value] += 1
                else:
                    found.add(record)
            self.sources.append(source_entry(file, count))
        if not len(found):
            raise ValueError("no questions: the files hold none that --exclude leaves")
        return found.groups()

    def _fill_up(self) -> None:
        """Take questions by a hash out of the groups left, where whole groups are too few."""
        wanted = round(self.options.dev_fraction * len(self.dev))
        missing = wanted - int(self.dev.sum())
        if missing <= TOLERANCE * wanted:
            return
        own: NDArray[np.float64] = np.fromiter(
            (hash_fraction(f"dev/{record.id}", self.options.seed) for record in self._read()),
            dtype=np.float64, count=len(self.dev),
        )  # fmt: skip
        own[self.dev] = np.inf
        # Of one id all or none: the hash of the last that is taken in takes its twins along.
        last = np.sort(own)[missing - 1]
        self.dev |= own <= last

    def _read(self) -> Iterator[QuestionRecord]:
        for file in self.options.questions:
            on_error = (lambda error: None) if self.options.skip_bad else None
            for record in read_questions(file.name, file.path, on_error):
                if not self.excluded.reason(record):
                    yield record

    def card(self, counts: dict[str, int]) -> dict[str, Any]:
        """Return the card of the split."""
        sizes = self.groups.sizes
        return {
            "title": "Questions split for development",
            "splits": counts,
            "groups": {
                "groups": len(sizes),
                "questions of the largest": int(sizes.max()),
                "questions that share nothing": int((sizes == 1).sum()),
                "dev, in whole groups": self.whole_groups,
                "dev, taken out of groups": counts["dev"] - self.whole_groups,
            },
            "left_out": dict(self.left_out),
            "skipped_records": dict(self.skipped.counts),
            "skipped_examples": self.skipped.examples,
            "options": {"dev_fraction": self.options.dev_fraction},
            "sources": self.sources,
            "seed": self.options.seed,
        }


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_arguments(arguments)
    log_warnings(options)
    split = QuestionSplit(options)
    with output(options.out) as (folder, _):
        card = split.card(split.write(folder))
        write_card(folder, card)
    rows: list[list[Any]] = [["split", name, count] for name, count in card["splits"].items()]
    rows += [["left out", name, count] for name, count in card["left_out"].items()]
    rows += [["groups", name, count] for name, count in card["groups"].items()]
    rows += [["skipped", name, count] for name, count in card["skipped_records"].items()]
    shown = {name: card[name] for name in ("splits", "left_out", "groups")}
    report(card["title"], ["kind", "what", "number"], rows, options, shown)


if __name__ == "__main__":
    main()
