"""Write docs/results.md, performance.md and reproduce.md from what lies in benchmarks/results/.

python benchmarks/results_page.py           # write the pages, and README.md's table if it has one
python benchmarks/results_page.py --check   # status 1 and the first line that differs

Texts are templates in benchmarks/templates/; every figure in them is an expression over run.json
and results.json of benchmarks/record.py, over predictions, or over the metrics of checkpoints/.
Intervals and tests are those of evaluation/significance.py, computed anew.
"""

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import jinja2

from benchmarks.harness.processes import GIB
from benchmarks.harness.question_sets import TITLES, QuestionSet
from benchmarks.record import RESULTS, ROOT, RUN_FILE
from common.commands import command_parser, one_line_errors
from common.errors import UserError
from common.files import file_sha256
from common.tables import print_table
from evaluation.runs import RESULTS_FILE, STAGES, Run, read_run
from models.files.checkpoint import MANIFEST_FILE

TEMPLATES = Path(__file__).resolve().parent / "templates"
CHECKPOINTS = ROOT / "checkpoints"
PAGES = {
    "docs/results.md": "results.md.j2",
    "docs/performance.md": "performance.md.j2",
    "docs/reproduce.md": "reproduce.md.j2",
}
README_TEMPLATE = "readme_results.md.j2"
README_TABLE = re.compile(r"(<!-- results: begin -->\n)(.*?)(<!-- results: end -->)", re.DOTALL)
EVALUATIONS = "evaluations"
# Development questions, which settings are chosen on: loops as they ship, and variants LOOP__NAME.
DEVELOPMENT = "development"
# Differences with a smaller p-value are called so.
LEVEL = 0.05
# Rounding of the means that results.json and the predictions give independently.
_SAME = 1e-9


class PageError(UserError, ValueError):
    """Files that no page can be made of; the message says which."""


@dataclass(frozen=True)
class Record:
    """One folder of benchmarks/record.py."""

    name: str
    folder: Path
    run: Mapping[str, Any]
    results: Any

    @property
    def outcome(self) -> list[str]:
        """The files beside run.json."""
        return sorted(path.name for path in self.folder.iterdir() if path.name != RUN_FILE)


def read_records(results: Path) -> dict[str, Record]:
    """Return every record below a folder, by name. Raises PageError for one that is not whole."""
    found = {}
    for file in sorted(results.rglob(RUN_FILE)):
        folder = file.parent
        if not (folder / RESULTS_FILE).is_file():
            raise PageError(f"{folder} holds {RUN_FILE} without {RESULTS_FILE}: record it again")
        run, outcome = (json.loads(path.read_bytes()) for path in (file, folder / RESULTS_FILE))
        name = folder.relative_to(results).as_posix()
        found[name] = Record(name, folder, run, outcome)
    return found


def read_sets(records: Mapping[str, Record], group: str = EVALUATIONS) -> list[QuestionSet]:
    """Return a group's evaluations by data set, in the order of `TITLES`, then of their names."""
    sets: dict[str, dict[str, Run]] = {}
    for record in records.values():
        parts = record.name.split("/")
        if parts[0] == group and len(parts) == 3:
            run = read_run(f"{parts[2]}={record.folder}")
            _check_means(record, run)
            sets.setdefault(parts[1], {})[parts[2]] = replace(run, dataset=parts[1])
    order = [*TITLES, *sorted(set(sets).difference(TITLES))]
    return [QuestionSet(name, sets[name]) for name in order if name in sets]


def with_another(
    component: Path, group: str, questions: QuestionSet, records: Mapping[str, Record]
) -> list[str]:
    """Return a group's loops that were measured with another version of a component than ships.

    component: the folder that ships. Loops that were measured without it are none of them.
    """
    ships = file_sha256(component / MANIFEST_FILE)
    name = f"checkpoints/{component.name}"
    ran = {loop: records[f"{group}/{questions.name}/{loop}"].run for loop in questions.loops}
    versions = {loop: run["components"].get(name) for loop, run in ran.items()}
    return [loop for loop, own in versions.items() if own not in (None, ships)]


def _check_means(record: Record, run: Run) -> None:
    for name in ("em", "f1"):
        values = run.values(name)
        if abs(sum(values) / len(values) - record.results[name]) > _SAME:
            raise PageError(f"{record.folder}: predictions and results differ in {name}")


def read_components(checkpoints: Path) -> dict[str, dict[str, Any]]:
    """Return the metrics of each shipped component and its size, by its folder's name."""
    return {
        file.parent.name: {
            **_component(json.loads(file.read_bytes())),
            "megabytes": sum(path.stat().st_size for path in file.parent.iterdir()) / 1e6,
        }
        for file in sorted(checkpoints.glob("*/metrics.json"))
    }


def _component(metrics: Mapping[str, Any]) -> dict[str, Any]:
    # A mean of two components tells of the training of its last part.
    last = metrics.get("last_part", metrics)
    train, validation = last["settings"]["train"], last["settings"]["validation"]
    batch = train["batch_size"] * train["gradient_accumulation_steps"]
    # Those of an adapter whose rank was lowered were measured before.
    lowered = last.get("lowered", {})
    figures = lowered.get("figures", last)
    named = ", ".join(
        f"{name[5:].replace('_', ' ')} {value:.3f}"
        for name, value in figures.items()
        if name.startswith("eval_")
    )
    whose = f"at rank {lowered['rank']}: " if lowered and named else ""
    if last is not metrics and named:
        whose = "its last part alone: " + whose
    return {
        "samples_seen": last["steps"] * batch,
        "minutes": last["train_seconds"] / 60,
        "tokens_per_second": last["train_tokens_per_second"],
        "held_out": validation["samples"] or None,
        "figures": whose + named,
    }


def machines(records: Iterable[Record]) -> dict[str, str]:
    """Return a letter for each machine of the records, by its description."""
    described = dict.fromkeys(machine(record.run) for record in records if record.run["machine"])
    return {text: chr(ord("A") + place) for place, text in enumerate(described)}


def machine(run: Mapping[str, Any]) -> str:
    """Return a run's machine and versions in a line."""
    told, versions = run["machine"], run["versions"]
    flags = ", ".join(told["flags"]) or "no flags of interest"
    gpus = ", ".join(told["gpus"]) or "no GPU"
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"{told['processor']}, {told['cores']} cores ({flags}), {told['memory_gib']} GiB, {gpus}; "
        f"{libraries}"
    )


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share from 0 to 1 in percent; "–" for none."""
    return "–" if share is None else f"{100 * share:.{digits}f}"


def within(values: Mapping[str, float]) -> str:
    """Return a share in percent with the bounds of its interval."""
    sign = "+" if "difference" in values else ""
    middle = values["difference" if sign else "mean"]
    low, high = values["low"], values["high"]
    return f"{100 * middle:{sign}.1f} [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"


def number(value: float | None, digits: int = 0) -> str:
    """Return a number with separators of thousands; "–" for none."""
    return "–" if value is None else f"{value:,.{digits}f}"


def mebibytes(count: float) -> str:
    """Return a number of bytes in MiB."""
    return number(count / 2**20)


def probability(value: float) -> str:
    """Return a p-value in two significant digits."""
    return f"{value:.2g}"


@cache
def _environment(templates: Path) -> jinja2.Environment:
    """Return what reads templates; it keeps what it has compiled of them."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters = {
        "percent": percent,
        "within": within,
        "number": number,
        "mebibytes": mebibytes,
        "p": probability,
    }
    environment.filters.update(filters)
    return environment


def render(results: Path, checkpoints: Path, templates: Path = TEMPLATES) -> dict[str, str]:
    """Return the pages by their paths, and README.md's table under its template's name."""
    records = read_records(results)
    values = {
        "records": records,
        "results": {name: record.results for name, record in records.items()},
        "sets": read_sets(records),
        "development": read_sets(records, DEVELOPMENT),
        "components": read_components(checkpoints),
        "machines": machines(records.values()),
        "machine": machine,
        "with_another": partial(with_another, checkpoints / "ras_smollm2"),
        "data": _data(records.values()),
        "level": LEVEL,
        "without_errors": "0",
        "stage_names": STAGES,
        "gib": GIB,
        "giga": 10**9,
    }
    texts = {}
    for page, name in {**PAGES, README_TEMPLATE: README_TEMPLATE}.items():
        text = _environment(templates).get_template(name).render(values)
        texts[page] = re.sub(r"\n{3,}", "\n\n", text)
    return texts


def _data(records: Iterable[Record]) -> dict[str, dict[str, Any]]:
    """Return every data file of the records with its hash; two contents of one name are two
    rows.
    """
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        for path, told in record.run["data"].items():
            if told:
                found[f"{path}@{told['sha256']}"] = {"path": path, **told}
    return dict(sorted(found.items()))


def pages_to_write(root: Path, texts: Mapping[str, str]) -> dict[Path, str]:
    """Return the text that each file should hold; README.md only where it has the two markers."""
    pages = {root / page: texts[page] for page in PAGES}
    readme = root / "README.md"
    if readme.is_file():
        old = readme.read_text(encoding="utf-8")
        new = README_TABLE.sub(lambda found: found[1] + texts[README_TEMPLATE] + found[3], old)
        pages[readme] = new
    return pages


def first_difference(path: Path, text: str) -> str | None:
    """Return the first difference of a file from its text as a line; None for none."""
    old = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    new = text.splitlines()
    for place, (have, want) in enumerate(zip_longest(old, new), start=1):
        if have != want:
            return f"{path.name}:{place}: holds {have or ''!r}, the files say {want or ''!r}"
    return None


def check(pages: Mapping[Path, str]) -> Sequence[str]:
    """Return the first difference of each page that differs."""
    found = (first_difference(path, text) for path, text in pages.items())
    return [line for line in found if line]


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--check", action="store_true", help="write nothing; status 1 where a page differs")
    add("--results", type=Path, default=RESULTS, help="folder of records (default: %(default)s)")
    add("--root", type=Path, default=ROOT, help="repository with the pages (default: this one)")
    return parser


@one_line_errors(ValueError, OSError, jinja2.TemplateError)
def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    pages = pages_to_write(options.root, render(options.results, CHECKPOINTS))
    if options.check:
        if wrong := check(pages):
            raise PageError("; ".join(wrong) + ". Run benchmarks/results_page.py")
        return
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    print_table("Written", ["page", "lines"], [[p.name, t.count("\n")] for p, t in pages.items()])


if __name__ == "__main__":
    main()
