"""HotpotQA's four robustness variants (Tri-RAG §IV-A1): Dist, Full, and the shuffle of each.

    data_gen/build_hotpot_variants.py --questions hotpotqa_test.jsonl --corpus corpus.jsonl \\
        --out DIR

Writes DIR/{dist,full,shuffle_dist,shuffle_full}: questions.jsonl with the ten paragraphs of each
question (dist) or without (full), and corpus.jsonl: the questions' own paragraphs (dist) or all
(full). In the shuffled ones every entity is replaced by another of its type, everywhere alike."""

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from common.commands import add_output_options, command_parser, log_warnings, one_line_errors
from common.files import atomic_directory
from common.tables import report
from data_gen.facts.entity_shuffle import EntityShuffle
from data_gen.sources.arguments import SkippedRecords
from data_gen.sources.open_source import read_questions
from models.formats.passages import context_passages
from models.formats.records import PassageRecord, QuestionRecord, read_records, write_records


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--questions", required=True, help="HotpotQA, official, from the hub or in our contract")
    add("--corpus", type=Path, help="passages of the full setting (default: all own paragraphs)")
    add_output_options(parser)
    add("--seed", type=int, default=0, help="seed of the replacement (0)")
    add("--skip-bad", action="store_true", help="skip and count broken records")
    return parser


def own_passages(records: Iterable[QuestionRecord]) -> list[PassageRecord]:
    """Return the paragraphs that the questions come with, each content once."""
    distinct: dict[tuple[str, str], PassageRecord] = {}
    for record in records:
        for passage in context_passages(record):
            distinct.setdefault((passage.title, passage.text), passage)
    return list(distinct.values())


def write_variant(
    folder: Path, records: Sequence[QuestionRecord], corpus: Sequence[PassageRecord], full: bool
) -> None:
    """Write one variant; in the full setting the context only says what supports."""
    kept = [_supporting_only(record) for record in records] if full else records
    write_records(folder / "questions.jsonl", kept)
    write_records(folder / "corpus.jsonl", corpus)


def _supporting_only(record: QuestionRecord) -> QuestionRecord:
    titles = {title for title, _ in record.supporting_facts}
    return replace(record, context=[item for item in record.context if item[0] in titles])


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = _parser().parse_args(arguments)
    log_warnings(options)
    skipped = SkippedRecords(options.skip_bad)
    handler = skipped.handler("hotpotqa")
    records = list(read_questions("hotpotqa", options.questions, handler))
    if not records:
        raise ValueError(f"{options.questions}: holds no question")
    own = own_passages(records)
    corpus = list(read_records(options.corpus, PassageRecord)) if options.corpus else own
    shuffle = EntityShuffle([*corpus, *own], options.seed)
    shuffled = [shuffle.question(record) for record in records]
    variants = {
        "dist": (records, own, False),
        "full": (records, corpus, True),
        "shuffle_dist": (shuffled, [shuffle.passage(p) for p in own], False),
        "shuffle_full": (shuffled, [shuffle.passage(p) for p in corpus], True),
    }
    with atomic_directory(options.out) as folder:
        for name, (questions, passages, full) in variants.items():
            write_variant(folder / name, questions, passages, full)
    changed = sum(a.question != b.question for a, b in zip(records, shuffled, strict=True))
    kinds = Counter(found.type for found in shuffle.by_title.values())
    figures = {
        "questions": len(records),
        "skipped": skipped.counts.total(),
        "passages, dist": len(own),
        "passages, full": len(corpus),
        **{f"entities: {kind}": count for kind, count in kinds.most_common(8)},
        "further types of entities": max(len(kinds) - 8, 0),
        "questions that name another entity": round(changed / len(records), 3),
    }
    rows = [[name, value] for name, value in figures.items()]
    report("HotpotQA variants", ["what", "count"], rows, options, figures)


if __name__ == "__main__":
    main()
