"""Write a built folder as Parquet, for `datasets.load_dataset(DIR)` and for the hub.

    data_gen/to_parquet.py BUILT_DIR --out DIR

Writes DIR/{split}.parquet for every split that has records, card.json as it was, and README.md, the
card in Hugging Face's form. A command and not an option of the builders, so that it takes every
built folder: older ones, merged ones, those of other builders."""

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.commands import add_output_options, command_parser, log_warnings, one_line_errors
from common.files import file_sha256
from common.tables import report
from data_gen.builds.parquet import RowWriter, hub_page
from data_gen.sources.splits import SPLITS
from data_gen.streaming.files import output


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    parser.add_argument("built", type=Path, metavar="BUILT_DIR", help="folder of a builder")
    add_output_options(parser)
    return parser


def read_card(folder: Path) -> dict[str, Any]:
    """Return the card of a built folder. Raises ValueError where there is none that is whole."""
    path = folder / "card.json"
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file. Name a folder that a builder wrote") from None
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}). Build the folder again") from None
    if not isinstance(card, dict) or not isinstance(card.get("title"), str):
        raise ValueError(f"{path}: has no 'title'. Name a folder that a builder wrote")
    if "shard" in card:
        raise ValueError(
            f"{path}: a shard's card. Merge the shards first: data_gen/merge_shards.py"
        )
    return card


def write_parquet(built: Path, folder: Path) -> dict[str, int]:
    """Write a built folder's splits, cards and page to `folder`; the rows of each split written."""
    card = read_card(built)
    files: dict[str, Path] = {name: built / f"{name}.jsonl" for name in SPLITS}
    filled = {name: file for name, file in files.items() if file.is_file() and file.stat().st_size}
    if not filled:
        raise ValueError(f"{built}: no split has a record. Name a folder that a builder wrote")
    writer = RowWriter(next(iter(filled.values())))
    rows: dict[str, int] = {
        name: writer.write(file, folder / f"{name}.parquet")
        for name, file in tqdm(filled.items(), desc="parquet", unit="split")
    }
    for name, count in rows.items():
        if count != card.get("splits", {}).get(name, count):
            problem = f"has {count} records, {built / 'card.json'} says {card['splits'][name]}"
            raise ValueError(f"{files[name]}: {problem}. Build the folder again")
    fields = {field.name: str(field.type) for field in writer.schema}
    hashes = {name: file_sha256(folder / f"{name}.parquet") for name in rows}
    (folder / "README.md").write_text(hub_page(card, rows, hashes, fields), encoding="utf-8")
    shutil.copyfile(built / "card.json", folder / "card.json")
    return rows


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = _parser().parse_args(arguments)
    log_warnings(options)
    with output(options.out) as (folder, _):
        rows = write_parquet(options.built, folder)
    report("Parquet", ["split", "rows"], list(rows.items()), options, {"rows": rows})


if __name__ == "__main__":
    main()
