"""The command-line options that the builders share: sources, splits, errors, output."""

import argparse
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.commands import add_output_options
from common.errors import RecordError
from common.files import file_sha256
from common.licences import NOT_STATED
from common.names import nearest_sentence
from data_gen.sources.hub import is_hub_reference, parse_hub_reference
from data_gen.sources.open_source import QUESTION_SOURCES
from data_gen.sources.splits import DEFAULT_FRACTIONS, check_fractions

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class NamedPath:
    """A `NAME=PATH` option."""

    name: str
    path: str


def named_path(names: Collection[str]) -> Callable[[str], NamedPath]:
    """Return an argparse type for NAME=PATH with NAME among `names`."""

    def parse(text: str) -> NamedPath:
        name, separator, path = text.partition("=")
        if not separator or not path or name not in names:
            known = f"write NAME=PATH with NAME one of {', '.join(names)}"
            hint = nearest_sentence(name, names) if separator and name not in names else ""
            raise argparse.ArgumentTypeError(f"{text!r}: {known}. {hint}".strip(". "))
        return NamedPath(name, path)

    return parse


def question_file(text: str) -> NamedPath:
    """Read [NAME=]PATH as an argparse type; without a NAME the file is in our contract."""
    name, separator, path = text.partition("=")
    if not separator or name not in QUESTION_SOURCES:
        return NamedPath("contract", text)
    return NamedPath(name, path)


def fractions(text: str) -> tuple[float, float, float]:
    """Read `0.94,0.06,0`: the shares of train, dev and test, as an argparse type."""
    try:
        return check_fractions([float(share) for share in text.split(",")])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Options of every builder that writes train, dev and test files with a card."""
    add_output_options(parser)
    parser.add_argument("--seed", type=int, default=0, help="seed of every random choice (0)")
    parser.add_argument(
        "--fractions",
        type=fractions,
        default=DEFAULT_FRACTIONS,
        metavar="TRAIN,DEV,TEST",
        help="shares of the splits (0.94,0.06,0)",
    )
    parser.add_argument("--skip-bad", action="store_true", help="skip and count broken records")
    parser.add_argument(
        "--tokenizer",
        default="smollm2",
        help="tokenizer of the card's token counts; 'words' counts words (smollm2)",
    )


def add_question_options(parser: argparse.ArgumentParser, limited: str) -> None:
    """Add the options that leave questions out. limited: what --limit counts."""
    parser.add_argument(
        "--exclude", type=Path, action="append", default=[], metavar="PATH",
        help="test questions (contract form): these are left out, and what shares a hop or an "
        "evidence triple with one; those of a world's folder always are",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=int, help=f"at most N {limited}, chosen by a hash of their ids"
    )
    parser.add_argument(
        "--cap", action="append", default=[], metavar="PATH=N",
        help="at most N questions of that file, chosen by a hash of their ids",
    )  # fmt: skip


class SkippedRecords:
    """Counts broken records by source; without `allowed` the first one is raised."""

    def __init__(self, allowed: bool) -> None:
        self.allowed = allowed
        self.counts: Counter[str] = Counter()
        self.examples: list[str] = []

    def handler(self, source: str) -> Callable[[RecordError], None] | None:
        """Return what a reader calls with a broken record; None lets the reader raise it."""
        if not self.allowed:
            return None

        def skip(error: RecordError) -> None:
            logger.warning("skipped: %s", error)
            self.counts[source] += 1
            self.examples = [*self.examples, str(error)][:5]

        return skip


def source_sha256(path: str | Path) -> str:
    """Return the sha256 of a file, or of a folder's JSON Lines and XML files; '' for the hub."""
    path = Path(path)
    if path.is_dir():
        files = sorted(p for suffix in ("*.jsonl", "*.xml") for p in path.rglob(suffix))
    else:
        files = [path] if path.is_file() else []
    return file_sha256(*files) if files else ""


# As their publishers say: the README of hotpotqa/hotpot and of StonyBrookNLP/musique, the data
# sets' cards of ai2_arc and web_nlg (v2 and later), the text of kelm's card for TekGen (its
# metadata say 3.0). A set that is not here is reported as unknown.
LICENCES = {
    "2wikimultihopqa": "Apache-2.0",
    "musique": "CC BY 4.0",
    "hotpotqa": "CC BY-SA 4.0",
    "world": "generated by this project",
    "wikiofgraph": "CC BY 4.0",
    "tekgen": "CC BY-SA 2.0",
    "webnlg": "CC BY-NC-SA 4.0",
    "arc_challenge": "CC BY-SA 4.0",
    "subquestions": "MIT (ProbTree), sub-answers by a model",
}


def known_licence(name: str, file: str) -> str | None:
    """Return the licence of a source by its NAME, else by its file's: `arc_challenge.jsonl`."""
    return LICENCES.get(name) or LICENCES.get(Path(file).name.split(".", 1)[0])


def source_file(path: str) -> str:
    """Return a source's name in cards: the file's, or the data set's with revision and split."""
    return parse_hub_reference(path).short if is_hub_reference(path) else Path(path).name


def source_entry(
    source: NamedPath, records: int, subsets: Sequence[Mapping[str, Any]] = ()
) -> dict[str, object]:
    """Return what a card says of a source.

    subsets: of `record_subsets`, for a file that is of no known data set; several licences are
    joined by "; ", and the subsets stand in the entry where a record names its licence.
    """
    licences = {str(row["licence"]) for row in subsets}
    known = known_licence(source.name, source.path)
    return {
        "name": source.name,
        "file": source_file(source.path),
        "sha256": source_sha256(source.path),
        "licence": known or "; ".join(sorted(licences)) or NOT_STATED,
        "records": records,
        **({"subsets": list(subsets)} if licences - {NOT_STATED} else {}),
    }
