"""Audit built supervision before anyone trains on it.

    data_gen/audit.py DATA --out DIR --exclude test.jsonl --max-tokens 1200

DATA is a folder that build_subq.py, build_triples.py, build_conditions.py or build_helpers.py
wrote, or SPLIT=FILE (train, dev or test), several times. Writes DIR/report.md and DIR/report.json:
what was found, how often, and records to read. Ends with status 1 where a finding harms a training.
docs/audit.md explains the findings. Memory: about 100 bytes a record."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.commands import add_output_options, command_parser, log_warnings, one_line_errors
from common.tables import emit_json, print_table
from data_gen.audits.findings import Choice
from data_gen.audits.inputs import common_kind, split_files
from data_gen.audits.report import finding_rows, report_of, write_report
from data_gen.audits.run import Audit, Settings
from data_gen.builds.cards import WORDS_UNIT, token_counter
from data_gen.sources.arguments import question_file

TABLE_4 = ["task", "what", "paper", "here"]
FINDINGS = ["severity", "check", "count", "of", "rate", "what"]


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line."""
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("data", nargs="+", metavar="DATA", help="a built folder, or SPLIT=FILE, several times")
    add_output_options(parser, "folder to write report.md and report.json into")
    add(
        "--exclude", type=Path, action="append", default=[], metavar="FILE",
        help="test questions (contract form) that no split may hold, nor their passages",
    )  # fmt: skip
    add(
        "--questions", type=question_file, action="append", default=[], metavar="[NAME=]FILE",
        help="the sources' questions, whose answers no sub-query may name (the answer samples) and "
        "whose hops and triples no test question may share; NAME as in a builder's --source",
    )  # fmt: skip
    add(
        "--corpus", type=Path, action="append", default=[], metavar="FILE",
        help="passages, in which what sub-queries without support ask about is looked up",
    )  # fmt: skip
    add(
        "--tokenizer", default="smollm2",
        help="tokenizer that lengths are counted with; 'words' counts words, quickly (smollm2)",
    )  # fmt: skip
    add("--max-tokens", type=int, metavar="N", help="longest prompt that a training does not cut")
    add("--max-label-tokens", type=int, metavar="N", help="longest label that a training takes")
    add("--examples", type=int, default=3, metavar="N", help="records to read a finding (3)")
    add("--seed", type=int, default=0, help="seed of the choice of these (0)")
    return parser.parse_args(arguments)


def read_settings(options: argparse.Namespace) -> tuple[Settings, str]:
    """Return the audit's settings and what its lengths count.

    Raises ValueError where a limit is given and the tokenizer cannot be loaded.
    """
    count_tokens, unit = token_counter(options.tokenizer)
    limited = options.max_tokens is not None or options.max_label_tokens is not None
    if limited and options.tokenizer != "words" and unit == WORDS_UNIT:
        raise ValueError(
            f"tokenizer {options.tokenizer!r} cannot be loaded, and words say nothing about a "
            "limit in tokens. Name another --tokenizer, or give no limit"
        )
    settings = Settings(
        count_tokens, options.exclude, options.corpus, options.questions,
        options.max_tokens, options.max_label_tokens, Choice(options.examples, options.seed),
    )  # fmt: skip
    return settings, unit


def print_report(report: Mapping[str, Any]) -> None:
    """The tables: RAS Table 4 where it applies, and every check, the worst first."""
    figures = [[row[name] for name in TABLE_4] for row in report["figures"].get("ras_table_4", [])]
    if figures:
        print_table(f"RAS Table 4, in {report['counted_in']}", TABLE_4, figures)
    print_table(f"Audit of {report['kind']}", FINDINGS, finding_rows(report))


def summary(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report without what is there to be read."""
    shown = ("name", "severity", "count", "of", "rate")
    findings = [{name: finding[name] for name in shown} for finding in report["findings"]]
    kept = {name: value for name, value in report.items() if name != "figures"}
    return {**kept, "findings": findings}


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; ends with status 1 where there is an error-level finding."""
    options = parse_arguments(arguments)
    log_warnings(options)
    files = split_files(options.data)
    # What cannot be audited is refused before the tokenizer is loaded, which takes seconds.
    common_kind(files)
    settings, unit = read_settings(options)
    outcome = Audit(files, settings).run()
    report = report_of(outcome, files, unit)
    write_report(options.out, report)
    print_report(report)
    if options.json:
        emit_json({"out": str(options.out), **summary(report)})
    if report["errors"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
