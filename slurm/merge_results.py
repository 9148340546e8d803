"""Join the results of several evaluations into one file and one table.

slurm/merge_results.py --out results.json DIR [DIR ...]
"""

import json
from pathlib import Path
from typing import Any

from common.commands import command_parser, one_line_errors
from common.files import atomic_write
from common.tables import print_table
from evaluation.runs import RESULTS_FILE
from evaluation.significance import COLUMNS as TYPE_COLUMNS
from evaluation.significance import type_rows

COLUMNS = ("loop", "n", "em", "f1", "llm_calls", "weighted_tokens", "seconds", "errors")


def read_results(folder: Path) -> dict[str, Any]:
    """The results.json of one evaluation.

    Raises:
        FileNotFoundError: that evaluation has not finished.
    """
    path = folder / RESULTS_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file. Submit that task of the array again")
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return results


@one_line_errors(FileNotFoundError, ValueError)
def main() -> None:
    """Run the command line."""
    parser = command_parser(__doc__)
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="written by evaluate.py"
    )
    parser.add_argument("--out", required=True, type=Path, help="file to write")
    arguments = parser.parse_args()
    merged = [read_results(folder) for folder in arguments.folders]
    with atomic_write(arguments.out) as handle:
        handle.write(json.dumps(merged, indent=2) + "\n")
    rows = [[results.get(column) for column in COLUMNS] for results in merged]
    print_table(f"Merged into {arguments.out}", list(COLUMNS), rows)
    by_type = [[r["loop"], *row] for r in merged for row in type_rows(r["by_type"])]
    print_table("By question type", ["loop", *TYPE_COLUMNS], by_type)


if __name__ == "__main__":
    main()
