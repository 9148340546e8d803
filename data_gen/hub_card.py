"""The card of a data set in the form of the Hugging Face hub: README.md with a YAML head."""

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from huggingface_hub import DatasetCardData

# The hub's ids of licences; another licence is "other" there, and one not stated "unknown".
_LICENCE_IDS = {
    "Apache-2.0": "apache-2.0",
    "CC BY 4.0": "cc-by-4.0",
    "CC BY-SA 3.0": "cc-by-sa-3.0",
    "CC BY-SA 4.0": "cc-by-sa-4.0",
    "CC BY-NC-SA 4.0": "cc-by-nc-sa-4.0",
    "MIT": "mit",
    "ODC-BY 1.0": "odc-by",
}
_NOT_STATED = {"see the source's records", "not stated", ""}
_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B")


def hub_page(
    card: Mapping[str, Any],
    rows: Mapping[str, int],
    hashes: Mapping[str, str],
    fields: Mapping[str, str],
) -> str:
    """README.md of a folder of Parquet files.

    card: of the build. rows, hashes: of each split's Parquet file, where it has one. fields: name
    and type of each.
    """
    sources: Sequence[Mapping[str, Any]] = card.get("sources", [])
    data = DatasetCardData(
        license=licence_ids(sources),
        pretty_name=card["title"],
        size_categories=[_size(sum(rows.values()))],
        configs=[
            {
                "config_name": "default",
                "data_files": [{"split": name, "path": f"{name}.parquet"} for name in rows],
            }
        ],
    )
    splits = [(name, count, hashes[name]) for name, count in rows.items()]
    lines = ["---", data.to_yaml(), "---", "", f"# {card['title']}", ""]
    lines += ["## Splits", "", *_table(["split", "rows", "sha256"], splits)]
    empty = [name for name, count in card.get("splits", {}).items() if not count]
    if empty:
        lines += ["", f"Without records, so without a file: {', '.join(empty)}."]
    lines += ["", "## Fields", "", *_table(["field", "type"], fields.items())]
    lines += ["", "## Sources", "", *_sources(sources)]
    lines += ["", "## How it was made", "", *_made(card), ""]
    return "\n".join(lines)


def licence_ids(sources: Sequence[Mapping[str, Any]]) -> list[str]:
    """The hub's ids of the sources' licences, each once."""
    named = [part for row in sources for part in str(row.get("licence", "")).split("; ")]
    ids = ("unknown" if n in _NOT_STATED else _LICENCE_IDS.get(n, "other") for n in named)
    return list(dict.fromkeys(ids)) or ["unknown"]


def _size(rows: int) -> str:
    digits = len(str(rows))
    return _SIZES[min(max(digits - 3, 0), len(_SIZES) - 1)]


def _sources(sources: Sequence[Mapping[str, Any]]) -> list[str]:
    if not sources:
        return ["The build's card names none."]
    columns = ["source", "file", "version", "sha256", "licence", "records"]
    return _table(columns, [_source_row(source) for source in sources])


def _source_row(source: Mapping[str, Any]) -> list[Any]:
    file, sha256 = str(source.get("file", "")), source.get("sha256", "")
    # A data set of the hub is read at a revision: NAME@REVISION:SPLIT.
    revision = file.partition("@")[2].partition(":")[0]
    named = revision or ("the file's, by its sha256" if sha256 else "not stated")
    return [source.get("name"), file, named, sha256 or "-", source.get("licence"),
            source.get("records")]  # fmt: skip


def _made(card: Mapping[str, Any]) -> list[str]:
    packages = [f"{name} {_version(name)}" for name in ("trivium-rag", "pyarrow", "datasets")]
    options = [f"- {name}: {value}" for name, value in card.get("options", {}).items()]
    options += [f"- seed: {card['seed']}"] if "seed" in card else []
    return ["`card.json` beside this page is the build's own card, with all figures.", "",
            *options, f"- written with {', '.join(packages)}"]  # fmt: skip


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of a checkout"


def _table(columns: Sequence[str], rows: Any) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(str(cell) for cell in line)} |" for line in lines]
