"""An audit's report: one JSON object, and the same as a page to read."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.files import atomic_write
from common.tables import markdown_table
from data_gen.audits.findings import Finding, Place, Severity
from data_gen.audits.inputs import SplitFile, fetch
from data_gen.audits.run import Outcome

_ORDER = list(Severity)


def report_of(outcome: Outcome, files: Sequence[SplitFile], unit: str) -> dict[str, Any]:
    """Return report; examples' records are read from their files. `unit`: what lengths count."""
    places = {p for finding in outcome.findings for e in finding.examples for p in e.places}
    records = fetch(files, places)
    ordered = sorted(outcome.findings, key=lambda finding: _ORDER.index(finding.severity))
    severities = [finding.severity for finding in ordered]
    return {
        "kind": outcome.kind.name,
        "files": [
            {"split": file.split, "file": str(file.path), "records": count}
            for file, count in zip(files, outcome.records, strict=True)
        ],
        "counted_in": unit,
        "errors": severities.count(Severity.ERROR),
        "warnings": severities.count(Severity.WARNING),
        "notes": severities.count(Severity.NOTE),
        "findings": [_finding(finding, files, records) for finding in ordered],
        "figures": outcome.figures,
    }


def _finding(
    finding: Finding, files: Sequence[SplitFile], records: Mapping[Place, Any]
) -> dict[str, Any]:
    return {
        "name": finding.name,
        "severity": str(finding.severity),
        "count": finding.count,
        "of": finding.of,
        "unit": finding.unit,
        "rate": round(finding.rate, 6),
        "what": finding.what,
        "remedy": finding.remedy,
        "examples": [
            {
                "note": example.note,
                "records": [
                    {
                        "where": f"{files[place.file].path}:{place.line}",
                        "record": records.get(place),
                    }
                    for place in example.places
                ],
            }
            for example in finding.examples
        ],
    }


def finding_rows(report: Mapping[str, Any]) -> list[list[Any]]:
    """Return one row for each check, the worst first: severity, name, count, of, rate, what."""
    return [
        [f["severity"], f["name"], f["count"], f["of"], f"{f['rate']:.2%}", _sentence(f)]
        for f in report["findings"]
    ]


def _sentence(finding: Mapping[str, Any]) -> str:
    return f"{finding['unit']} {finding['what']}"


def write_report(folder: Path, report: Mapping[str, Any]) -> None:
    """Write report.json and report.md into `folder`, each whole or not at all."""
    with atomic_write(folder / "report.json") as handle:
        handle.write(json.dumps(report, indent=1) + "\n")
    with atomic_write(folder / "report.md") as handle:
        # An example may hold half of a surrogate pair, which UTF-8 cannot.
        page = report_page(report).encode("utf-8", "backslashreplace")
        handle.write(page.decode("utf-8"))


def report_page(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    files = [[f["split"], f["file"], f["records"]] for f in report["files"]]
    lines = [
        f"# Audit of {report['kind']}",
        "",
        *_table(["split", "file", "whole records"], files),
        "",
        f"{report['errors']} errors, {report['warnings']} warnings, {report['notes']} notes. "
        "docs/audit.md explains each check.",
        "",
        *_table(["severity", "check", "count", "of", "rate", "what"], finding_rows(report)),
    ]
    for finding in report["findings"]:
        if finding["severity"] != Severity.OK:
            lines += ["", *_section(finding)]
    lines += ["", "## Figures", "", f"Lengths in {report['counted_in']}."]
    for name, figures in report["figures"].items():
        lines += ["", f"### {name.replace('_', ' ')}", "", *_figures(figures)]
    return "\n".join(lines) + "\n"


def _section(finding: Mapping[str, Any]) -> list[str]:
    lines = [
        f"## {finding['name']} ({finding['severity']})",
        "",
        f"{finding['count']} of {finding['of']} {_sentence(finding)}.",
        "",
        f"Remedy: {finding['remedy']}.",
    ]
    for example in finding["examples"]:
        if example["note"]:
            lines += ["", f"> {' '.join(example['note'].split())}"]
        for shown in example["records"]:
            text = json.dumps(shown["record"], ensure_ascii=False)
            lines += ["", f"`{shown['where']}`", "", "```json", text, "```"]
    return lines


def _figures(figures: Any) -> list[str]:
    if isinstance(figures, Mapping):
        figures = [{"what": name, **values} for name, values in figures.items()]
    if not isinstance(figures, list):
        return [str(figures)]
    if not figures:
        return ["none"]
    columns = list(dict.fromkeys(name for row in figures for name in row))
    return _table(columns, [[row.get(column, "–") for column in columns] for row in figures])


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    body = ([str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows)
    return markdown_table(columns, body)
