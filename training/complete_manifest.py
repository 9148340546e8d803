"""Name the subsets and licences in the manifest of a component that shipped without them.

    training/complete_manifest.py --component checkpoints/t2t_smollm2 \\
        --records DATA/triples/train.jsonl --datasets tekgen_sample,genwiki_sample

Out of the sources that the manifest has: their files, sha256 and records stay as they were written.
The manifest says that it was completed afterwards. A component that ships anew has all this from
its data's card (training/ship.py)."""

import argparse
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from common.commands import command_parser, one_line_errors
from common.files import atomic_write, file_sha256
from common.licences import data_subsets, record_subsets
from common.tables import print_table
from models.files.checkpoint import MANIFEST_FILE, CheckpointError
from training.ship import named_licence, refuse_non_commercial, with_licences

COMPLETED = (
    "subsets and licences were completed after the training, out of the sources that were written "
    "with it and its documented commands (docs/results.md); they are those of the last stage"
)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--component", required=True, type=Path, help="folder whose manifest is completed")
    add("--records", type=Path, metavar="FILE", help="a source of several data sets (JSON Lines)")
    add(
        "--datasets", type=lambda text: text.split(","), default=[], metavar="A,B",
        help="those of its data sets that the build took (all)",
    )  # fmt: skip
    add(
        "--licence", type=named_licence, action="append", default=[], metavar="SUBSET=LICENCE",
        help="licence of a subset whose source states none",
    )  # fmt: skip
    return parser


def file_subsets(path: Path, datasets: Collection[str]) -> list[dict[str, Any]]:
    """The subsets of a file's records, those of `datasets` alone where there are any."""
    with path.open(encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        return record_subsets(r for r in rows if not datasets or r.get("dataset") in datasets)


def completed(
    manifest: Mapping[str, Any],
    licences: Mapping[str, str],
    records: Path | None = None,
    datasets: Collection[str] = (),
) -> dict[str, Any]:
    """The manifest with subsets in place of sources.

    Raises CheckpointError where `records` is no source of the manifest, does not hold as many
    records, or a licence forbids commercial use, and for a manifest without sources.
    """
    data = dict(manifest["data"])
    sources = data.pop("sources", None)
    if sources is None:
        raise CheckpointError("the manifest names no sources: it is complete, or was never written")
    if records is not None:
        digest = file_sha256(records)
        mixed = next((row for row in sources if row["sha256"] == digest), None)
        if mixed is None:
            raise CheckpointError(f"{records} is no source of the manifest: its sha256 is another")
        parts = file_subsets(records, datasets)
        count = sum(part["records"] for part in parts)
        if count != mixed["records"]:
            raise CheckpointError(
                f"{records}: {count} records of these data sets, but {mixed['records']} were read"
            )
        sources = [{**row, "subsets": parts} if row is mixed else row for row in sources]
    subsets = with_licences(data_subsets(sources), licences)
    refuse_non_commercial(subsets)
    return {**manifest, "data": {**data, "subsets": subsets, "completed": COMPLETED}}


@one_line_errors(OSError, ValueError, CheckpointError)
def main() -> None:
    """Run the command line."""
    options = _parser().parse_args()
    path = options.component / MANIFEST_FILE
    manifest = json.loads(path.read_text(encoding="utf-8"))
    made = completed(manifest, dict(options.licence), options.records, options.datasets)
    with atomic_write(path) as handle:
        handle.write(json.dumps(made, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
    columns = ["subset", "file", "records", "licence"]
    rows = [[row[name] for name in columns] for row in made["data"]["subsets"]]
    print_table(str(options.component), columns, rows)


if __name__ == "__main__":
    main()
