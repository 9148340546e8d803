#!/usr/bin/env python3
"""Build a fictional world: a corpus, its gold triples, and multi-hop questions with evidence."""

import argparse
import json
import logging
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from common.commands import command_parser, one_line_errors
from common.files import atomic_directory, atomic_write
from common.tables import emit_json, print_table
from data_gen.sources.splits import SPLITS, check_fractions, split_of
from data_gen.streaming.files import record_files
from data_gen.world.drafts import Library
from data_gen.world.passages import write_passages
from data_gen.world.population import build_population
from data_gen.world.questions import make_questions
from data_gen.world.records import Figures, QuestionWriter, passage_record, triples_sample
from data_gen.world.schema import MINIMUM_ENTITIES
from models.formats.records import record_line, write_records

logger = logging.getLogger(__name__)
DEFAULT_FRACTIONS = (0.8, 0.1, 0.1)
MOST_QUESTIONS = 1_000_000
# Below this a world has too little room for ten questions of every type.
LEAST_DEFAULT_ENTITIES = 200


def build_world(
    questions: int,
    seed: int,
    out: Path,
    entities: int | None = None,
    fractions: Sequence[float] = DEFAULT_FRACTIONS,
    overwrite: bool = False,
    progress: bool = True,
) -> dict[str, object]:
    """Write a world to the folder `out`, whole or not at all, and return its card.

    Raises:
        FileExistsError: `out` holds files and `overwrite` is not set.
        ValueError: a size or the fractions are out of range, or the world is too small.
    """
    if not 1 <= questions <= MOST_QUESTIONS:
        raise ValueError(f"--questions {questions}: give a number from 1 to {MOST_QUESTIONS}")
    if entities is not None and entities < MINIMUM_ENTITIES:
        raise ValueError(f"--entities {entities}: give at least {MINIMUM_ENTITIES}")
    check_fractions(fractions)
    _check_folder(out, overwrite)
    entities = entities or max(LEAST_DEFAULT_ENTITIES, round(1.2 * questions))
    world = build_population(entities, seed)
    library = Library(world, write_passages(world, seed))
    with atomic_directory(out) as folder:
        write_records(folder / "corpus.jsonl", map(passage_record, library.passages))
        write_records(
            folder / "triples.jsonl", (triples_sample(world, p) for p in library.passages)
        )
        figures = _write_questions(folder, library, questions, seed, fractions, progress)
        card = figures.card(library, seed, fractions)
        with atomic_write(folder / "card.json") as handle:
            json.dump(card, handle, ensure_ascii=False, indent=2)
            handle.write("\n")
    return card


def _check_folder(out: Path, overwrite: bool) -> None:
    if out.exists() and not out.is_dir():
        raise FileExistsError(f"--out {out}: a file stands there; name a folder")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise FileExistsError(f"--out {out}: the folder is not empty; empty it or add --overwrite")


def _write_questions(
    folder: Path,
    library: Library,
    count: int,
    seed: int,
    fractions: Sequence[float],
    progress: bool,
) -> Figures:
    writer, figures = QuestionWriter(library, seed), Figures()
    drafts = make_questions(library, count, seed)
    bar = tqdm(drafts, total=count, desc="questions", unit="q", disable=not progress)
    with record_files(folder, [f"questions_{split}" for split in SPLITS]) as files:
        for number, draft in enumerate(bar):
            record = writer.write(number, draft)
            split = split_of(record.id, seed, fractions)
            figures.add(split, record)
            files[f"questions_{split}"].write(record_line(record))
    return figures


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    parser.add_argument("--questions", type=int, required=True, help="number of questions")
    parser.add_argument("--seed", type=int, default=0, help="one seed, one world (default: 0)")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument(
        "--entities", type=int, help="entities, and so passages (default: 1.2 a question, min 200)"
    )
    parser.add_argument(
        "--fractions",
        type=float,
        nargs=3,
        metavar=("TRAIN", "DEV", "TEST"),
        default=DEFAULT_FRACTIONS,
        help="shares of the splits (default: 0.8 0.1 0.1)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a folder that has files")
    parser.add_argument("--json", action="store_true", help="print the card as the last line")
    return parser


def _report(card: dict[str, object], out: Path) -> None:
    rows: list[list[str]] = []
    for name in ("entities", "passages", "triples", "questions"):
        rows.append([name, str(card[name])])
    for group in ("splits", "types", "hops", "yes_no_answers"):
        counts = card[group]
        assert isinstance(counts, dict)
        rows += [[f"{group}: {name}", str(count)] for name, count in counts.items()]
    print_table(f"World in {out}", ["what", "count"], rows)


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; status 2 for input that cannot be used."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        card = build_world(
            options.questions,
            options.seed,
            options.out,
            options.entities,
            options.fractions,
            options.overwrite,
        )
    except (ValueError, FileExistsError) as error:
        parser.error(str(error))
    _report(card, options.out)
    if options.json:
        emit_json(card)


if __name__ == "__main__":
    main()
